package session

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/gth-server/gth-server/approvals"
)

// ErrOwnerLost is the cause, wrapped or not, to cancel a turn with when
// whoever owns it has gone, such as a connection that broke: the turn ends
// and its asks stay open. Closing a session counts as one.
var ErrOwnerLost = errors.New("the owner of the turn is gone")

// What the model reads of calls that the session itself ends.
const (
	msgUnanswered = "The call did not run: nobody answered whether it may."
	msgRefused    = "The call was refused and did not run."
	msgNeverRan   = "The call did not run: its turn ended first."
	msgUnknown    = "The outcome of this call is unknown: the server stopped while it ran. It is not repeated. Look at the state of things before you go on."
	msgNotStarted = "The call was approved and did not run: the server stopped right before it started. Call it again if it is still needed."
	msgCannotRun  = "The call was approved and did not run: it could not be started again. Call it again if it is still needed."
)

// mindAgain is how long a minder waits after a failure of the store.
const mindAgain = 2 * time.Second

// lost reports whether the turn was cancelled because its owner is gone.
// When the store fails, nothing can be settled, and another process may
// have taken the session over.
func (t *Turn) lost() bool {
	if t.ctx.Err() == nil {
		return false
	}
	cause := context.Cause(t.ctx)
	return errors.Is(cause, ErrOwnerLost) || errors.Is(cause, ErrClosed) || isStoreFailure(cause)
}

// keeps reports whether the turn's asks stay open when it ends.
func (t *Turn) keeps() bool {
	if t.lost() {
		return true
	}
	cause := context.Cause(t.ctx)
	return t.prompt.OnAsk == AskQueue && (cause == nil || errors.Is(cause, errOver))
}

