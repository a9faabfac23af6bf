package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gth-server/gth-server/approvals"
)

// Open makes a stored session live in this process and rebuilds it from its
// log. ErrNotFound when there is no such session; ErrConflict when another
// process has it, which the error names, or when this manager has it open
// already, see Get. The error says what is wrong with its directory when
// that is gone.
//
// What a dead owner left is put right first: a call that was running ends
// as CallUnknown, one that never started as CallCancelled, its turn as
// failed. Asks that are open stay so and are shown to every subscriber
// again; calls that were approved meanwhile run at once, see Wait.
func (m *Manager) Open(ctx context.Context, id ID) (*Session, error) {
	s, err := m.place(ctx, id, func(ctx context.Context, p *slot) (*Session, error) {
		lease, err := m.o.Store.Acquire(ctx, id)
		if err != nil {
			return nil, err
		}
		s, err := m.reopen(ctx, lease, func() { m.free(id, p) })
		if err != nil {
			undo, stop := detached(ctx)
			defer stop()
			return nil, errors.Join(err, m.o.Store.Release(undo, lease))
		}
		return s, nil
	})
	if err != nil {
		return nil, fmt.Errorf("open session %.60q: %w", id, err)
	}
	s.tend()
	return s, nil
}

// reopen makes the session of a lease.
func (m *Manager) reopen(ctx context.Context, l Lease, onEnd func()) (*Session, error) {
	meta, err := m.o.Store.Meta(ctx, l.Session)
	if err != nil {
		return nil, err
	}
	recs, err := m.o.Store.After(ctx, l.Session, 0, 0)
	if err != nil {
		return nil, err
	}
	spec, workspace, err := checked(Spec{ID: meta.ID, Cwd: meta.Cwd, Roots: meta.Roots, Surface: meta.Surface, Rung: firstRung(meta, recs)})
	if err != nil {
		return nil, err
	}
	s := newSession(m, spec, workspace, l, nil, onEnd)
	s.state.title = meta.Title
	for _, r := range recs {
		fold(&s.state, r.Event)
	}
	s.hub.publish(recs)
	s.spec.Rung = s.state.rung
	if s.runner, err = makeRunner(ctx, m.o.NewRunner, s.Spec()); err != nil {
		s.stop(ErrClosed)
		return nil, err
	}
	if err := s.repair(ctx); err != nil {
		return nil, errors.Join(err, s.abandon(ctx))
	}
	return s, nil
}

// firstRung returns the rung that the session began at: the index keeps the
// one it stands at.
func firstRung(m Meta, recs []Record) approvals.Rung {
	for _, r := range recs {
		if e, ok := r.Event.(RungChanged); ok {
			return e.From
		}
	}
	return m.Rung
}

// abandon undoes what was made of a session that cannot be opened.
func (s *Session) abandon(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.stop(ErrClosed)
	s.minders.Wait()
	return s.closeRunner(context.WithoutCancel(ctx))
}

// repair puts right what a dead owner left.
func (s *Session) repair(ctx context.Context) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	if err := s.endAfterCrash(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	var open []approvals.Request
	for _, ask := range s.state.asks {
		open = append(open, ask.req)
	}
	s.mu.Unlock()
	if err := s.matchAsks(ctx, open); err != nil {
		return err
	}
	for _, r := range open {
		if err := s.record(ctx, r.ID); err != nil {
			return err
		}
	}
	return s.mindAll(open)
}

// matchAsks makes the store's open asks those of the log. The store lacks
// one whose owner died right after the log had it; it has one too many when
// a damaged log lost its end.
func (s *Session) matchAsks(ctx context.Context, open []approvals.Request) error {
	for _, r := range open {
		_, err := s.m.o.Store.GetAsk(ctx, r.ID)
		if errors.Is(err, ErrNotFound) {
			err = s.m.o.Store.PutAsk(ctx, s.lease, r)
		}
		if err != nil {
			return s.storeFailed(err)
		}
	}
	stored, err := s.m.o.Store.OpenAsks(ctx, s.spec.ID)
	if err != nil {
		return s.storeFailed(err)
	}
	for _, ask := range stored {
		r := ask.Request
		if slices.ContainsFunc(open, func(o approvals.Request) bool { return o.ID == r.ID }) {
			continue
		}
		a := approvals.Answer{Choice: approvals.Unanswered, By: "open", At: s.m.now()}
		if _, err := s.m.o.Store.AnswerAsk(ctx, r.ID, a, approvals.Settle(&r, a)); err != nil && !errors.Is(err, ErrConflict) {
			return s.storeFailed(err)
		}
	}
	return nil
}

