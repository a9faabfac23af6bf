package persistence

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/gth-server/gth-server/session"
)

// defaultPage is the length of a page whose filter names none.
const defaultPage = 50

// Create adds a session and returns the first lease.
func (s *seat) Create(ctx context.Context, m session.Meta) (session.Lease, error) {
	return s.create(ctx, m, "")
}

func (s *seat) create(ctx context.Context, m session.Meta, nonce string) (session.Lease, error) {
	l := session.Lease{Session: m.ID}
	err := checkID("session", string(m.ID))
	if err == nil {
		err = s.db.do(ctx, &write{solo: true, run: func(t *txn) (err error) {
			l.Epoch, err = s.add(t, m, nonce)
			return err
		}, then: func() { s.db.attach(m.ID, s) }})
	}
	if err != nil {
		return session.Lease{}, fmt.Errorf("create session %.80q: %w", m.ID, err)
	}
	return l, nil
}

func (s *seat) add(t *txn, m session.Meta, nonce string) (uint64, error) {
	switch h, err := t.head(m.ID); {
	case err == nil && nonce != "" && h.Nonce == nonce:
		return h.Epoch, nil
	case err == nil:
		return 0, fmt.Errorf("the id is taken: %w", session.ErrConflict)
	case !errors.Is(err, session.ErrNotFound):
		return 0, err
	}
	if gone, err := t.has(sessionKey(tabGone, m.ID)); err != nil || gone {
		return 0, errors.Join(fmt.Errorf("a session of this id is being deleted: %w", session.ErrConflict), err)
	}
	epoch, err := t.count()
	if err != nil {
		return 0, err
	}
	for _, k := range indexKeys(m) {
		t.set(k, nil)
	}
	own := s.owner
	return epoch, errors.Join(
		t.save(sessionKey(tabMeta, m.ID), m),
		t.save(sessionKey(tabHead, m.ID), head{Epoch: epoch, Holder: &own, Nonce: nonce}))
}

// Acquire takes the lease of an existing session. A conflict names the
// process that holds it.
func (s *seat) Acquire(ctx context.Context, id session.ID) (session.Lease, error) {
	return s.acquire(ctx, id, "")
}

func (s *seat) acquire(ctx context.Context, id session.ID, nonce string) (session.Lease, error) {
	l := session.Lease{Session: id}
	err := s.db.do(ctx, &write{solo: true, run: func(t *txn) error {
		h, err := t.head(id)
		if err != nil {
			return err
		}
		if nonce != "" && h.Nonce == nonce && h.Holder != nil {
			l.Epoch = h.Epoch
			return nil
		}
		if by := s.db.heldBy(id, h); by != nil {
			return s.errHeld(by)
		}
		own := s.owner
		if h.Epoch, err = t.count(); err != nil {
			return err
		}
		h.Holder, h.Nonce, l.Epoch = &own, nonce, h.Epoch
		return t.save(sessionKey(tabHead, id), h)
	}, then: func() { s.db.attach(id, s) }})
	if err != nil {
		return session.Lease{}, fmt.Errorf("acquire session %.80q: %w", id, err)
	}
	return l, nil
}

// Release gives a lease back.
func (s *seat) Release(ctx context.Context, l session.Lease) error {
	err := s.db.do(ctx, &write{solo: true, run: func(t *txn) error {
		h, err := s.holding(t, l)
		if err != nil {
			return err
		}
		return t.free(l.Session, h)
	}, then: func() { s.db.detach(l.Session, s) }})
	if err != nil && !errors.Is(err, session.ErrLost) {
		return fmt.Errorf("release session %s: %w", l.Session, err)
	}
	return nil
}

// giveBack releases the lease that s has of a session, if it has one.
func (s *seat) giveBack(ctx context.Context, id session.ID) error {
	return s.db.do(ctx, &write{solo: true, run: func(t *txn) error {
		h, err := t.head(id)
		if errors.Is(err, session.ErrNotFound) || err == nil && (h.Holder == nil || h.Holder.Instance != s.owner.Instance) {
			return nil
		}
		if err != nil {
			return err
		}
		return t.free(id, h)
	}, then: func() { s.db.detach(id, s) }})
}

// free stores that nobody holds the session.
func (t *txn) free(id session.ID, h head) error {
	h.Holder, h.Nonce = nil, ""
	return t.save(sessionKey(tabHead, id), h)
}