// Kept reports whether a call without an end stays so when the turn ends:
// its ask is open or was approved, and outlives the turn because it is
// queued or the turn's owner is gone. The call is run, or given its end,
// by the session.
func (t *Turn) Kept(callID string) bool {
	if !t.keeps() {
		return false
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	c, ok := t.s.state.calls[callID]
	return ok && t.s.keepable(c)
}

// keepable reports whether a call can run later. The caller holds mu or the
// token.
func (s *Session) keepable(c openCall) bool {
	_, open := s.state.asks[c.ask]
	return !c.executing && (open || c.approved)
}

// strays returns the ends of calls that have none: those of one turn, or of
// every turn. kept leaves out those that can run later. The caller holds
// the token.
func (s *Session) strays(turn string, kept bool) []Event {
	var events []Event
	for _, id := range s.inOrder(func(c openCall) bool { return (turn == "" || c.turn == turn) && !(kept && s.keepable(c)) }) {
		if s.state.calls[id].executing {
			events = append(events, CallEnded{CallID: id, State: CallUnknown, Result: msgUnknown})
		} else {
			events = append(events, CallEnded{CallID: id, State: CallCancelled, Result: msgNeverRan})
		}
	}
	return events
}

// inOrder returns the ids of calls without an end, as they were announced.
func (s *Session) inOrder(which func(openCall) bool) []string {
	ids := slices.SortedFunc(maps.Keys(s.state.calls), func(a, b string) int {
		return cmp.Compare(s.state.calls[a].number, s.state.calls[b].number)
	})
	return slices.DeleteFunc(ids, func(id string) bool { return !which(s.state.calls[id]) })
}

// mind starts the goroutine that brings the answer of an ask into the log,
// whoever gives it. The caller holds mu.
func (s *Session) mind(r approvals.Request) {
	if s.closing {
		return
	}
	s.minders.Go(func() {
		for {
			err := s.settledBy(r)
			switch {
			case err == nil:
				s.tend()
				return
			case s.life.Err() != nil, errors.Is(err, ErrLost), errors.Is(err, ErrClosed):
				return
			}
			s.log().Error("an ask cannot be watched, trying again", slog.String("ask", r.ID), slog.Any("error", err))
			select {
			case <-time.After(mindAgain):
			case <-s.life.Done():
				return
			}
		}
	})
}

// settledBy returns when the ask is settled in the log, by an answer or its
// expiry.
func (s *Session) settledBy(r approvals.Request) error {
	ctx, cancel := s.life, context.CancelFunc(func() {})
	if !r.Expires.IsZero() {
		ctx, cancel = context.WithTimeout(s.life, r.Expires.Sub(s.m.now()))
	}
	defer cancel()
	err := s.left(ctx, r.ID)
	switch {
	case s.life.Err() != nil:
		return context.Cause(s.life)
	case errors.Is(err, ErrNotFound), err == nil:
	case ctx.Err() != nil:
		return s.expire(r)
	default:
		return err
	}
	return s.record(s.life, r.ID)
}

// expire settles an ask whose time is over.
func (s *Session) expire(r approvals.Request) error {
	a := approvals.Answer{Choice: approvals.Unanswered, By: "expiry", At: s.m.now()}
	if a.At.Before(r.Expires) {
		a.At = r.Expires
	}
	_, err := s.settle(s.life, r, a)
	if errors.Is(err, ErrConflict) && !isStoreFailure(err) {
		return nil
	}
	return err
}

// recordAll brings the log to what the store says of asks.
func (s *Session) recordAll(ctx context.Context, asks []string) error {
	for _, id := range asks {
		if err := s.record(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// waiting reports whether an ask of an earlier turn is open.
func (s *Session) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.state.asks) > 0
}

// tend starts to run the approved calls of ended turns, if there are any
// and nothing else has the session.
func (s *Session) tend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.turn != nil || len(s.approved()) == 0 {
		return
	}
	t := s.newTurn(s.life, "", Prompt{By: "session"})
	s.turn = t
	s.minders.Go(func() { s.resume(t) })
}

// approved lists the calls that may run outside turns. The caller holds mu.
func (s *Session) approved() []string {
	ids := s.inOrder(func(c openCall) bool { return c.approved && !c.executing })
	return slices.DeleteFunc(ids, func(id string) bool { return s.stuck[id] })
}

// resume runs approved calls until there are none.
func (s *Session) resume(t *Turn) {
	defer close(t.done)
	untie := s.tie(t)
	defer untie()
	for {
		calls := s.orLeave(t)
		if len(calls) == 0 {
			t.cancel(errOver)
			return
		}
		err := s.runApproved(t, calls)
		if err != nil && !t.lost() {
			s.log().Error("an approved call was not run", slog.Any("error", err))
		}
		s.endResumed(t, calls)
	}
}

// orLeave returns the approved calls, or gives the session free.
func (s *Session) orLeave(t *Turn) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.approved()
	if len(calls) == 0 || t.lost() {
		s.turn = nil
		return nil
	}
	return calls
}

func (s *Session) runApproved(t *Turn, calls []string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.logPanic(p)
			err = panicked("the runner's Resume", p)
		}
	}()
	r, ok := s.runner.(Resumer)
	if !ok {
		return errors.New("the runner cannot run calls outside turns")
	}
	settled := make([]Settled, 0, len(calls))
	for _, call := range calls {
		ask, err := s.m.o.Store.GetAsk(t.ctx, s.askOf(call))
		if err != nil {
			err = s.unlessEnded(t.ctx, err)
			t.note(err)
			return err
		}
		a, d := became(ask)
		settled = append(settled, Settled{Request: ask.Request, Answer: a, Decision: d})
	}
	return r.Resume(t.ctx, t, settled)
}

func (s *Session) askOf(call string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.calls[call].ask
}

// endResumed ends the calls that Resume did not end. When the owner is gone
// those that did not start are left for the next one.
func (s *Session) endResumed(t *Turn, calls []string) {
	err := s.write(context.WithoutCancel(t.ctx), true, func(context.Context) (string, []Event, error) {
		var events []Event
		for _, id := range calls {
			c, open := s.state.calls[id]
			switch {
			case !open:
			case c.executing:
				events = append(events, CallEnded{CallID: id, State: CallUnknown, Result: msgUnknown})
			case !t.lost():
				events = append(events, CallEnded{CallID: id, State: CallCancelled, Result: msgCannotRun})
			}
		}
		return "", events, nil
	})
	if err != nil {
		s.log().Error("the end of an approved call was not stored", slog.Any("error", err))
	} else if !isStoreFailure(context.Cause(t.ctx)) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range calls {
		s.stuck[id] = true
	}
}
