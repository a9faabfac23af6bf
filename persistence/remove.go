package persistence

import (
	"context"
	"errors"
	"fmt"

	"github.com/gth-server/gth-server/session"
)

// sweepLen bounds the keys that one transaction of a deletion removes.
const sweepLen = 500

// Delete removes a session with its log and asks. It is gone for everybody
// at once; a deletion that was cut off goes on when the store opens again.
func (s *seat) Delete(ctx context.Context, id session.ID) error {
	if checkID("session", string(id)) != nil {
		return nil
	}
	if err := s.db.hide(ctx, id); err != nil {
		return fmt.Errorf("delete session %s: %w", id, err)
	}
	if _, err := s.db.sweep(ctx, id); err != nil {
		return fmt.Errorf("delete session %s: it is hidden and not all of it is removed yet: %w", id, err)
	}
	return nil
}

// hide makes a session unknown and notes that the rest is to be removed.
func (d *DB) hide(ctx context.Context, id session.ID) error {
	var asks []string
	err := d.do(ctx, &write{sync: true, solo: true, run: func(t *txn) error {
		asks = nil
		m, err := t.meta(id)
		if errors.Is(err, session.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		err = t.scan(sessionKey(tabOpen, id), nil, false, func(key []byte, _ func() ([]byte, error)) (bool, error) {
			ask, err := askOfID(key)
			asks = append(asks, ask)
			return true, err
		})
		t.remove(sessionKey(tabMeta, id), sessionKey(tabHead, id))
		t.remove(indexKeys(m)...)
		t.set(sessionKey(tabGone, id), nil)
		return err
	}})
	if err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.leases, id)
	d.mu.Unlock()
	for _, ask := range asks {
		d.left(ask)
	}
	return nil
}

// sweep removes what a hidden session left behind, a piece at a time so that
// other writes come in between. It returns the bytes that it removed.
func (d *DB) sweep(ctx context.Context, id session.ID) (int64, error) {
	var bytes int64
	for {
		var n int
		var size int64
		err := d.do(ctx, &write{run: func(t *txn) error {
			n, size = 0, 0
			if marked, err := t.has(sessionKey(tabGone, id)); err != nil || !marked {
				return err
			}
			if err := t.sweepAsks(id, &n, &size); err != nil {
				return err
			}
			for _, prefix := range [][]byte{
				sessionKey(tabLog, id), sessionKey(tabKey, id), sessionKey(tabOpen, id),
				chunkPrefix(sessionKey(tabLog, id)),
			} {
				if err := t.sweepPrefix(prefix, &n, &size); err != nil {
					return err
				}
			}
			if n == 0 {
				t.remove(sessionKey(tabGone, id))
			}
			return nil
		}})
		bytes += size
		if err != nil || n == 0 {
			return bytes, err
		}
	}
}

func (t *txn) sweepPrefix(prefix []byte, n *int, size *int64) error {
	o := scanKeys(prefix)
	it := t.b.NewIterator(o)
	defer it.Close()
	for it.Rewind(); it.Valid() && *n < sweepLen; it.Next() {
		t.remove(it.Item().KeyCopy(nil))
		*size += it.Item().EstimatedSize()
		*n++
	}
	return nil
}

// sweepAsks removes asks of the session; a transaction that writes has one
// iterator at a time.
func (t *txn) sweepAsks(id session.ID, n *int, size *int64) error {
	var asks []string
	err := t.scan(sessionKey(tabAskOf, id), nil, false, func(key []byte, _ func() ([]byte, error)) (bool, error) {
		ask, err := askOfID(key)
		if err != nil {
			return false, err
		}
		t.remove(append([]byte(nil), key...), askKey(ask))
		asks = append(asks, ask)
		*n += 2
		return *n < sweepLen, nil
	})
	for _, ask := range asks {
		if err == nil {
			err = t.sweepPrefix(chunkPrefix(askKey(ask)), n, size)
		}
	}
	return err
}

// hidden returns the sessions whose deletion was cut off.
func (d *DB) hidden(ctx context.Context) ([]session.ID, error) {
	var ids []session.ID
	err := d.read(ctx, func(t *txn) error {
		return t.scan([]byte{tabGone}, nil, false, func(key []byte, _ func() ([]byte, error)) (bool, error) {
			if len(key) > 2 {
				ids = append(ids, session.ID(key[2:]))
			}
			return true, nil
		})
	})
	return ids, err
}
