package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/toolbox"
	"github.com/gth-server/gth-server/session"
)

// What the model reads of calls that did not run for another one's sake.
const (
	msgHalted  = "The call was halted as an attack and did not run."
	msgSibling = "The call did not run: another call of the same answer was halted as an attack."
	msgNobody  = "The call did not run: it, or another call of the same answer, needs a person's approval and nobody could be asked."
	msgEnded   = "The call did not run: the turn was cancelled."
	msgChanged = "The call did not run: what it would do, or the rules for it, changed since it was judged. Call it again to have it judged anew."
	msgRefused = "The call was refused and did not run."
	msgClaimed = "The call did not run again: it was started before."
)

// step is one model answer with calls.
type step struct {
	*turn
	calls []*call
	rest  string // why what is still open in the end did not run

	mu    sync.Mutex
	fatal error // the first failure of the store
}

// play judges all calls, asks, runs what was approved and gives each call
// its end. An empty reason means that the model goes on.
func (s *step) play(ctx context.Context) (stop session.StopReason, err error) {
	s.rest = msgEnded
	defer func() { err = errors.Join(err, s.closeOpen(ctx)) }()
	if err := s.judge(ctx); err != nil {
		return "", err
	}
	if stop, err := s.confirmHalts(ctx); err != nil || stop != "" {
		return stop, err
	}
	asks := s.withAction(approvals.Ask)
	if on := s.t.Prompt().OnAsk; len(asks) > 0 && on != session.AskWait {
		if err := s.ask(ctx, asks); errors.Is(err, session.ErrPersonNeeded) {
			s.rest = msgNobody
			return session.StopAsked, nil
		} else if err != nil {
			return "", err
		}
		asks = nil
	}
	if err := s.runAll(ctx, asks); err != nil {
		return "", err
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return "", nil
}

// judge puts every call through the gate, in order, before any runs.
func (s *step) judge(ctx context.Context) error {
	var events []session.Event
	for _, c := range s.calls {
		if c.problem != "" {
			events = append(events, c.end(toolbox.Outcome{State: session.CallFailed, Result: c.problem}))
			continue
		}
		if ctx.Err() != nil {
			return errors.Join(s.keep(ctx, events...), context.Cause(ctx))
		}
		c.reading = approvals.Read(c.call, s.o.Place)
		c.rung = s.t.Rung()
		c.decision = s.gate.open(ctx, c.reading, s.posture())
		switch c.decision.verdict.Action {
		case approvals.Approve:
			c.approved = true
			events = append(events, c.decided())
		case approvals.Reject:
			events = append(events, c.decided(), c.end(toolbox.Outcome{State: session.CallRefused, Result: cmp.Or(c.decision.verdict.Message, msgRefused)}))
		}
	}
	return s.keep(ctx, events...)
}

func (s *step) posture() approvals.Posture {
	return approvals.Posture{Rung: s.t.Rung(), Policy: s.o.Policy, Grants: s.t.Grants()}
}

func (s *step) withAction(a approvals.Action) []*call {
	var out []*call
	for _, c := range s.calls {
		if c.decision != nil && !c.ended && !c.approved && c.decision.verdict.Action == a {
			out = append(out, c)
		}
	}
	return out
}

// confirmHalts handles attacks: while one is open it is the only question,
// and without the typed confirmation the turn stops.
func (s *step) confirmHalts(ctx context.Context) (session.StopReason, error) {
	for _, c := range s.withAction(approvals.Halt) {
		prompt, req := s.t.Prompt(), c.decision.verdict.Request
		if req != nil && req.Typed && prompt.Typed && prompt.OnAsk == session.AskWait {
			if err := s.ask(ctx, []*call{c}); err != nil && !errors.Is(err, session.ErrPersonNeeded) {
				return "", err
			}
			if c.approved {
				continue
			}
		}
		s.rest = msgSibling
		if c.ended {
			return session.StopRefusal, nil
		}
		return session.StopRefusal, s.keep(ctx, c.decided(), c.end(toolbox.Outcome{State: session.CallRefused, Result: msgHalted}))
	}
	return "", nil
}

// ask puts the questions of calls to a person, together, and records what
// became of them.
func (s *step) ask(ctx context.Context, calls []*call) error {
	reqs := make([]approvals.Request, len(calls))
	for i, c := range calls {
		if c.decision.verdict.Request == nil {
			return fmt.Errorf("the decision on call %s asks without a question", c.call.ID)
		}
		reqs[i] = *c.decision.verdict.Request
	}
	asked := time.Now()
	settled, err := s.t.Ask(ctx, reqs)
	if err != nil {
		return err
	}
	if len(settled) != len(calls) {
		return fmt.Errorf("%d questions got %d answers", len(calls), len(settled))
	}
	var events []session.Event
	for i, c := range calls {
		c.settled = &settled[i]
		c.decision.settle(asked, settled[i].Decision, settled[i].Answer)
		events = append(events, c.decided())
		switch {
		case settled[i].Decision.Action != approvals.Approve:
			events = append(events, c.end(toolbox.Outcome{State: session.CallRefused, Result: cmp.Or(settled[i].Decision.Message, msgRefused)}))
		case settled[i].Answer.Arguments != nil:
			events = append(events, c.end(toolbox.Outcome{State: session.CallRefused, Result: msgEdited}))
		default:
			c.approved = true
		}
	}
	return s.keep(ctx, events...)
}

// runAll runs the approved calls. While asks are open, reading calls and
// what stands before the first ask run already; the rest waits.
func (s *step) runAll(ctx context.Context, asks []*call) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var now []*call
	behind := false
	for _, c := range s.calls {
		behind = behind || len(asks) > 0 && c == asks[0]
		if c.approved && (c.tool.ReadOnly || !behind) {
			now = append(now, c)
		}
	}
	var running sync.WaitGroup
	running.Go(func() { s.runInOrder(ctx, now) })
	var err error
	if len(asks) > 0 {
		if err = s.ask(ctx, asks); err != nil {
			cancel(err)
		}
	}
	running.Wait()
	if err != nil {
		return err
	}
	s.runInOrder(ctx, s.calls)
	return s.failure()
}

