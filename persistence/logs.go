package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gth-server/gth-server/session"
)

// span is what a batch became.
type span struct{ first, last session.Seq }

func (s span) encode() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(s.first)), uint64(s.last))
}

func decodeSpan(b []byte) (span, error) {
	if len(b) != 16 {
		return span{}, fmt.Errorf("the place of a batch: %w", ErrDamaged)
	}
	return span{session.Seq(binary.BigEndian.Uint64(b)), session.Seq(binary.BigEndian.Uint64(b[8:]))}, nil
}

// Append stores a batch and returns its records. A batch whose key was
// stored before returns the records of that time.
func (s *seat) Append(ctx context.Context, b session.Batch) ([]session.Record, error) {
	recs, encoded, sync, err := encodeBatch(b)
	if err == nil {
		var was *span
		was, err = s.append(ctx, b.Lease, b.Expect, b.Key, encoded, sync)
		if err == nil && was != nil {
			recs, err = s.between(ctx, b.Lease.Session, *was)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("append to session %.80q: %w", b.Lease.Session, err)
	}
	return recs, nil
}

// encodeBatch returns the records that b will be if its writer knows the end
// of the log, and their encoding. Nothing is stored that could not be read
// back.
func encodeBatch(b session.Batch) (recs []session.Record, encoded [][]byte, sync bool, err error) {
	sync = b.Sync
	for i, ev := range b.Events {
		enc, err := session.EncodeRecord(session.Record{Seq: b.Expect + session.Seq(i) + 1, At: b.At, Turn: b.Turn, Event: ev})
		if err != nil {
			return nil, nil, false, err
		}
		r, err := session.DecodeRecord(enc)
		if err != nil {
			return nil, nil, false, err
		}
		recs, encoded, sync = append(recs, r), append(encoded, enc), sync || mustSync(ev)
	}
	return recs, encoded, sync, nil
}

// mustSync reports whether an event is on the disk before anyone acts on it,
// whatever its writer asked for.
func mustSync(ev session.Event) bool {
	switch ev.(type) {
	case session.Asked, session.Answered, session.Granted, session.Decided, session.CallExecuting, session.RungChanged:
		return true
	}
	return false
}

// append stores encoded records behind expect. It returns where the batch is
// when its key was stored before.
func (s *seat) append(ctx context.Context, l session.Lease, expect session.Seq, key string, encoded [][]byte, sync bool) (*span, error) {
	var was *span
	err := s.db.do(ctx, &write{sync: sync, run: func(t *txn) error {
		was = nil
		h, err := s.holding(t, l)
		if err != nil {
			return err
		}
		if key != "" {
			if was, err = t.stored(l.Session, key); err != nil || was != nil {
				return err
			}
		}
		if h.Last != expect {
			return fmt.Errorf("the log ends at %d, the writer knows of %d: %w", h.Last, expect, session.ErrConflict)
		}
		if len(encoded) == 0 {
			return nil
		}
		b := batch{first: expect + 1, key: key, records: encoded}
		h.Last = b.last()
		t.set(logKey(l.Session, h.Last), b.encode())
		if key != "" {
			t.set(batchKey(l.Session, key), span{b.first, h.Last}.encode())
		}
		return t.save(sessionKey(tabHead, l.Session), h)
	}})
	return was, err
}

func (t *txn) stored(id session.ID, key string) (*span, error) {
	p, err := t.get(batchKey(id, key))
	if errors.Is(err, errAbsent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sp, err := decodeSpan(p)
	return &sp, err
}

func (s *seat) between(ctx context.Context, id session.ID, sp span) ([]session.Record, error) {
	return s.After(ctx, id, sp.first-1, int(sp.last-sp.first)+1)
}

// After returns the records with a number above seq, up to limit.
func (s *seat) After(ctx context.Context, id session.ID, seq session.Seq, limit int) ([]session.Record, error) {
	encoded, _, err := s.after(ctx, id, seq, limit, 0)
	if err != nil {
		return nil, err
	}
	return decodeRecords(id, encoded)
}

func decodeRecords(id session.ID, encoded [][]byte) ([]session.Record, error) {
	recs := make([]session.Record, 0, len(encoded))
	for _, b := range encoded {
		r, err := session.DecodeRecord(b)
		if err != nil {
			return nil, fmt.Errorf("read session %s: %w", id, err)
		}
		recs = append(recs, r)
	}
	return recs, nil
}

// after returns encoded records. With bytes it stops early, behind at least
// one batch, and says so.
func (s *seat) after(ctx context.Context, id session.ID, seq session.Seq, limit, bytes int) (encoded [][]byte, more bool, err error) {
	err = s.db.read(ctx, func(t *txn) error {
		encoded, more = nil, false
		h, err := t.head(id)
		if err != nil {
			return err
		}
		size, next := 0, seq+1
		err = t.scan(sessionKey(tabLog, id), logKey(id, next), true, func(_ []byte, value func() ([]byte, error)) (bool, error) {
			p, err := value()
			if err != nil {
				return false, err
			}
			b, err := decodeBatch(p)
			if err != nil {
				return false, err
			}
			if b.first > next || b.last() < next {
				return false, errGap(next, b.first)
			}
			part := b.records[next-b.first:]
			if limit > 0 {
				part = part[:min(len(part), limit-len(encoded))]
			}
			encoded = append(encoded, part...)
			next += session.Seq(len(part))
			size += len(p)
			more = bytes > 0 && size >= bytes
			return !more && (limit <= 0 || len(encoded) < limit), nil
		})
		if err == nil && !more && (limit <= 0 || len(encoded) < limit) && next <= h.Last {
			err = errGap(next, h.Last+1)
		}
		return err
	})
	if err != nil {
		if errors.Is(err, ErrDamaged) {
			s.db.noteDamage(slog.String("session", string(id)), err)
		}
		return nil, false, fmt.Errorf("read session %.80q: %w", id, err)
	}
	return encoded, more, nil
}

func errGap(from, to session.Seq) error {
	return fmt.Errorf("its records from %d up to %d are missing: %w: start gth-server again to keep what is readable", from, to-1, ErrDamaged)
}
