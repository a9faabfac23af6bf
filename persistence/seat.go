package persistence

import (
	"errors"
	"fmt"

	"github.com/gth-server/gth-server/session"
)

// seat is the store as one process uses it: the one that has it open, or one
// on the other side of a socket. Leases belong to a seat. Its methods that
// take a nonce know a repeat of a call by it and answer as the first time.
type seat struct {
	db    *DB
	owner owner
}

// head is what the store knows of a session beside its index entry.
type head struct {
	Epoch  uint64      `json:"epoch"`
	Last   session.Seq `json:"last"`
	Holder *owner      `json:"holder,omitempty"` // nil when the lease was given back
	Nonce  string      `json:"nonce,omitempty"`  // of the call that took the lease
}

// counter gives out numbers that grow over all sessions, so that a session
// which is deleted and made again does not repeat an epoch.
type counter struct {
	Last uint64 `json:"last"`
}

func (t *txn) count() (uint64, error) {
	var c counter
	if err := t.load([]byte{tabCounter}, &c); err != nil && !errors.Is(err, errAbsent) {
		return 0, err
	}
	c.Last++
	return c.Last, t.save([]byte{tabCounter}, c)
}

// head returns a session's head, or session.ErrNotFound.
func (t *txn) head(id session.ID) (head, error) {
	var h head
	if checkID("session", string(id)) != nil {
		return h, fmt.Errorf("session %.40q: %w", id, session.ErrNotFound)
	}
	err := t.load(sessionKey(tabHead, id), &h)
	if errors.Is(err, errAbsent) {
		return h, fmt.Errorf("session %s: %w", id, session.ErrNotFound)
	}
	if err != nil {
		return h, fmt.Errorf("session %s: %w", id, err)
	}
	return h, nil
}

// holding returns the head of the session whose current lease is l and s's.
// A seat that lost its connection meanwhile takes its place again.
func (s *seat) holding(t *txn, l session.Lease) (head, error) {
	h, err := t.head(l.Session)
	if errors.Is(err, session.ErrNotFound) {
		return h, fmt.Errorf("session %s is gone: %w", l.Session, session.ErrLost)
	}
	if err != nil {
		return h, err
	}
	if h.Epoch != l.Epoch || h.Holder == nil || h.Holder.Instance != s.owner.Instance {
		return h, fmt.Errorf("session %s, lease %d: %w", l.Session, l.Epoch, session.ErrLost)
	}
	s.db.attach(l.Session, s)
	return h, nil
}

// attach notes that s is there for the session.
func (d *DB) attach(id session.ID, s *seat) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leases[id] = s
}

// detach notes that s is not, if it was.
func (d *DB) detach(id session.ID, s *seat) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leases[id] == s {
		delete(d.leases, id)
	}
}

// gone notes that s will not come again: its leases are free.
func (d *DB) gone(s *seat) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, by := range d.leases {
		if by == s {
			delete(d.leases, id)
		}
	}
}

// heldBy returns the process that holds the session's lease and lives, as
// far as this store knows. A holder of before a take-over has a while to
// come back; one whose process is gone has not.
func (d *DB) heldBy(id session.ID, h head) *owner {
	d.mu.Lock()
	s, back := d.leases[id], d.waitFor
	d.mu.Unlock()
	if h.Holder == nil {
		return nil
	}
	if s != nil && s.owner.Instance == h.Holder.Instance {
		return &s.owner
	}
	if stopped, _ := processStopped(h.Holder.PID); stopped || !d.o.Now().Before(back) || !h.Holder.alive() {
		return nil
	}
	return h.Holder
}

func (s *seat) errHeld(by *owner) error {
	if by.Instance == s.owner.Instance {
		return fmt.Errorf("this process holds it: close it there first: %w", session.ErrConflict)
	}
	return fmt.Errorf("process %d holds it: close it there first: %w", by.PID, session.ErrConflict)
}
