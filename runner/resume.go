package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/history"
	"github.com/gth-server/gth-server/runner/internal/toolbox"
	"github.com/gth-server/gth-server/session"
)

var _ session.Resumer = (*Runner)(nil)

const msgEdited = "The call did not run: its arguments were edited, which is not supported here. Call it again."

// Resume runs calls that a person approved after their turn had ended; see
// [session.Resumer]. The model is not asked.
func (r *Runner) Resume(ctx context.Context, t *session.Turn, approved []session.Settled) error {
	timed, cancel := context.WithTimeoutCause(ctx, r.o.WallTime, errWallTime)
	defer cancel()
	s := &step{turn: &turn{Runner: r, t: t, history: history.New("")}, rest: msgEnded}
	was := logged(t.Records(), approved)
	for i := range approved {
		c := s.recall(timed, &approved[i], was[approved[i].Request.CallID])
		s.calls = append(s.calls, c)
		if c.problem != "" {
			if err := s.keep(ctx, c.end(toolbox.Outcome{State: session.CallFailed, Result: c.problem})); err != nil {
				return err
			}
			continue
		}
		if err := s.rejudge(timed, c); err != nil {
			return errors.Join(err, s.closeOpen(ctx))
		}
		if c.approved {
			s.run(timed, c)
		}
		if timed.Err() != nil || s.failure() != nil {
			break
		}
	}
	return errors.Join(s.failure(), s.closeOpen(ctx))
}

// past is what the log holds of a call.
type past struct {
	call   *approvals.Call
	rating *approvals.Rating // of its last decision
}

// logged finds the calls of approved in the log.
func logged(records []session.Record, approved []session.Settled) map[string]past {
	found := map[string]past{}
	for _, s := range approved {
		found[s.Request.CallID] = past{}
	}
	for _, r := range records {
		switch e := r.Event.(type) {
		case session.CallAnnounced:
			if _, wanted := found[e.Call.ID]; wanted {
				found[e.Call.ID] = past{call: &e.Call}
			}
		case session.Decided:
			if p, wanted := found[e.CallID]; wanted {
				p.rating = e.Verdict.Rating
				found[e.CallID] = p
			}
		}
	}
	return found
}

// recall makes the call that was announced and asked.
func (s *step) recall(ctx context.Context, settled *session.Settled, was past) *call {
	c := &call{call: approvals.Call{ID: settled.Request.CallID}, settled: settled, started: time.Now()}
	if was.call == nil {
		c.problem = "The call did not run: the log does not say what it was."
		return c
	}
	c.call = *was.call
	if c.tool = s.tools.Find(c.call.Tool); c.tool == nil {
		c.problem = fmt.Sprintf("The call did not run: there is no tool %q any more.", quote(c.call.Tool))
		return c
	}
	args, prep, err := c.tool.Check(string(c.call.Arguments))
	if err != nil {
		c.problem = fmt.Sprintf("The call did not run: the arguments of %s are not usable any more: %s", c.call.Tool, err)
		return c
	}
	c.call.Arguments, c.prepared = args, prep
	c.reading = approvals.Read(c.call, s.o.Place)
	c.rung = s.t.Rung()
	rating := was.rating
	if rating == nil {
		rating = ratingOf(settled.Request)
	}
	c.decision = s.gate.again(ctx, c.reading, s.posture(), rating)
	return c
}

// ratingOf is the rating that an ask was made with, if it was rated.
func ratingOf(r approvals.Request) *approvals.Rating {
	switch {
	case r.Outcome != approvals.Unrated:
		return &approvals.Rating{Outcome: r.Outcome, Reason: r.Reason}
	case r.Unrated != "":
		return &approvals.Rating{Failure: "no-model", Detail: r.Unrated}
	}
	return nil
}

// rejudge decides whether what was approved may run as things stand now,
// and records that. The approval stands for the question that was asked: a
// call that would be refused, or asked about for another reason, does not
// run.
func (s *step) rejudge(ctx context.Context, c *call) error {
	c.decision.settle(c.settled.Request.Created, c.settled.Decision, c.settled.Answer)
	v, req := c.decision.verdict, c.settled.Request
	refusal := ""
	switch {
	case c.reading.Digest() != req.Digest:
		refusal = msgChanged
	case c.settled.Answer.Arguments != nil:
		refusal = msgEdited
	case c.settled.Decision.Action != approvals.Approve:
		refusal = cmp.Or(c.settled.Decision.Message, msgRefused)
	case v.Action == approvals.Reject:
		refusal = cmp.Or(v.Message, msgRefused)
	case v.Action == approvals.Approve:
	case v.Stage != req.Stage, v.Action == approvals.Halt && !req.Typed, v.Action == approvals.Rate:
		refusal = msgChanged
	}
	events := []session.Event{c.decided()}
	if refusal != "" {
		events = append(events, c.end(toolbox.Outcome{State: session.CallRefused, Result: refusal}))
	}
	c.approved = refusal == ""
	return s.keep(ctx, events...)
}