// keep takes s's place for a lease again after its connection was lost.
func (s *seat) keep(ctx context.Context, l session.Lease) error {
	return s.db.do(ctx, &write{solo: true, run: func(t *txn) error {
		_, err := s.holding(t, l)
		return err
	}})
}

func (t *txn) meta(id session.ID) (session.Meta, error) {
	var m session.Meta
	err := t.load(sessionKey(tabMeta, id), &m)
	if errors.Is(err, errAbsent) {
		return m, fmt.Errorf("session %s: %w", id, session.ErrNotFound)
	}
	return m, err
}

// Meta returns a session's index entry.
func (s *seat) Meta(ctx context.Context, id session.ID) (session.Meta, error) {
	var m session.Meta
	if checkID("session", string(id)) != nil {
		return m, fmt.Errorf("session %.80q: %w", id, session.ErrNotFound)
	}
	err := s.db.read(ctx, func(t *txn) (err error) {
		m, err = t.meta(id)
		return err
	})
	return m, err
}

// Update changes title, rung and time of the index entry.
func (s *seat) Update(ctx context.Context, l session.Lease, m session.Meta) error {
	err := s.db.do(ctx, &write{run: func(t *txn) error {
		if _, err := s.holding(t, l); err != nil {
			return err
		}
		was, err := t.meta(l.Session)
		if err != nil {
			return err
		}
		was.Title, was.Rung, was.UpdatedAt = m.Title, m.Rung, m.UpdatedAt
		return t.save(sessionKey(tabMeta, l.Session), was)
	}})
	if err != nil {
		return fmt.Errorf("update session %s: %w", l.Session, err)
	}
	return nil
}

// List returns a page of sessions, newest first.
func (s *seat) List(ctx context.Context, f session.Filter) ([]session.Meta, string, error) {
	from, err := s.db.openCursor(f.Cursor)
	if err != nil {
		return nil, "", err
	}
	limit := f.Limit
	if limit <= 0 {
		limit = defaultPage
	}
	prefix := []byte{tabIndex}
	if f.Cwd != "" {
		prefix = digestPrefix(tabCwd, f.Cwd)
	}
	var page []session.Meta
	var cursor string
	err = s.db.read(ctx, func(t *txn) error {
		page, cursor = nil, ""
		start := append(append([]byte(nil), prefix...), from...)
		return t.scan(prefix, start, false, func(key []byte, _ func() ([]byte, error)) (bool, error) {
			at := key[len(prefix):]
			if from != nil && string(at) == string(from) {
				return true, nil
			}
			if len(page) == limit {
				cursor = s.db.sealCursor(place(page[limit-1]))
				return false, nil
			}
			id, err := placeID(at)
			if err != nil {
				return false, err
			}
			m, err := t.meta(id)
			if errors.Is(err, session.ErrNotFound) {
				return true, nil // what it named was lost with a file
			}
			if err == nil && (f.Cwd == "" || m.Cwd == f.Cwd) {
				page = append(page, m)
			}
			return true, err
		})
	})
	if err != nil {
		return nil, "", fmt.Errorf("list sessions: %w", err)
	}
	return page, cursor, nil
}

const macLen = 8

// cursorSecret is the key that cursors of this store are signed with.
func (d *DB) cursorSecret() ([]byte, error) {
	b := d.badger.NewTransaction(!d.readOnly)
	defer b.Discard()
	t := &txn{b: b}
	secret, err := t.get([]byte{tabSecret})
	if !errors.Is(err, errAbsent) || d.readOnly {
		return secret, err
	}
	secret = make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	t.set([]byte{tabSecret}, secret)
	return secret, errors.Join(apply(b, t.changes), b.Commit())
}

func (d *DB) mac(place []byte) []byte {
	h := hmac.New(sha256.New, d.secret)
	h.Write(place)
	return h.Sum(nil)[:macLen]
}

func (d *DB) sealCursor(place []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(d.mac(place), place...))
}

func (d *DB) openCursor(c string) ([]byte, error) {
	if c == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil || len(b) <= macLen || !hmac.Equal(b[:macLen], d.mac(b[macLen:])) {
		return nil, fmt.Errorf("list sessions: cursor %.40q was not handed out here: start without one: %w", c, session.ErrNotFound)
	}
	return b[macLen:], nil
}
