package sessiontest

import (
	"context"
	"fmt"
	"sync"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// Process is a store as one process sees it: several share the store below,
// and each can die. After Kill every method fails and its leases are free,
// so that what its manager still does has no effect.
type Process struct {
	shared session.Store

	mu     sync.RWMutex // held for reading during a call, so that Kill cuts between calls
	dead   bool
	leases map[session.ID]session.Lease
}

var _ session.Store = (*Process)(nil)

// NewProcess returns a process that uses shared.
func NewProcess(shared session.Store) *Process {
	return &Process{shared: shared, leases: map[session.ID]session.Lease{}}
}

// Kill is the death of the process. A manager on it should be closed, for
// its goroutines, and nothing else.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	for _, l := range p.leases {
		_ = p.shared.Release(context.Background(), l) // one that is lost already is no fault
	}
	clear(p.leases)
}

// Stall is a process that stopped for so long that its leases were given to
// others, and goes on: what needs no lease still works.
func (p *Process) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.leases {
		_ = p.shared.Release(context.Background(), l) // one that is lost already is no fault
	}
	clear(p.leases)
}

// Alive runs f unless the process is dead, and not while it dies.
func (p *Process) Alive(f func()) bool { return p.do(func() error { f(); return nil }) == nil }

func (p *Process) do(f func() error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.dead {
		return fmt.Errorf("the process was killed: %w", session.ErrClosed)
	}
	return f()
}

// lease keeps what Create or Acquire gave.
func (p *Process) lease(give func() (session.Lease, error)) (session.Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return session.Lease{}, fmt.Errorf("the process was killed: %w", session.ErrClosed)
	}
	l, err := give()
	if err == nil {
		p.leases[l.Session] = l
	}
	return l, err
}

// Create is that of the store below.
func (p *Process) Create(ctx context.Context, m session.Meta) (session.Lease, error) {
	return p.lease(func() (session.Lease, error) { return p.shared.Create(ctx, m) })
}

// Acquire is that of the store below.
func (p *Process) Acquire(ctx context.Context, id session.ID) (session.Lease, error) {
	return p.lease(func() (session.Lease, error) { return p.shared.Acquire(ctx, id) })
}

// Release is that of the store below.
func (p *Process) Release(ctx context.Context, l session.Lease) error {
	return p.do(func() error { return p.shared.Release(ctx, l) })
}

// Meta is that of the store below.
func (p *Process) Meta(ctx context.Context, id session.ID) (m session.Meta, err error) {
	err = p.do(func() error { m, err = p.shared.Meta(ctx, id); return err })
	return m, err
}

// Update is that of the store below.
func (p *Process) Update(ctx context.Context, l session.Lease, m session.Meta) error {
	return p.do(func() error { return p.shared.Update(ctx, l, m) })
}

// List is that of the store below.
func (p *Process) List(ctx context.Context, f session.Filter) (page []session.Meta, next string, err error) {
	err = p.do(func() error { page, next, err = p.shared.List(ctx, f); return err })
	return page, next, err
}

// Delete is that of the store below.
func (p *Process) Delete(ctx context.Context, id session.ID) error {
	return p.do(func() error { return p.shared.Delete(ctx, id) })
}

// Append is that of the store below.
func (p *Process) Append(ctx context.Context, b session.Batch) (recs []session.Record, err error) {
	err = p.do(func() error { recs, err = p.shared.Append(ctx, b); return err })
	return recs, err
}

// After is that of the store below.
func (p *Process) After(ctx context.Context, id session.ID, seq session.Seq, limit int) (recs []session.Record, err error) {
	err = p.do(func() error { recs, err = p.shared.After(ctx, id, seq, limit); return err })
	return recs, err
}

// PutAsk is that of the store below.
func (p *Process) PutAsk(ctx context.Context, l session.Lease, r approvals.Request) error {
	return p.do(func() error { return p.shared.PutAsk(ctx, l, r) })
}

// GetAsk is that of the store below.
func (p *Process) GetAsk(ctx context.Context, id string) (a session.StoredAsk, err error) {
	err = p.do(func() error { a, err = p.shared.GetAsk(ctx, id); return err })
	return a, err
}

// AnswerAsk is that of the store below.
func (p *Process) AnswerAsk(ctx context.Context, id string, ans approvals.Answer, d approvals.Decision) (a session.StoredAsk, err error) {
	err = p.do(func() error { a, err = p.shared.AnswerAsk(ctx, id, ans, d); return err })
	return a, err
}

// ClaimAsk is that of the store below.
func (p *Process) ClaimAsk(ctx context.Context, l session.Lease, id, digest string) error {
	return p.do(func() error { return p.shared.ClaimAsk(ctx, l, id, digest) })
}

// OpenAsks is that of the store below.
func (p *Process) OpenAsks(ctx context.Context, id session.ID) (open []session.StoredAsk, err error) {
	err = p.do(func() error { open, err = p.shared.OpenAsks(ctx, id); return err })
	return open, err
}

// WatchAsk is that of the store below.
func (p *Process) WatchAsk(ctx context.Context, id string) (left <-chan struct{}, err error) {
	err = p.do(func() error { left, err = p.shared.WatchAsk(ctx, id); return err })
	return left, err
}

// PutGrant is that of the store below.
func (p *Process) PutGrant(ctx context.Context, workspace string, g approvals.Grant) error {
	return p.do(func() error { return p.shared.PutGrant(ctx, workspace, g) })
}

// Grants is that of the store below.
func (p *Process) Grants(ctx context.Context, workspace string) (gs []approvals.Grant, err error) {
	err = p.do(func() error { gs, err = p.shared.Grants(ctx, workspace); return err })
	return gs, err
}

// DeleteGrant is that of the store below.
func (p *Process) DeleteGrant(ctx context.Context, workspace, id string) error {
	return p.do(func() error { return p.shared.DeleteGrant(ctx, workspace, id) })
}

// Close closes the process's view; the store below stays open.
func (p *Process) Close() error {
	p.Kill()
	return nil
}
