package persistence

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gth-server/gth-server/session"
)

// recheck makes a store whole again after files of it were lost: a log ends
// before its first gap, what can not be read is removed, and indexes name
// what is there. It says what was lost.
func (d *DB) recheck() error {
	var lost []string
	var sessions []session.ID
	err := d.now(func(t *txn) error {
		bad, err := t.unreadable()
		for _, key := range bad {
			lost = append(lost, fmt.Sprintf("a value of table %q", key[0]))
			t.remove(key)
		}
		return err
	})
	if err == nil {
		err = d.now(func(t *txn) (err error) {
			sessions, err = t.ids()
			return err
		})
	}
	for _, id := range sessions {
		if err != nil {
			break
		}
		err = d.now(func(t *txn) error {
			what, err := t.mend(id)
			if what != "" {
				lost = append(lost, fmt.Sprintf("session %s: %s", id, what))
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("repair the store: %w", err)
	}
	if err := d.badger.Sync(); err != nil {
		return err
	}
	if len(lost) > 0 {
		d.o.Logger.Error("parts of the store were lost", slog.Int("count", len(lost)), slog.Any("lost", lost[:min(len(lost), 100)]))
	}
	name := filepath.Join(d.dir, "lost-"+d.o.Now().UTC().Format("20060102-150405.000")+".txt")
	if err := writeReport(name, lost); err != nil {
		d.o.Logger.Warn("the list of what was lost was not written", slog.Any("error", err))
	}
	return removeIfThere(checkMark(d.dir))
}

func writeReport(name string, lost []string) error {
	if len(lost) == 0 {
		return nil
	}
	var b []byte
	for _, l := range lost {
		b = append(append(b, l...), '\n')
	}
	return os.WriteFile(name, b, 0o600)
}

// now carries a change out before the writer runs, in pieces that fit.
func (d *DB) now(f func(*txn) error) error {
	b := d.badger.NewTransaction(false)
	defer b.Discard()
	t := &txn{b: b}
	if err := guarded(func() error { return f(t) }); err != nil {
		return err
	}
	wb := d.badger.NewWriteBatch()
	defer wb.Cancel()
	for _, c := range t.changes {
		var err error
		if c.value == nil {
			err = wb.Delete(c.key)
		} else {
			err = wb.Set(c.key, c.value)
		}
		if err != nil {
			return err
		}
	}
	return wb.Flush()
}

// unreadable returns the keys outside of logs whose value is no value.
func (t *txn) unreadable() (bad [][]byte, err error) {
	err = t.scan(nil, nil, true, func(key []byte, value func() ([]byte, error)) (bool, error) {
		_, err := value()
		if errors.Is(err, session.ErrNewer) {
			return false, err
		}
		if err != nil && key[0] != tabLog && key[0] != tabChunk {
			bad = append(bad, append([]byte(nil), key...))
		}
		return true, nil
	})
	return bad, err
}

// ids returns every session of which anything is there.
func (t *txn) ids() (ids []session.ID, err error) {
	seen := map[session.ID]bool{}
	for _, table := range []byte{tabMeta, tabHead, tabLog} {
		err := t.scan([]byte{table}, nil, false, func(key []byte, _ func() ([]byte, error)) (bool, error) {
			if len(key) < 2 || len(key) < 2+int(key[1]) {
				return true, nil
			}
			if id := session.ID(key[2 : 2+int(key[1])]); !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// mend makes one session whole and says what is missing.
func (t *txn) mend(id session.ID) (string, error) {
	m, merr := t.meta(id)
	h, herr := t.head(id)
	last, removed, err := t.cut(id)
	if err != nil {
		return "", err
	}
	gone, err := t.has(sessionKey(tabGone, id))
	if err != nil || gone {
		return "", err // its deletion goes on
	}
	what := ""
	switch {
	case removed > 0 || herr == nil && h.Last > last:
		what = fmt.Sprintf("its records behind %d", last)
	case merr != nil || herr != nil:
		what = "what the index knew of it"
	default:
		for _, k := range indexKeys(m) {
			t.set(k, nil)
		}
		return "", nil
	}
	if merr != nil {
		at := time.Unix(0, 0).UTC()
		m = session.Meta{ID: id, Title: "recovered session", CreatedAt: at, UpdatedAt: at}
		if err := t.save(sessionKey(tabMeta, id), m); err != nil {
			return "", err
		}
	}
	for _, k := range indexKeys(m) {
		t.set(k, nil)
	}
	h.Last, h.Holder, h.Nonce = last, nil, ""
	return what, errors.Join(t.forgetBatches(id, last), t.save(sessionKey(tabHead, id), h))
}

// forgetBatches removes the keys of batches that are not there any more, so
// that their writer may store them again.
func (t *txn) forgetBatches(id session.ID, last session.Seq) error {
	return t.scan(sessionKey(tabKey, id), nil, true, func(key []byte, value func() ([]byte, error)) (bool, error) {
		p, err := value()
		var sp span
		if err == nil {
			sp, err = decodeSpan(p)
		}
		if err != nil || sp.last > last {
			t.remove(append([]byte(nil), key...))
		}
		return true, nil
	})
}

// cut removes the batches of a log behind its first gap.
func (t *txn) cut(id session.ID) (last session.Seq, removed int, err error) {
	prefix := sessionKey(tabLog, id)
	broken := false
	err = t.scan(prefix, nil, true, func(key []byte, value func() ([]byte, error)) (bool, error) {
		if !broken {
			p, err := value()
			var b batch
			if err == nil {
				b, err = decodeBatch(p)
			}
			if err == nil && b.first == last+1 && readable(b) {
				last = b.last()
				return true, nil
			}
			broken = true
		}
		t.remove(append([]byte(nil), key...))
		removed++
		return true, nil
	})
	return last, removed, err
}

func readable(b batch) bool {
	for _, r := range b.records {
		if _, err := session.DecodeRecord(r); err != nil && !errors.Is(err, session.ErrNewer) {
			return false
		}
	}
	return true
}
