package acp

import (
	"context"
	"encoding/json"

	"github.com/gth-server/gth-server/acp/internal/stream"
	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/approvals"
)

// modeOption is the id of the configuration option that mirrors the mode.
const modeOption = "mode"

// rungText is what a picker says of a rung; many show only the first
// sentence.
func rungText(r approvals.Rung) (name, description string) {
	switch r {
	case approvals.Write:
		return "Write", "Asks before everything but reading, and writing files of the workspace. Meant for edits that you follow."
	case approvals.Assisted:
		return "Assisted", "Rates commands and runs recoverable work of this session that is rated safe; asks about the rest. Files may change without a question."
	case approvals.Auto:
		return "Auto", "As assisted for recoverable work of this session, and the agent may argue with a bad rating. The argument ends at a person."
	case approvals.Bypass:
		return "Bypass", "Runs what your deny rules let through, without a question in this session. Meant for a machine that may be lost."
	}
	return "Manual", "Asks before everything but reading in this session. Meant for work that you want to see step by step."
}

// rungs lists the rungs that a session here may have.
func (c *conn) rungs() []approvals.Rung {
	var out []approvals.Rung
	for _, r := range approvals.Rungs() {
		out = append(out, r)
		if r == c.server.opts.Ceiling {
			break
		}
	}
	return out
}

func (c *conn) modes(now approvals.Rung) wire.SessionModeState {
	s := wire.SessionModeState{CurrentModeID: wire.SessionModeID(now.String())}
	for _, r := range c.rungs() {
		name, text := rungText(r)
		s.AvailableModes = append(s.AvailableModes, wire.SessionMode{ID: wire.SessionModeID(r.String()), Name: name, Description: wire.Some(text)})
	}
	return s
}

// configOptions is the whole list of options: the rung, for clients that
// read options instead of modes.
func (c *conn) configOptions(now approvals.Rung) []wire.SessionConfigOption {
	type value struct {
		Value       string `json:"value"`
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	var values []value
	for _, r := range c.rungs() {
		name, text := rungText(r)
		values = append(values, value{r.String(), name, text})
	}
	list, err := json.Marshal(values)
	if err != nil {
		list = json.RawMessage("[]")
	}
	return []wire.SessionConfigOption{{
		Base: wire.SessionConfigOptionBase{
			ID: modeOption, Name: "Rung", Category: wire.Some(wire.SessionConfigOptionCategoryMode),
			Description: wire.Some("How much the agent may do without asking."),
		},
		Select: &wire.SessionConfigSelect{CurrentValue: wire.SessionConfigValueID(now.String()), Options: list},
	}}
}

// rungUpdates tell a client that the rung changed, in both forms.
func (c *conn) rungUpdates(now approvals.Rung) []wire.SessionUpdate {
	return []wire.SessionUpdate{
		{CurrentModeUpdate: &wire.CurrentModeUpdate{CurrentModeID: wire.SessionModeID(now.String())}},
		{ConfigOptionUpdate: &wire.ConfigOptionUpdate{ConfigOptions: c.configOptions(now)}},
	}
}

// setMode serves session/set_mode.
func (c *conn) setMode(r stream.Request) stream.Work {
	var p wire.SetSessionModeRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	a, err := c.lookup(p.SessionID)
	if err != nil {
		return fail(err)
	}
	return func(ctx context.Context) (any, error) {
		return wire.SetSessionModeResponse{}, a.setRung(ctx, string(p.ModeID))
	}
}

// setConfigOption serves session/set_config_option; its answer is the
// whole list.
func (c *conn) setConfigOption(r stream.Request) stream.Work {
	var p struct {
		SessionID wire.SessionID  `json:"sessionId"`
		ConfigID  string          `json:"configId"`
		Value     json.RawMessage `json:"value"`
	}
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	a, err := c.lookup(p.SessionID)
	if err != nil {
		return fail(err)
	}
	var value string
	switch {
	case p.ConfigID != modeOption:
		return fail(invalidParams("configuration option %q is unknown: the only one is %q", p.ConfigID, modeOption))
	case json.Unmarshal(p.Value, &value) != nil:
		return fail(invalidParams("the value of option %q is no text: send the name of a rung", modeOption))
	}
	return func(ctx context.Context) (any, error) {
		if err := a.setRung(ctx, value); err != nil {
			return nil, err
		}
		return wire.SetSessionConfigOptionResponse{ConfigOptions: c.configOptions(a.s.Rung())}, nil
	}
}

// setRung moves the session. It is the user's own act in the editor, so a
// looser rung is taken, up to the ceiling.
func (a *attached) setRung(ctx context.Context, name string) error {
	rung, err := approvals.ParseRung(name)
	if err != nil {
		return invalidParams("%v", err)
	}
	for _, r := range a.c.rungs() {
		if r != rung {
			continue
		}
		if err := a.s.SetRung(ctx, rung, surface); err != nil {
			return failure("the rung could not be set", err)
		}
		return nil
	}
	return invalidParams("rung %s is looser than the ceiling %s of this surface: choose a stricter one, or raise approvals.ceiling in the configuration", rung, a.c.server.opts.Ceiling)
}
