package acp

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/gth-server/gth-server/acp/internal/stream"
	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// modeOption is the id of the configuration option that mirrors the mode.
const modeOption = "mode"

// rungText is what a picker says of a rung: at most two sentences, of which
// many show only the first.
func rungText(r approvals.Rung) (name, description string) {
	switch r {
	case approvals.Write:
		return "Write", "For edits that you look at afterwards: in this session files change without a question, and whatever else does more than read is asked about."
	case approvals.Assisted:
		return "Assisted", "For recoverable work in this session: a model rates commands and outside calls, and you are asked about those that it does not rate safe. Files may change without a question."
	case approvals.Auto:
		return "Auto", "For longer recoverable work in this session: the agent may justify or replace a call that was not rated safe before you are asked. What it cannot settle ends with you."
	case approvals.Bypass:
		return "Bypass", "For work in this session whose every outcome you accept: nothing is rated and nothing is asked. Your deny rules still apply."
	}
	return "Manual", "For following each step of this session: whatever does more than read is asked about. Choose write to let files change without a question."
}

// rungs lists the rungs that a session here may have, none looser than the
// ceiling.
func (c *conn) rungs() []approvals.Rung {
	all := approvals.Rungs()
	return all[:max(0, slices.Index(all, c.server.opts.Ceiling))+1]
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
	var values []wire.SessionConfigSelectOption
	for _, r := range c.rungs() {
		name, text := rungText(r)
		values = append(values, wire.SessionConfigSelectOption{Value: wire.SessionConfigValueID(r.String()), Name: name, Description: wire.Some(text)})
	}
	list, err := json.Marshal(values)
	if err != nil {
		list = json.RawMessage("[]")
	}
	return []wire.SessionConfigOption{{
		Base: wire.SessionConfigOptionBase{
			ID: modeOption, Name: "Approvals", Category: wire.Some(wire.SessionConfigOptionCategoryMode),
			Description: wire.Some("How much the agent may do in this session without asking."),
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
	return c.inOrder(p.SessionID, func(ctx context.Context) (any, error) {
		if _, err := c.setRung(ctx, p.SessionID, string(p.ModeID)); err != nil {
			return nil, err
		}
		return wire.SetSessionModeResponse{}, nil
	})
}

// setConfigOption serves session/set_config_option; its answer is the
// whole list.
func (c *conn) setConfigOption(r stream.Request) stream.Work {
	var p wire.ConfigOptionChange
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	return c.inOrder(p.SessionID, func(ctx context.Context) (any, error) {
		var value string
		switch {
		case p.ConfigID != modeOption:
			return nil, invalidParams("configuration option %q is unknown: the only one is %q", string(p.ConfigID), modeOption)
		case json.Unmarshal(p.Value, &value) != nil:
			return nil, invalidParams("the value of option %q is no text: send the name of a rung", modeOption)
		}
		s, err := c.setRung(ctx, p.SessionID, value)
		if err != nil {
			return nil, err
		}
		return wire.SetSessionConfigOptionResponse{ConfigOptions: c.configOptions(s.Rung())}, nil
	})
}

// setRung moves a session, and returns when the client was told so. It is
// the user's own act in the editor, so a looser rung is taken, up to the
// ceiling.
func (c *conn) setRung(ctx context.Context, id wire.SessionID, name string) (*session.Session, error) {
	a, err := c.lookup(id)
	if err != nil {
		return nil, err
	}
	rung, err := approvals.ParseRung(name)
	if err != nil {
		return nil, invalidParams("%v", err)
	}
	if !slices.Contains(c.rungs(), rung) {
		return nil, invalidParams("rung %s is looser than the ceiling %s of this surface: choose a stricter one, or raise approvals.ceiling in the configuration", rung, c.server.opts.Ceiling)
	}
	if err := a.s.SetRung(ctx, rung, surface); err != nil {
		return nil, failure("the rung could not be set", err)
	}
	a.told(ctx)
	return a.s, nil
}

// lower moves a session that was made under another ceiling below this one.
func (c *conn) lower(ctx context.Context, s *session.Session) error {
	if slices.Contains(c.rungs(), s.Rung()) {
		return nil
	}
	c.log.Warn("a session stood above the ceiling and was lowered", "session", s.ID(), "rung", s.Rung(), "ceiling", c.server.opts.Ceiling)
	if err := s.SetRung(ctx, c.server.opts.Ceiling, surface+" ceiling"); err != nil {
		return failure("the session could not be lowered to the ceiling", err)
	}
	return nil
}
