package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// nameLength bounds the name of an option, in characters; the content of
// the request shows everything.
const nameLength = 120

// ask puts a question of a turn to the client in a goroutine of its own,
// which ends before the turn is answered. It is called by the pump.
func (a *attached) ask(r approvals.Request, turn string) {
	ctx, cancel := context.WithCancelCause(a.c.ctx)
	a.mu.Lock()
	if t := a.running; t != nil && t.cancelled && t.id == turn {
		a.mu.Unlock()
		cancel(nil)
		return // the session settles the questions of a cancelled turn
	}
	a.asks[r.ID] = question{cancel, turn}
	a.mu.Unlock()
	req := a.permissionRequest(r)
	a.asking.Go(func() {
		defer a.forget(r.ID)
		choice, ok := approvals.Unanswered, true
		if !r.Typed {
			choice, ok = a.request(ctx, req)
		}
		if ok {
			a.settle(r.ID, turn, choice)
		}
	})
}

// request asks the client. It reports false when the question was settled
// otherwise or the client is gone: then it stays as it is.
func (a *attached) request(ctx context.Context, req wire.RequestPermissionRequest) (approvals.Choice, bool) {
	var res wire.RequestPermissionResponse
	err := a.c.rpc.Call(ctx, wire.MethodSessionRequestPermission, req, &res)
	var said *jsonrpc2.Error
	switch {
	case errors.Is(context.Cause(ctx), errDropped):
		return approvals.Unanswered, true
	case ctx.Err() != nil, errors.Is(err, jsonrpc2.ErrClosed):
		return approvals.Unanswered, false
	case err != nil && !errors.As(err, &said) && a.c.hasEnded():
		return approvals.Unanswered, false
	case err != nil:
		a.c.log.Warn("the client could not answer a permission request: the call is refused", "session", a.s.ID(), "error", err)
		return approvals.RejectOnce, true
	}
	return choiceOf(res.Outcome, req.Options), true
}

// choiceOf reads an outcome. Whatever was not offered refuses.
func choiceOf(o wire.RequestPermissionOutcome, offered []wire.PermissionOption) approvals.Choice {
	if o.Selected == nil {
		return approvals.RejectOnce
	}
	for _, opt := range offered {
		if opt.OptionID == o.Selected.OptionID {
			var c approvals.Choice
			if c.UnmarshalText([]byte(opt.OptionID)) == nil {
				return c
			}
		}
	}
	return approvals.RejectOnce
}

// settle stores the answer. When that fails the turn must not wait for it. A
// cancelled turn's questions count as not answered, unless it was cancelled
// because the client is gone: they outlive it.
func (a *attached) settle(askID, turn string, choice approvals.Choice) {
	a.mu.Lock()
	if t := a.running; t != nil && t.cancelled && t.id == turn {
		choice = approvals.Unanswered
		if t.lost() {
			a.mu.Unlock()
			return
		}
	}
	a.mu.Unlock()
	_, err := a.s.Answer(a.c.ctx, askID, approvals.Answer{Choice: choice, By: surface, At: time.Now()})
	switch {
	case err == nil, errors.Is(err, session.ErrClosed), a.c.ctx.Err() != nil:
	case errors.Is(err, session.ErrConflict), errors.Is(err, session.ErrNotFound):
		a.c.log.Debug("an answer came too late", "session", a.s.ID(), "ask", askID, "error", err)
	default:
		a.c.log.Error("an answer could not be stored: the turn is cancelled", "session", a.s.ID(), "ask", askID, "error", err)
		a.s.Cancel(fmt.Errorf("the answer could not be stored: %w", err))
	}
}

func (a *attached) forget(askID string) { a.withdraw(askID, errSettled) }

// withdraw ends the request for one question.
func (a *attached) withdraw(askID string, cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q, ok := a.asks[askID]; ok {
		q.withdraw(cause)
		delete(a.asks, askID)
	}
}

