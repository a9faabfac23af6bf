package session

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
)

// errOver is the cause of a turn's context once its runner has returned.
var errOver = errors.New("the turn is over")

// result is what became of Run.
type result struct {
	reason StopReason
	err    error
	fault  bool // the runner panicked or left its goroutine
}

// play runs one turn in its own goroutine, from after TurnStarted to after
// TurnEnded, whatever the runner does.
func (s *Session) play(t *Turn, unhook func() bool) {
	defer close(t.done)
	defer s.tend()
	defer unhook()
	r := result{err: panicked("the runner", "it left its goroutine"), fault: true}
	defer func() {
		cancelled := t.ctx.Err() != nil
		t.cancel(errOver)
		s.finish(t, r, cancelled)
	}()
	r = s.run(t)
}

func (s *Session) run(t *Turn) (r result) {
	defer func() {
		if p := recover(); p != nil {
			s.logPanic(p)
			r = result{err: panicked("the runner", p), fault: true}
		}
	}()
	reason, err := s.runner.Run(t.ctx, t)
	return result{reason: reason, err: err}
}

// finish settles what the turn left open and stores its end. When the store
// refuses, subscribers get the end as a live record, and the stored one
// follows with the next write that succeeds.
func (s *Session) finish(t *Turn, r result, cancelled bool) {
	ctx := context.WithoutCancel(t.ctx)
	end := s.endOf(t, r, cancelled)
	if !t.keeps() {
		for _, id := range s.openAsksOf(t) {
			t.note(s.unanswered(ctx, id, t.prompt.By))
		}
		end = s.endOf(t, r, cancelled)
	}
	err := s.write(ctx, true, func(context.Context) (string, []Event, error) {
		end.Usage = s.state.usage
		return t.id, append(s.strays(t.id, t.keeps()), end), nil
	})
	if err == nil {
		return
	}
	s.log().Error("the end of a turn was not stored", slog.String("turn", t.id), slog.Any("error", err))
	if end.ErrorKind == "" {
		end.Reason, end.Error, end.ErrorKind = StopFailed, err.Error(), string(KindStore)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unended = &end
	if s.turn == t {
		s.turn = nil
		s.hub.show(Record{At: s.m.now(), Turn: t.id, Event: end}, true)
	}
}

func (s *Session) openAsksOf(t *Turn) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.Sorted(maps.Keys(s.state.asks))
	return slices.DeleteFunc(ids, func(id string) bool { return s.state.asks[id].turn != t.id })
}

// endOf turns what the runner returned into the turn's end. A failure of
// the store counts first, since what followed it is not in the log; after a
// cancellation every error is a consequence of it.
func (s *Session) endOf(t *Turn, r result, cancelled bool) TurnEnded {
	s.mu.Lock()
	failed := t.failed
	s.mu.Unlock()
	end := TurnEnded{ID: t.id, Reason: r.reason}
	err := r.err
	switch {
	case failed != nil:
		err = failed
	case r.fault:
	case err == nil && r.reason != "":
		return end
	case err == nil:
		err = &TurnError{Kind: KindInternal, Err: errors.New("the runner gave no reason for its end"), Hint: "this is a fault of the server: please report it"}
	case cancelled:
		end.Reason = StopCancelled
		return end
	case errors.Is(err, ErrPersonNeeded):
		end.Reason = StopAsked
		return end
	}
	end.Reason, end.Error, end.ErrorKind = StopFailed, err.Error(), string(KindInternal)
	var te *TurnError
	if errors.As(err, &te) {
		end.ErrorKind = string(te.Kind)
	}
	return end
}