// maxParallel bounds the reading calls that run at once.
const maxParallel = 8

// runInOrder runs those of calls that are approved and not ended: reading
// calls side by side, each other call when everything before it is done.
func (s *step) runInOrder(ctx context.Context, calls []*call) {
	var readers sync.WaitGroup
	defer readers.Wait()
	slots := make(chan struct{}, maxParallel)
	for _, c := range calls {
		if !c.approved || c.ended {
			continue
		}
		if !c.tool.ReadOnly {
			readers.Wait()
			s.run(ctx, c)
			continue
		}
		slots <- struct{}{}
		readers.Go(func() {
			defer func() { <-slots }()
			s.run(ctx, c)
		})
	}
}

// closeOpen gives every call that has none its end, and records decisions
// that were made but not yet recorded. Calls whose ask outlives the turn
// stay open: they run when it is answered.
func (s *step) closeOpen(ctx context.Context) error {
	var events []session.Event
	for _, c := range s.calls {
		if c.decision != nil && !c.recorded {
			events = append(events, c.decided())
		}
		if c.decision != nil {
			c.decision.close()
		}
		if c.ended || !c.executing && s.t.Kept(c.call.ID) {
			continue
		}
		state := session.CallCancelled
		if c.executing {
			state = session.CallUnknown
		}
		events = append(events, c.end(toolbox.Outcome{State: state, Result: s.rest}))
	}
	return s.keep(ctx, events...)
}

func (s *step) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fatal == nil {
		s.fatal = err
	}
}

func (s *step) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fatal
}

func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.NewString()
	}
	return id.String()
}
