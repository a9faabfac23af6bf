package config

import (
	"encoding/json"
	"fmt"

	"github.com/gth-server/gth-server/approvals"
)

// decode turns a valid tree into a Config.
func decode(t *tree) (Config, error) {
	var c Config
	if err := json.Unmarshal([]byte(t.json()), &c); err != nil {
		return Config{}, fmt.Errorf("configuration: %w: this is a defect of the server", err)
	}
	var err error
	if c.Approvals, err = decodeApprovals(t.get("approvals")); err != nil {
		return Config{}, err
	}
	if c.BuiltInTools, err = decodeTools(t.get("builtInTools")); err != nil {
		return Config{}, err
	}
	commands := t.get("commands")
	c.Commands = map[string]Command{}
	for _, name := range commands.sorted() {
		if c.Commands[name], err = decodeCommand(commands.keys[name]); err != nil {
			return Config{}, err
		}
	}
	return c, nil
}

func decodeCommand(t *tree) (Command, error) {
	var c Command
	if m := t.get("model"); m != nil {
		if err := json.Unmarshal([]byte(m.json()), &c.Model); err != nil {
			return c, err
		}
	}
	if a := t.get("approvals"); a != nil {
		got, err := decodeApprovals(a)
		if err != nil {
			return c, err
		}
		c.Approvals = &got
	}
	var err error
	c.BuiltInTools, err = decodeTools(t.get("builtInTools"))
	return c, err
}

func decodeApprovals(t *tree) (Approvals, error) {
	t = expandRung(t)
	a := Approvals{Rater: t.str("rater")}
	for key, dst := range map[string]**approvals.Rung{"mode": &a.Mode, "ceiling": &a.Ceiling} {
		if v := t.get(key); v != nil {
			r, err := approvals.ParseRung(v.text)
			if err != nil {
				return Approvals{}, fmt.Errorf("%s: %w", v.source, err)
			}
			*dst = &r
		}
	}
	for key, dst := range map[string]*[]approvals.SourcedEntry{"allow": &a.Allow, "deny": &a.Deny, "escalate": &a.Escalate} {
		var err error
		if *dst, err = decodeEntries(t.get(key)); err != nil {
			return Approvals{}, err
		}
	}
	if v := t.get("raterTimeoutMs"); v != nil {
		if err := json.Unmarshal([]byte(v.raw), &a.RaterTimeoutMs); err != nil {
			return Approvals{}, fmt.Errorf("%s: %w", v.source, err)
		}
	}
	if v := t.get("mcp"); v != nil {
		if err := json.Unmarshal([]byte(v.json()), &a.MCP); err != nil {
			return Approvals{}, fmt.Errorf("%s: %w", v.source, err)
		}
	}
	return a, nil
}

// decodeEntries returns nil for a list that is not stated.
func decodeEntries(t *tree) ([]approvals.SourcedEntry, error) {
	if t == nil {
		return nil, nil
	}
	out := make([]approvals.SourcedEntry, len(t.list))
	for i, e := range t.list {
		if err := json.Unmarshal([]byte(e.raw), &out[i].Entry); err != nil {
			return nil, fmt.Errorf("%s: %w", e.source, err)
		}
		out[i].Source = e.source
	}
	return out, nil
}

// decodeTools reads both forms: a list of names, each on, and a map. It
// returns nil when neither is stated.
func decodeTools(t *tree) (map[string]Tool, error) {
	if t == nil {
		return nil, nil
	}
	tools := map[string]Tool{}
	for _, name := range t.list {
		tools[name.text] = Tool{Enabled: new(true)}
	}
	for name, v := range t.keys {
		tool := Tool{Enabled: new(true)} // of its own: decoding writes into it
		var dst any = &tool
		if v.keys == nil {
			dst = &tool.Enabled
		}
		if err := json.Unmarshal([]byte(v.json()), dst); err != nil {
			return nil, fmt.Errorf("%s: %w", v.source, err)
		}
		tools[name] = tool
	}
	return tools, nil
}

// ParseApprovals reads the value of the key approvals alone: a rung or an
// object. Rules get "approvals:line" as their source. Errors are those of a
// file. Whether rater names a profile is not checked.
func ParseApprovals(raw json.RawMessage) (Approvals, error) {
	c := &checker{file: "approvals", src: raw}
	t, err := c.parse(gateSpec, "approvals")
	if err != nil {
		return Approvals{}, err
	}
	return decodeApprovals(t)
}