// endAfterCrash stores the ends that are missing.
func (s *Session) endAfterCrash(ctx context.Context) error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	claimed, err := s.claimed(ctx)
	if err != nil {
		return err
	}
	events := append(s.strays("", true), claimed...)
	turn := s.state.turn
	if turn != "" {
		events = append(events, TurnEnded{
			ID: turn, Reason: StopFailed, ErrorKind: string(KindOwner), Usage: s.state.usage,
			Error: "the process that ran the turn ended before it",
		})
	}
	if len(events) == 0 {
		return nil
	}
	return s.append(ctx, turn, true, events, nil)
}

// claimed returns the ends of calls that the dead owner was about to start:
// a claim is given once.
func (s *Session) claimed(ctx context.Context) ([]Event, error) {
	var events []Event
	s.mu.Lock()
	approved := s.approved()
	s.mu.Unlock()
	for _, id := range approved {
		ask, err := s.m.o.Store.GetAsk(ctx, s.state.calls[id].ask)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, s.storeFailed(err)
		}
		if err != nil || ask.State != AskAnswered {
			events = append(events, CallEnded{CallID: id, State: CallCancelled, Result: msgNotStarted})
		}
	}
	return events, nil
}

// mindAll watches the asks that are still open. One for which a client
// waited has no time of its own; it expires like a queued one, counted from
// the last that its owner stored.
func (s *Session) mindAll(open []approvals.Request) error {
	last := s.hub.records()
	for _, r := range open {
		s.mu.Lock()
		_, still := s.state.asks[r.ID]
		if still {
			s.mind(r)
		}
		s.mu.Unlock()
		if still && r.Expires.IsZero() && s.m.now().Sub(last[len(last)-1].At) >= s.m.o.AskExpiry {
			if err := s.expire(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Meta returns what the index knows of a stored session, live or not, or
// ErrNotFound.
func (m *Manager) Meta(ctx context.Context, id ID) (Meta, error) {
	meta, err := m.o.Store.Meta(ctx, id)
	if err != nil {
		return Meta{}, fmt.Errorf("look up session %.60q: %w", id, err)
	}
	return meta, nil
}

// List returns sessions of the store, live or not, newest first, and the
// cursor of the next page; see Sessions.List.
func (m *Manager) List(ctx context.Context, f Filter) ([]Meta, string, error) {
	page, next, err := m.o.Store.List(ctx, f)
	if err != nil {
		return nil, "", fmt.Errorf("list sessions: %w", err)
	}
	return page, next, nil
}

// Delete removes a session with its log and asks. One that is live in this
// manager is closed first; ErrConflict names the other process that has it.
// ErrNotFound when there is no such session.
func (m *Manager) Delete(ctx context.Context, id ID) error {
	if s, err := m.Get(id); err == nil {
		if err := s.Close(ctx); err != nil {
			return fmt.Errorf("delete session %s: %w", id, err)
		}
	}
	_, err := m.place(ctx, id, func(ctx context.Context, p *slot) (*Session, error) {
		lease, err := m.o.Store.Acquire(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := m.o.Store.Delete(ctx, id); err != nil {
			undo, stop := detached(ctx)
			defer stop()
			return nil, errors.Join(err, m.o.Store.Release(undo, lease))
		}
		return nil, errDeleted
	})
	if !errors.Is(err, errDeleted) {
		return fmt.Errorf("delete session %.60q: %w", id, err)
	}
	return nil
}

// errDeleted gives the place of a deleted session free.
var errDeleted = errors.New("deleted")
