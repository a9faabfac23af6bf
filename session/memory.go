package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gth-server/gth-server/approvals"
)

// NewMemory returns a Store that keeps everything in memory and forgets it
// when the process ends. What goes in and out is encoded in between, so
// callers share nothing with it.
func NewMemory() Store {
	return &memory{
		sessions: map[ID]*memorySession{},
		asks:     map[string]*memoryAsk{},
		grants:   map[string][]approvals.Grant{},
		revoked:  map[string]bool{},
	}
}

// memory is a Store. mu guards all of it and is never held over anything
// that blocks.
type memory struct {
	mu       sync.Mutex
	closed   bool
	sessions map[ID]*memorySession
	asks     map[string]*memoryAsk
	grants   map[string][]approvals.Grant
	revoked  map[string]bool // by workspace, NUL and id
}

type memorySession struct {
	meta  Meta
	epoch uint64
	held  bool
	log   [][]byte
	keys  map[string]span
}

// span is what a batch became: the records from first to behind.
type span struct{ first, behind int }

// enter locks the store for one call.
func (m *memory) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("memory store: %w", context.Cause(ctx))
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return fmt.Errorf("memory store: %w", ErrClosed)
	}
	return nil
}

// holding returns the session whose current lease is l.
func (m *memory) holding(l Lease) (*memorySession, error) {
	s := m.sessions[l.Session]
	if s == nil || !s.held || s.epoch != l.Epoch {
		return nil, fmt.Errorf("session %s, lease %d: %w", l.Session, l.Epoch, ErrLost)
	}
	return s, nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *memory) Create(ctx context.Context, meta Meta) (Lease, error) {
	if meta.ID == "" {
		return Lease{}, errors.New("create session: it has no id")
	}
	if err := m.enter(ctx); err != nil {
		return Lease{}, err
	}
	defer m.mu.Unlock()
	if m.sessions[meta.ID] != nil {
		return Lease{}, fmt.Errorf("create session %s: the id is taken: %w", meta.ID, ErrConflict)
	}
	meta.Roots = slices.Clone(meta.Roots)
	m.sessions[meta.ID] = &memorySession{meta: meta, epoch: 1, held: true, keys: map[string]span{}}
	return Lease{Session: meta.ID, Epoch: 1}, nil
}

func (m *memory) Acquire(ctx context.Context, id ID) (Lease, error) {
	if err := m.enter(ctx); err != nil {
		return Lease{}, err
	}
	defer m.mu.Unlock()
	s := m.sessions[id]
	switch {
	case s == nil:
		return Lease{}, fmt.Errorf("acquire session %s: %w", id, ErrNotFound)
	case s.held:
		return Lease{}, fmt.Errorf("acquire session %s: this process holds it: close it there first: %w", id, ErrConflict)
	}
	s.epoch++
	s.held = true
	return Lease{Session: id, Epoch: s.epoch}, nil
}

func (m *memory) Release(ctx context.Context, l Lease) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if s, err := m.holding(l); err == nil {
		s.held = false
	}
	return nil
}

func (m *memory) Meta(ctx context.Context, id ID) (Meta, error) {
	if err := m.enter(ctx); err != nil {
		return Meta{}, err
	}
	defer m.mu.Unlock()
	s := m.sessions[id]
	if s == nil {
		return Meta{}, fmt.Errorf("session %s: %w", id, ErrNotFound)
	}
	return copyMeta(s.meta), nil
}

func (m *memory) Update(ctx context.Context, l Lease, meta Meta) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	s, err := m.holding(l)
	if err != nil {
		return err
	}
	s.meta.Title, s.meta.Rung, s.meta.UpdatedAt = meta.Title, meta.Rung, meta.UpdatedAt
	return nil
}

func (m *memory) Delete(ctx context.Context, id ID) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	delete(m.sessions, id)
	for ask, a := range m.asks {
		if a.session == id {
			a.leave()
			delete(m.asks, ask)
		}
	}
	return nil
}

// defaultPage is the length of a page whose filter names none.
const defaultPage = 50

