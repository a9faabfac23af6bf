package persistence

import (
	"context"
	"errors"
	"fmt"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// once runs f with a nonce under which a repeat is known.
func (s *Shared) once(ctx context.Context, f func(l *link, nonce string) error) error {
	nonce, err := newNonce()
	if err != nil {
		return err
	}
	return s.with(ctx, func(l *link) error { return f(l, nonce) })
}

// lost forgets a lease that the store says is another's.
func (s *Shared) lost(l session.Lease, err error) error {
	if errors.Is(err, session.ErrLost) {
		s.forget(l)
	}
	return err
}

// Create adds a session and returns the first lease.
func (s *Shared) Create(ctx context.Context, m session.Meta) (lease session.Lease, err error) {
	err = s.once(ctx, func(l *link, nonce string) (err error) {
		lease, err = l.create(ctx, m, nonce)
		return err
	})
	if err == nil {
		s.remember(lease)
	}
	return lease, err
}

// Acquire takes the lease of an existing session. A conflict names the
// process that holds it.
func (s *Shared) Acquire(ctx context.Context, id session.ID) (lease session.Lease, err error) {
	err = s.once(ctx, func(l *link, nonce string) (err error) {
		lease, err = l.acquire(ctx, id, nonce)
		return err
	})
	if err == nil {
		s.remember(lease)
	}
	return lease, err
}

// Release gives a lease back.
func (s *Shared) Release(ctx context.Context, lease session.Lease) error {
	s.forget(lease)
	return s.with(ctx, func(l *link) error { return l.Release(ctx, lease) })
}

// Meta returns a session's index entry.
func (s *Shared) Meta(ctx context.Context, id session.ID) (m session.Meta, err error) {
	err = s.with(ctx, func(l *link) (err error) {
		m, err = l.Meta(ctx, id)
		return err
	})
	return m, err
}

// Update changes title, rung and time of the index entry.
func (s *Shared) Update(ctx context.Context, lease session.Lease, m session.Meta) error {
	return s.lost(lease, s.with(ctx, func(l *link) error { return l.Update(ctx, lease, m) }))
}

// List returns a page of sessions, newest first.
func (s *Shared) List(ctx context.Context, f session.Filter) (page []session.Meta, cursor string, err error) {
	err = s.with(ctx, func(l *link) (err error) {
		page, cursor, err = l.List(ctx, f)
		return err
	})
	return page, cursor, err
}

// Delete removes a session with its log and asks.
func (s *Shared) Delete(ctx context.Context, id session.ID) error {
	return s.with(ctx, func(l *link) error { return l.Delete(ctx, id) })
}

// Append stores a batch and returns its records.
func (s *Shared) Append(ctx context.Context, b session.Batch) ([]session.Record, error) {
	recs, encoded, sync, err := encodeBatch(b)
	if err != nil {
		return nil, fmt.Errorf("append to session %.80q: %w", b.Lease.Session, err)
	}
	key := b.Key
	if key == "" { // a repeat after a lost connection must be known as one
		if key, err = newNonce(); err != nil {
			return nil, err
		}
	}
	var was *span
	err = s.with(ctx, func(l *link) (err error) {
		was, err = l.append(ctx, b.Lease, b.Expect, key, encoded, sync)
		return err
	})
	if err != nil {
		return nil, s.lost(b.Lease, fmt.Errorf("append to session %.80q: %w", b.Lease.Session, err))
	}
	if was != nil {
		return s.After(ctx, b.Lease.Session, was.first-1, int(was.last-was.first)+1)
	}
	return recs, nil
}

// After returns the records with a number above seq, up to limit.
func (s *Shared) After(ctx context.Context, id session.ID, seq session.Seq, limit int) ([]session.Record, error) {
	recs := []session.Record{}
	for {
		var page [][]byte
		var more bool
		rest := 0
		if limit > 0 {
			rest = limit - len(recs)
		}
		err := s.with(ctx, func(l *link) (err error) {
			page, more, err = l.after(ctx, id, seq+session.Seq(len(recs)), rest, 0)
			return err
		})
		if err != nil {
			return nil, err
		}
		part, err := decodeRecords(id, page)
		if err != nil {
			return nil, err
		}
		recs = append(recs, part...)
		if !more || len(part) == 0 || limit > 0 && len(recs) >= limit {
			return recs, nil
		}
	}
}

// PutAsk stores an open ask.
func (s *Shared) PutAsk(ctx context.Context, lease session.Lease, r approvals.Request) error {
	return s.lost(lease, s.once(ctx, func(l *link, nonce string) error { return l.putAsk(ctx, lease, r, nonce) }))
}

// GetAsk returns an ask.
func (s *Shared) GetAsk(ctx context.Context, id string) (a session.StoredAsk, err error) {
	err = s.with(ctx, func(l *link) (err error) {
		a, err = l.GetAsk(ctx, id)
		return err
	})
	return a, err
}

// AnswerAsk moves an open ask to answered.
func (s *Shared) AnswerAsk(ctx context.Context, id string, a approvals.Answer, d approvals.Decision) (stored session.StoredAsk, err error) {
	err = s.once(ctx, func(l *link, nonce string) (err error) {
		stored, err = l.answerAsk(ctx, id, a, d, nonce)
		return err
	})
	return stored, err
}

// ClaimAsk moves an answered, approved ask to claimed, once.
func (s *Shared) ClaimAsk(ctx context.Context, lease session.Lease, id, digest string) error {
	return s.lost(lease, s.once(ctx, func(l *link, nonce string) error { return l.claimAsk(ctx, lease, id, digest, nonce) }))
}

// OpenAsks returns the open asks of a session, or of all, oldest first.
func (s *Shared) OpenAsks(ctx context.Context, id session.ID) (open []session.StoredAsk, err error) {
	err = s.with(ctx, func(l *link) (err error) {
		open, err = l.OpenAsks(ctx, id)
		return err
	})
	return open, err
}

// WatchAsk returns a channel that is closed when the ask leaves open,
// whichever process answers it. The watch goes on on the next store.
func (s *Shared) WatchAsk(ctx context.Context, id string) (<-chan struct{}, error) {
	// It ends with the caller's context or with Close.
	wctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	l, left, err := s.watch(wctx, id)
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	out := make(chan struct{})
	if !s.start(func() {
		defer cancel()
		defer stop()
		s.follow(wctx, id, l, left, out)
	}) {
		stop()
		cancel()
		return nil, fmt.Errorf("store: %w", session.ErrClosed)
	}
	return out, nil
}

// start runs f in a goroutine that Close waits for, unless it is too late.
func (s *Shared) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

func (s *Shared) watch(ctx context.Context, id string) (at *link, left <-chan struct{}, err error) {
	err = s.with(ctx, func(l *link) (err error) {
		at = l
		left, err = l.WatchAsk(ctx, id)
		return err
	})
	return at, left, err
}

// follow closes out when the ask leaves open, from store to store.
func (s *Shared) follow(ctx context.Context, id string, at *link, left <-chan struct{}, out chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-left:
			close(out)
			return
		case <-at.lost:
		}
		s.drop(at)
		var err error
		for at, left, err = s.watch(ctx, id); err != nil; at, left, err = s.watch(ctx, id) {
			if errors.Is(err, session.ErrNotFound) {
				close(out) // deleted meanwhile: it is not open any more
				return
			}
			if !pause(ctx, s.o.Beat) {
				return
			}
		}
	}
}

// PutGrant stores a grant of the workspace.
func (s *Shared) PutGrant(ctx context.Context, workspace string, g approvals.Grant) error {
	return s.with(ctx, func(l *link) error { return l.PutGrant(ctx, workspace, g) })
}

// Grants returns the grants of the workspace in the order they were given.
func (s *Shared) Grants(ctx context.Context, workspace string) (gs []approvals.Grant, err error) {
	err = s.with(ctx, func(l *link) (err error) {
		gs, err = l.Grants(ctx, workspace)
		return err
	})
	return gs, err
}

// DeleteGrant removes a grant of the workspace.
func (s *Shared) DeleteGrant(ctx context.Context, workspace, id string) error {
	tried := false
	return s.with(ctx, func(l *link) error {
		err := l.DeleteGrant(ctx, workspace, id)
		if tried && errors.Is(err, session.ErrNotFound) {
			return nil // the first try may have removed it
		}
		tried = true
		return err
	})
}