func (a *attached) withdrawAll(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, q := range a.asks {
		q.withdraw(cause)
		delete(a.asks, id)
	}
}

// permissionRequest repeats the announced call and says what is asked.
func (a *attached) permissionRequest(r approvals.Request) wire.RequestPermissionRequest {
	u := wire.ToolCallUpdate{
		ToolCallID: wire.ToolCallID(r.CallID), Status: wire.Some(wire.ToolCallStatusPending),
		Content: wire.Some(questionContent(r)),
	}
	if c := a.tr.calls[r.CallID]; c != nil {
		u.Title, u.Kind, u.RawInput = wire.Some(c.title), wire.Some(c.kind), c.input
		if c.locations != nil {
			u.Locations = wire.Some(c.locations)
		}
	}
	return wire.RequestPermissionRequest{SessionID: wire.SessionID(a.s.ID()), ToolCall: u, Options: options(r)}
}

// options lists the answers that r allows, in the order that clients rely on.
func options(r approvals.Request) []wire.PermissionOption {
	var out []wire.PermissionOption
	add := func(c approvals.Choice, kind wire.PermissionOptionKind, name string) {
		out = append(out, wire.PermissionOption{OptionID: wire.PermissionOptionID(c.String()), Kind: kind, Name: name})
	}
	covering := func(what string, o *approvals.Offer) string {
		return clip(what+": "+visible(o.Summary), nameLength)
	}
	add(approvals.AllowOnce, wire.PermissionOptionKindAllowOnce, "Allow once")
	if o := r.AllowWorkspace; o != nil {
		add(approvals.AllowWorkspace, wire.PermissionOptionKindAllowAlways, covering("Allow in this workspace", o))
	}
	if o := r.AllowSession; o != nil {
		add(approvals.AllowSession, wire.PermissionOptionKindAllowAlways, covering("Allow for this session", o))
	}
	add(approvals.RejectOnce, wire.PermissionOptionKindRejectOnce, "Reject once")
	if o := r.RejectSession; o != nil {
		add(approvals.RejectSession, wire.PermissionOptionKindRejectAlways, covering("Reject for this session", o))
	}
	return out
}

// questionContent shows the call and everything that is known about it.
func questionContent(r approvals.Request) []wire.ToolCallContent {
	what := fence(r.Subject.Command, "sh")
	if r.Subject.Kind != approvals.SubjectShell {
		what = "Tool " + span(r.Tool) + "\n" + fence(indented(r.Arguments), "json")
	}
	return []wire.ToolCallContent{textContent(what), textContent(explanation(r))}
}

func explanation(r approvals.Request) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if r.Why != "" {
		line("%s", visible(r.Why))
	}
	if r.Rule != nil {
		line("- Rule in the %s list: %s (%s)", r.Rule.List, span(r.Rule.Entry.Preview()), span(r.Rule.Source))
	}
	switch {
	case r.Unrated != "":
		line("- It could not be assessed: %s", span(r.Unrated))
	case r.Outcome != approvals.Unrated:
		line("- Rated %s", r.Outcome)
	}
	if r.Reason != "" {
		line("- Reason given: %s", span(r.Reason))
	}
	for _, n := range r.Notes {
		line("- %s", span(n))
	}
	for i, round := range r.Rounds {
		line("- Attempt %d: %s was rated %s: %s", i+1, span(round.Command), round.Outcome, span(round.Reason))
		if round.Justification != "" {
			line("  - the model's reason: %s", span(round.Justification))
		}
	}
	for _, o := range []struct {
		label string
		offer *approvals.Offer
	}{
		{"Allow in this workspace", r.AllowWorkspace},
		{"Allow for this session", r.AllowSession},
		{"Reject for this session", r.RejectSession},
	} {
		if o.offer != nil {
			line("- “%s” stores %s", o.label, span(o.offer.Preview))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// indented lays JSON out without changing a value.
func indented(args json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, args, "", "  ") != nil {
		return string(args)
	}
	return b.String()
}
