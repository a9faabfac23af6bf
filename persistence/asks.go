package persistence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// storedAsk is an ask with the nonces of the calls that moved it, by which
// a repeat of such a call is known.
type storedAsk struct {
	session.StoredAsk
	PutBy    string `json:"putBy,omitempty"`
	AnswerBy string `json:"answerBy,omitempty"`
	ClaimBy  string `json:"claimBy,omitempty"`
}

func again(nonce, was string) bool { return nonce != "" && nonce == was }

// ask returns an ask whose session is there.
func (t *txn) ask(id string) (storedAsk, error) {
	var a storedAsk
	err := errAbsent
	if checkID("ask", id) == nil {
		err = t.load(askKey(id), &a)
	}
	if err == nil {
		_, err = t.head(session.ID(a.Request.Session))
	}
	if errors.Is(err, errAbsent) || errors.Is(err, session.ErrNotFound) {
		return storedAsk{}, fmt.Errorf("ask %.80q: %w", id, session.ErrNotFound)
	}
	if err != nil {
		return storedAsk{}, fmt.Errorf("ask %s: %w", id, err)
	}
	return a, nil
}

func (t *txn) saveAsk(a storedAsk) error { return saveReadable(t, askKey(a.Request.ID), a) }

func openKey(r approvals.Request) []byte {
	return askOfKey(tabOpen, session.ID(r.Session), r.Created, r.ID)
}

// PutAsk stores an open ask.
func (s *seat) PutAsk(ctx context.Context, l session.Lease, r approvals.Request) error {
	return s.putAsk(ctx, l, r, "")
}

func (s *seat) putAsk(ctx context.Context, l session.Lease, r approvals.Request, nonce string) error {
	err := checkID("ask", r.ID)
	if err == nil && r.Session != string(l.Session) {
		err = fmt.Errorf("it is of session %q and the lease of %q", r.Session, l.Session)
	}
	if err == nil {
		err = s.db.do(ctx, &write{sync: true, run: func(t *txn) error {
			if _, err := s.holding(t, l); err != nil {
				return err
			}
			switch was, err := t.ask(r.ID); {
			case err == nil && again(nonce, was.PutBy):
				return nil
			case err == nil:
				return fmt.Errorf("the id is taken: %w", session.ErrConflict)
			case !errors.Is(err, session.ErrNotFound):
				return err
			}
			t.set(openKey(r), nil)
			t.set(askOfKey(tabAskOf, l.Session, r.Created, r.ID), nil)
			return t.saveAsk(storedAsk{StoredAsk: session.StoredAsk{Request: r, State: session.AskOpen}, PutBy: nonce})
		}})
	}
	if err != nil {
		return fmt.Errorf("put ask %.80q: %w", r.ID, err)
	}
	return nil
}

// GetAsk returns an ask.
func (s *seat) GetAsk(ctx context.Context, id string) (session.StoredAsk, error) {
	var a storedAsk
	err := s.db.read(ctx, func(t *txn) (err error) {
		a, err = t.ask(id)
		return err
	})
	return a.StoredAsk, err
}

// AnswerAsk moves an open ask to answered. When it is not open any more it
// returns what is stored and session.ErrConflict.
func (s *seat) AnswerAsk(ctx context.Context, id string, a approvals.Answer, d approvals.Decision) (session.StoredAsk, error) {
	return s.answerAsk(ctx, id, a, d, "")
}

func (s *seat) answerAsk(ctx context.Context, id string, ans approvals.Answer, d approvals.Decision, nonce string) (session.StoredAsk, error) {
	var stored storedAsk
	var late error // the ask changes all the same when it expires
	err := s.db.do(ctx, &write{sync: true, run: func(t *txn) (err error) {
		late = nil
		if stored, err = t.ask(id); err != nil {
			return err
		}
		if stored.State != session.AskOpen {
			if !again(nonce, stored.AnswerBy) {
				late = fmt.Errorf("it is %s already: %w", stored.State, session.ErrConflict)
			}
			return nil
		}
		stored.State, stored.Answer, stored.Decision, stored.AnswerBy = session.AskAnswered, &ans, &d, nonce
		if exp := stored.Request.Expires; !exp.IsZero() && !ans.At.Before(exp) {
			stored.State, stored.Answer, stored.Decision = session.AskExpired, nil, nil
			late = fmt.Errorf("it expired at %s: %w", exp, session.ErrConflict)
		}
		t.remove(openKey(stored.Request))
		return t.saveAsk(stored)
	}, then: func() { s.db.left(id) }})
	if err != nil {
		return session.StoredAsk{}, fmt.Errorf("answer ask %.80q: %w", id, err)
	}
	if late != nil {
		return stored.StoredAsk, fmt.Errorf("answer ask %s: %w", id, late)
	}
	return stored.StoredAsk, nil
}