func (m *memory) List(ctx context.Context, f Filter) ([]Meta, string, error) {
	from, err := readCursor(f.Cursor)
	if err != nil {
		return nil, "", err
	}
	if err := m.enter(ctx); err != nil {
		return nil, "", err
	}
	defer m.mu.Unlock()
	var all []Meta
	for _, s := range m.sessions {
		if (f.Cwd == "" || s.meta.Cwd == f.Cwd) && (from == nil || from.before(s.meta)) {
			all = append(all, copyMeta(s.meta))
		}
	}
	slices.SortFunc(all, newestFirst)
	limit := f.Limit
	if limit <= 0 {
		limit = defaultPage
	}
	if len(all) <= limit {
		return all, "", nil
	}
	return all[:limit], writeCursor(all[limit-1]), nil
}

func copyMeta(m Meta) Meta {
	m.Roots = slices.Clone(m.Roots)
	return m
}

func newestFirst(a, b Meta) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// cursor is the last session of a page. It names a place in the order, so
// it stays good when that session is deleted.
type cursor struct {
	At time.Time `json:"at"`
	ID ID        `json:"id"`
}

func (c *cursor) before(m Meta) bool {
	return newestFirst(Meta{ID: c.ID, CreatedAt: c.At}, m) < 0
}

func writeCursor(m Meta) string {
	b, err := json.Marshal(cursor{At: m.CreatedAt, ID: m.ID})
	if err != nil {
		return "" // a time outside the years that JSON knows: the page is the last
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func readCursor(s string) (*cursor, error) {
	if s == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	c := &cursor{}
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.DisallowUnknownFields()
		err = dec.Decode(c)
	}
	if err != nil || c.ID == "" {
		return nil, fmt.Errorf("list sessions: cursor %.40q was not handed out here: start without one: %w", s, ErrNotFound)
	}
	return c, nil
}

func (m *memory) Append(ctx context.Context, b Batch) ([]Record, error) {
	stored, recs, err := encodeBatch(b)
	if err != nil {
		return nil, fmt.Errorf("append to session %s: %w", b.Lease.Session, err)
	}
	was, err := m.keep(ctx, b, stored)
	if err != nil {
		return nil, err
	}
	if was != nil {
		return decodeAll(was)
	}
	return recs, nil
}

// keep adds the encoded batch to its log, or returns what the log has under
// the batch's key.
func (m *memory) keep(ctx context.Context, b Batch, stored [][]byte) (was [][]byte, err error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	s, err := m.holding(b.Lease)
	if err != nil {
		return nil, err
	}
	if known, ok := s.keys[b.Key]; ok && b.Key != "" {
		return s.log[known.first:known.behind:known.behind], nil
	}
	first := len(s.log)
	if b.Expect != Seq(first) {
		return nil, fmt.Errorf("append to session %s: the log ends at %d, the writer knows of %d: %w", b.Lease.Session, first, b.Expect, ErrConflict)
	}
	s.log = append(s.log, stored...)
	if b.Key != "" {
		s.keys[b.Key] = span{first, len(s.log)}
	}
	return nil, nil
}

// encodeBatch numbers the batch behind what its writer expects. It decodes
// it again too: nothing is kept that could not be read back.
func encodeBatch(b Batch) ([][]byte, []Record, error) {
	stored := make([][]byte, 0, len(b.Events))
	for i, ev := range b.Events {
		enc, err := EncodeRecord(Record{Seq: b.Expect + Seq(i) + 1, At: b.At, Turn: b.Turn, Event: ev})
		if err != nil {
			return nil, nil, err
		}
		stored = append(stored, enc)
	}
	recs, err := decodeAll(stored)
	return stored, recs, err
}

func decodeAll(encoded [][]byte) ([]Record, error) {
	recs := make([]Record, 0, len(encoded))
	for _, b := range encoded {
		r, err := DecodeRecord(b)
		if err != nil {
			return nil, err
		}
		recs = append(recs, r)
	}
	return recs, nil
}

func (m *memory) After(ctx context.Context, id ID, seq Seq, limit int) ([]Record, error) {
	part, err := m.after(ctx, id, seq, limit)
	if err != nil {
		return nil, err
	}
	return decodeAll(part)
}

// after returns a part of the encoded log, which is never changed in place.
func (m *memory) after(ctx context.Context, id ID, seq Seq, limit int) ([][]byte, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	s := m.sessions[id]
	if s == nil {
		return nil, fmt.Errorf("session %s: %w", id, ErrNotFound)
	}
	part := s.log[min(seq, Seq(len(s.log))):]
	if limit > 0 && limit < len(part) {
		part = part[:limit]
	}
	return part, nil
}
