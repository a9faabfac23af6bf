package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// write appends what build returns and shows it to subscribers. build runs
// with the token held, so it sees the state that its events follow. Waiting
// for the token honours ctx; what was begun is finished whatever ctx says,
// within the store's time limit.
func (s *Session) write(ctx context.Context, sync bool, build func(context.Context) (turn string, evs []Event, err error)) error {
	return s.writeThen(ctx, sync, build, nil)
}

// writeThen is write with something to do between storing and showing. Its
// error is returned; the records are shown all the same.
func (s *Session) writeThen(ctx context.Context, sync bool, build func(context.Context) (turn string, evs []Event, err error), then func(context.Context) error) error {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.writing }()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.over {
		return s.errClosed()
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	turn, evs, err := build(ctx)
	if err != nil || len(evs) == 0 {
		return err
	}
	return s.append(ctx, turn, sync, evs, then)
}

// detached keeps the values of ctx and has the store's time limit.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}

// append stores one batch, does then, and shows the batch. The caller holds
// the token.
func (s *Session) append(ctx context.Context, turn string, sync bool, evs []Event, then func(context.Context) error) error {
	for _, ev := range evs {
		if err := storable(ev); err != nil {
			return fmt.Errorf("session %s: %w", s.spec.ID, err)
		}
	}
	key, err := newID()
	if err != nil {
		return s.storeFailed(err)
	}
	at := s.m.now()
	evs, err = s.chained(at, turn, evs)
	if err != nil {
		return err
	}
	recs, err := s.m.o.Store.Append(ctx, Batch{
		Lease: s.lease, Expect: s.hub.last(), Key: key, Turn: turn, Events: evs, Sync: sync, At: at,
	})
	if err != nil {
		s.doubt = true
		return s.storeFailed(err)
	}
	if then != nil {
		err = then(ctx)
	}
	s.publish(recs)
	s.index(ctx, evs)
	return err
}

// chained returns evs with the links that their place in the log gives
// them. The caller holds the token.
func (s *Session) chained(at time.Time, turn string, evs []Event) ([]Event, error) {
	out := make([]Event, len(evs))
	head := s.state.head
	for i, ev := range evs {
		key := make([]byte, linkKeySize)
		rand.Read(key)
		var err error
		r := Record{Seq: s.hub.last() + Seq(i) + 1, At: at, Turn: turn, Event: ev}
		if out[i], head, err = chain(r, head, key); err != nil {
			return nil, fmt.Errorf("session %s: chain event %T: %w", s.spec.ID, ev, err)
		}
	}
	return out, nil
}

// catchUp brings hub and store to the same point after a write whose fate
// is unknown, and stores the end of a turn that the store had refused.
func (s *Session) catchUp(ctx context.Context) error {
	if s.doubt {
		recs, err := s.m.o.Store.After(ctx, s.spec.ID, s.hub.last(), 0)
		if err != nil {
			return s.storeFailed(err)
		}
		s.doubt = false
		s.publish(recs)
	}
	end, ok := s.missingEnd()
	if !ok {
		return nil
	}
	return s.append(ctx, end.ID, true, []Event{end}, nil)
}

// missingEnd returns the end that the log lacks: its last turn is open and
// is not the one that runs.
func (s *Session) missingEnd() (TurnEnded, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.state.turn
	if open == "" || s.turn != nil && s.turn.id == open {
		return TurnEnded{}, false
	}
	if s.unended != nil && s.unended.ID == open {
		return *s.unended, true
	}
	return TurnEnded{ID: open, Reason: StopFailed, Error: "the store did not confirm the start of the turn", ErrorKind: string(KindStore)}, true
}

// publish folds stored records into the state and shows them. The end of
// the running turn and the right to start the next one come together.
func (s *Session) publish(recs []Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range recs {
		fold(&s.state, r.Event)
		if end, ok := r.Event.(TurnEnded); ok && s.turn != nil && s.turn.id == end.ID {
			s.turn = nil
		}
		if asked, ok := r.Event.(Asked); ok {
			s.mind(asked.Request)
		}
	}
	s.hub.publish(recs)
}

// index keeps the session's entry in the store's index current. A failure
// is logged only: the log has it all.
func (s *Session) index(ctx context.Context, evs []Event) {
	touched := false
	for _, ev := range evs {
		switch ev.(type) {
		case TurnStarted, TurnEnded, RungChanged, TitleChanged:
			touched = true
		}
	}
	if !touched {
		return
	}
	meta := Meta{ID: s.spec.ID, Title: s.state.title, Rung: s.state.rung, UpdatedAt: s.m.now()}
	if err := s.m.o.Store.Update(ctx, s.lease, meta); err != nil {
		s.log().Warn("the index entry was not updated", slog.Any("error", err))
	}
}

// openTurn returns the id of the running turn for a record, empty between
// turns. The caller holds the token.
func (s *Session) openTurn() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil || s.turn.id != s.state.turn {
		return ""
	}
	return s.turn.id
}

// storeFailed is the error of a turn whose store refused.
func (s *Session) storeFailed(err error) error {
	hint := "check the data directory and its disk"
	switch {
	case errors.Is(err, ErrLost):
		hint = "another process has taken the session over: go on there"
	case errors.Is(err, ErrClosed):
		hint = "the server is shutting down"
	}
	return &TurnError{Kind: KindStore, Err: fmt.Errorf("the store refused records of session %s: %w", s.spec.ID, err), Hint: hint}
}

// isStoreFailure tells the store's failures from those of the caller.
func isStoreFailure(err error) bool {
	var te *TurnError
	return errors.As(err, &te) && te.Kind == KindStore
}