// ClaimAsk moves an answered, approved ask to claimed, once.
func (s *seat) ClaimAsk(ctx context.Context, l session.Lease, id, digest string) error {
	return s.claimAsk(ctx, l, id, digest, "")
}

func (s *seat) claimAsk(ctx context.Context, l session.Lease, id, digest, nonce string) error {
	err := s.db.do(ctx, &write{sync: true, run: func(t *txn) error {
		a, err := t.ask(id)
		if err != nil {
			return err
		}
		if a.Request.Session != string(l.Session) {
			return fmt.Errorf("session %s did not ask it: %w", l.Session, session.ErrNotFound)
		}
		if _, err := s.holding(t, l); err != nil {
			return err
		}
		if a.State == session.AskClaimed && again(nonce, a.ClaimBy) {
			return nil
		}
		if err := claimable(a.StoredAsk, digest); err != nil {
			return err
		}
		a.State, a.ClaimBy = session.AskClaimed, nonce
		return t.saveAsk(a)
	}})
	if err != nil {
		return fmt.Errorf("claim ask %.80q: %w", id, err)
	}
	return nil
}

// claimable says why an ask may not be claimed for what has this digest.
// Edited arguments have a digest of their own, which the gate judged again.
func claimable(a session.StoredAsk, digest string) error {
	switch {
	case a.State != session.AskAnswered:
		return fmt.Errorf("it is %s: %w", a.State, session.ErrConflict)
	case a.Decision == nil || a.Decision.Action != approvals.Approve:
		return fmt.Errorf("it was not approved: %w", session.ErrConflict)
	case digest != a.Request.Digest && (a.Answer == nil || len(a.Answer.Arguments) == 0):
		return fmt.Errorf("what would run is not what was asked: %w", session.ErrConflict)
	}
	return nil
}

// OpenAsks returns the open asks of a session, or of all, oldest first.
func (s *seat) OpenAsks(ctx context.Context, id session.ID) ([]session.StoredAsk, error) {
	prefix := []byte{tabOpen}
	if id != "" {
		if checkID("session", string(id)) != nil {
			return nil, nil
		}
		prefix = sessionKey(tabOpen, id)
	}
	var open []session.StoredAsk
	err := s.db.read(ctx, func(t *txn) error {
		open = nil
		return t.scan(prefix, nil, false, func(key []byte, _ func() ([]byte, error)) (bool, error) {
			ask, err := askOfID(key)
			if err != nil {
				return false, err
			}
			a, err := t.ask(ask)
			if errors.Is(err, session.ErrNotFound) { // of a session that is being deleted
				return true, nil
			}
			if err == nil && a.State == session.AskOpen {
				open = append(open, a.StoredAsk)
			}
			return true, err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list open asks: %w", err)
	}
	slices.SortStableFunc(open, func(a, b session.StoredAsk) int {
		return cmp.Or(a.Request.Created.Compare(b.Request.Created), cmp.Compare(a.Request.ID, b.Request.ID))
	})
	return open, nil
}

// WatchAsk returns a channel that is closed when the ask leaves open. It is
// forgotten when ctx ends.
func (s *seat) WatchAsk(ctx context.Context, id string) (<-chan struct{}, error) {
	d := s.db
	ch := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { d.unwatch(id, ch) })
	d.mu.Lock()
	if d.watch[id] == nil {
		d.watch[id] = map[chan struct{}]func() bool{}
	}
	d.watch[id][ch] = stop
	d.mu.Unlock()
	// Only now, so that an answer in between is not missed.
	a, err := s.GetAsk(ctx, id)
	if err != nil {
		d.unwatch(id, ch)
		return nil, err
	}
	if a.State != session.AskOpen {
		d.left(id)
	}
	return ch, nil
}

func (d *DB) unwatch(id string, ch chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if stop := d.watch[id][ch]; stop != nil {
		stop()
	}
	delete(d.watch[id], ch)
	if len(d.watch[id]) == 0 {
		delete(d.watch, id)
	}
}

// left tells those who watch an ask that it is not open any more.
func (d *DB) left(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ch, stop := range d.watch[id] {
		stop()
		close(ch)
	}
	delete(d.watch, id)
}
