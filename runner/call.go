package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cloudwego/eino/schema"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/toolbox"
	"github.com/gth-server/gth-server/session"
)

// call is one tool call on its way through a step. While calls run, each
// is touched by one goroutine only.
type call struct {
	call     approvals.Call
	tool     *toolbox.Tool
	prepared toolbox.Prepared
	problem  string // why it never reaches the gate; for the model

	reading   *approvals.Reading
	rung      approvals.Rung
	decision  *decision
	settled   *session.Settled
	recorded  bool // Decided is stored or about to be
	approved  bool
	executing bool
	ended     bool
	started   time.Time
}

// maxQuoted bounds what an error quotes of the model's arguments.
const maxQuoted = 200

// readCall checks what the model sent. A bad call is announced like any
// other, with empty arguments, and so it is kept in the history: some
// servers refuse a conversation that holds malformed arguments.
func (p *turn) readCall(sent *schema.ToolCall) *call {
	name := sent.Function.Name
	c := &call{call: approvals.Call{ID: sent.ID, Tool: name, Arguments: json.RawMessage("{}")}, started: time.Now()}
	c.tool = p.tools.Find(name)
	if c.tool == nil {
		c.call.Tool = quote(name)
		c.prepared.Title = c.call.Tool
		c.problem = fmt.Sprintf("There is no tool %q. The tools are %s.", c.call.Tool, p.tools.Names())
		sent.Function.Arguments = bounded(sent.Function.Arguments)
		return c
	}
	args, prep, err := c.tool.Check(sent.Function.Arguments)
	if err != nil {
		c.prepared.Title = name
		c.problem = fmt.Sprintf("The arguments of %s are not usable: %s. You sent: %s", name, err, quote(sent.Function.Arguments))
		sent.Function.Arguments = bounded(sent.Function.Arguments)
		return c
	}
	c.call.Arguments, c.prepared = args, prep
	return c
}

// bounded keeps arguments that are an object of usual size.
func bounded(raw string) string {
	var object map[string]json.RawMessage
	if len(raw) > toolbox.MaxArguments || json.Unmarshal([]byte(raw), &object) != nil || object == nil {
		return "{}"
	}
	return raw
}

func quote(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func (c *call) announcement() session.Event {
	e := session.CallAnnounced{Call: c.call, Title: c.prepared.Title, Kind: session.KindOther, Locations: c.prepared.Locations}
	if c.tool != nil {
		e.Kind = c.tool.Kind
	}
	return e
}

// decided is the record of the call's decision.
func (c *call) decided() session.Event {
	c.recorded = true
	e := session.Decided{
		ID: newID(), CallID: c.call.ID, Tool: c.call.Tool, Subject: c.reading.Subject(), Rung: c.rung,
		Verdict: c.decision.verdict, Duration: c.decision.took,
	}
	if c.settled != nil {
		e.AskID, e.Answer, e.Decision = c.settled.Request.ID, &c.settled.Answer, &c.settled.Decision
	}
	return e
}

// end is the record of the call's end.
func (c *call) end(o toolbox.Outcome) session.Event {
	c.ended = true
	return session.CallEnded{
		CallID: c.call.ID, State: o.State, Result: o.Result,
		Diffs: o.Diffs, ExitCode: o.Exit, Duration: time.Since(c.started),
	}
}

// run takes one approved call from its last check to its stored result.
func (s *step) run(ctx context.Context, c *call) {
	if ctx.Err() != nil || s.failure() != nil {
		return
	}
	posture := s.posture()
	if why := s.drifted(c, posture); why != "" {
		s.store(ctx, c.end(toolbox.Outcome{State: session.CallRefused, Result: why}))
		return
	}
	if c.settled != nil {
		err := s.t.Claim(ctx, c.settled.Request.ID, c.reading.Digest())
		if errors.Is(err, session.ErrConflict) {
			s.store(ctx, c.end(toolbox.Outcome{State: session.CallRefused, Result: msgClaimed}))
			return
		}
		if err != nil {
			s.failUnlessCancelled(ctx, err)
			return
		}
	}
	mark := s.t.AppendSync
	if c.tool.ReadOnly {
		mark = s.t.Append
	}
	if err := mark(ctx, session.CallExecuting{CallID: c.call.ID, Digest: c.reading.Digest()}); err != nil {
		s.failUnlessCancelled(ctx, err)
		return
	}
	c.executing, c.started = true, time.Now()
	s.store(ctx, c.end(s.execute(ctx, c, posture)))
}

// drifted judges the call once more right before it runs: a call of the
// same answer may have changed files or links since, and a person may have
// changed rung or rules. It returns the text for the model, or nothing.
func (s *step) drifted(c *call, p approvals.Posture) string {
	was := c.decision.verdict
	again := approvals.Read(c.call, s.o.Place)
	if again.Digest() != c.reading.Digest() || c.settled != nil && c.settled.Request.Digest != again.Digest() {
		return msgChanged
	}
	now := approvals.Evaluate(again, p, was.Rating)
	switch {
	case now.Action == approvals.Reject:
		return now.Message
	case now.Action == approvals.Approve, now.Action == was.Action && now.Stage == was.Stage:
		c.reading = again
		return ""
	}
	return msgChanged
}

// execute runs the tool in a span. A fault of a tool ends its call, not
// the process.
func (s *step) execute(ctx context.Context, c *call, p approvals.Posture) (out toolbox.Outcome) {
	ctx, span := s.o.Tracer.Start(ctx, "execute_tool "+c.call.Tool)
	defer span.End()
	defer func() {
		if v := recover(); v != nil {
			s.o.Logger.ErrorContext(ctx, "a tool failed", "tool", c.call.Tool, "fault", v, "stack", string(debug.Stack()))
			out = toolbox.Failed("The tool failed with an internal error. Its outcome is unknown; look at the state of things before you go on.")
		}
		if span.IsRecording() {
			span.SetAttributes(attribute.String("gen_ai.operation.name", "execute_tool"),
				attribute.String("gen_ai.tool.name", c.call.Tool), attribute.String("gen_ai.tool.call.id", c.call.ID),
				attribute.String("gth.state", string(out.State)))
			if out.Exit != nil {
				span.SetAttributes(attribute.Int("process.exit.code", *out.Exit))
			}
			if out.State == session.CallFailed {
				span.SetStatus(codes.Error, "tool failed")
			}
		}
	}()
	out = c.prepared.Run(ctx, toolbox.Job{CallID: c.call.ID, Reading: c.reading, Posture: p, Show: s.t.Show})
	if ctx.Err() != nil && out.State == session.CallFailed {
		out.State = session.CallCancelled
	}
	return out
}

// store keeps an event of a running call; a failure stops the step.
func (s *step) store(ctx context.Context, e session.Event) {
	if err := s.keep(ctx, e); err != nil {
		s.fail(err)
	}
}

func (s *step) failUnlessCancelled(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.fail(storeError(err))
	}
}
