package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gth-server/gth-server/approvals"
)

// memoryAsk is an ask in the memory store, guarded by its lock.
type memoryAsk struct {
	session ID
	ask     StoredAsk     // what it points to is never changed nor handed out, see copyOf
	left    chan struct{} // closed when the ask leaves open
}

// leave tells the watchers, once.
func (a *memoryAsk) leave() {
	select {
	case <-a.left:
	default:
		close(a.left)
	}
}

// copyOf copies v by way of its encoding.
func copyOf[T any](v T) (T, error) {
	var c T
	b, err := marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	return c, err
}

func (m *memory) PutAsk(ctx context.Context, l Lease, r approvals.Request) error {
	if r.ID == "" || r.Session != string(l.Session) {
		return fmt.Errorf("put ask %q of session %q: it needs an id, and the session %s that the lease is for", r.ID, r.Session, l.Session)
	}
	r, err := copyOf(r)
	if err != nil {
		return fmt.Errorf("put ask %s: %w", r.ID, err)
	}
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if _, err := m.holding(l); err != nil {
		return err
	}
	if m.asks[r.ID] != nil {
		return fmt.Errorf("put ask %s: the id is taken: %w", r.ID, ErrConflict)
	}
	m.asks[r.ID] = &memoryAsk{session: l.Session, ask: StoredAsk{Request: r, State: AskOpen}, left: make(chan struct{})}
	return nil
}

func (m *memory) find(id string) (*memoryAsk, error) {
	a := m.asks[id]
	if a == nil {
		return nil, fmt.Errorf("ask %s: %w", id, ErrNotFound)
	}
	return a, nil
}

func (m *memory) GetAsk(ctx context.Context, id string) (StoredAsk, error) {
	a, err := m.snapshot(ctx, id)
	if err != nil {
		return StoredAsk{}, err
	}
	return copyOf(a)
}

func (m *memory) snapshot(ctx context.Context, id string) (StoredAsk, error) {
	if err := m.enter(ctx); err != nil {
		return StoredAsk{}, err
	}
	defer m.mu.Unlock()
	a, err := m.find(id)
	if err != nil {
		return StoredAsk{}, err
	}
	return a.ask, nil
}

func (m *memory) AnswerAsk(ctx context.Context, id string, ans approvals.Answer, d approvals.Decision) (StoredAsk, error) {
	given, err := copyOf(StoredAsk{State: AskAnswered, Answer: &ans, Decision: &d})
	if err != nil {
		return StoredAsk{}, fmt.Errorf("answer ask %s: %w", id, err)
	}
	a, err := m.answer(ctx, id, given)
	if err != nil && !errors.Is(err, ErrConflict) {
		return StoredAsk{}, err
	}
	stored, copyErr := copyOf(a)
	return stored, errors.Join(err, copyErr)
}

// answer returns what is stored then, also with ErrConflict.
func (m *memory) answer(ctx context.Context, id string, given StoredAsk) (StoredAsk, error) {
	if err := m.enter(ctx); err != nil {
		return StoredAsk{}, err
	}
	defer m.mu.Unlock()
	a, err := m.find(id)
	if err != nil {
		return StoredAsk{}, err
	}
	exp := a.ask.Request.Expires
	switch {
	case a.ask.State != AskOpen:
		return a.ask, fmt.Errorf("answer ask %s: it is %s already: %w", id, a.ask.State, ErrConflict)
	case !exp.IsZero() && !given.Answer.At.Before(exp):
		a.ask.State = AskExpired
		err = fmt.Errorf("answer ask %s: it expired at %s: %w", id, exp, ErrConflict)
	default:
		a.ask.State, a.ask.Answer, a.ask.Decision = given.State, given.Answer, given.Decision
	}
	a.leave()
	return a.ask, err
}

func (m *memory) ClaimAsk(ctx context.Context, l Lease, id, digest string) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	a, err := m.find(id)
	if err != nil {
		return err
	}
	if a.session != l.Session {
		return fmt.Errorf("claim ask %s: session %s did not ask it: %w", id, l.Session, ErrNotFound)
	}
	if _, err := m.holding(l); err != nil {
		return err
	}
	if err := claimable(a.ask, digest); err != nil {
		return fmt.Errorf("claim ask %s: %w", id, err)
	}
	a.ask.State = AskClaimed
	return nil
}

// claimable says why a may not be claimed for what has this digest. Edited
// arguments have a digest of their own, which the gate judged again.
func claimable(a StoredAsk, digest string) error {
	switch {
	case a.State != AskAnswered:
		return fmt.Errorf("it is %s: %w", a.State, ErrConflict)
	case a.Decision == nil || a.Decision.Action != approvals.Approve:
		return fmt.Errorf("it was not approved: %w", ErrConflict)
	case digest != a.Request.Digest && (a.Answer == nil || len(a.Answer.Arguments) == 0):
		return fmt.Errorf("what would run is not what was asked: %w", ErrConflict)
	}
	return nil
}

func (m *memory) OpenAsks(ctx context.Context, id ID) ([]StoredAsk, error) {
	open, err := m.open(ctx, id)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	slices.SortFunc(open, func(a, b StoredAsk) int {
		return cmp.Or(a.Request.Created.Compare(b.Request.Created), cmp.Compare(a.Request.ID, b.Request.ID))
	})
	return copyOf(open)
}

func (m *memory) open(ctx context.Context, id ID) ([]StoredAsk, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var open []StoredAsk
	for _, a := range m.asks {
		if a.ask.State == AskOpen && (id == "" || a.session == id) {
			open = append(open, a.ask)
		}
	}
	return open, nil
}

func (m *memory) WatchAsk(ctx context.Context, id string) (<-chan struct{}, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	a, err := m.find(id)
	if err != nil {
		return nil, err
	}
	return a.left, nil
}

func (m *memory) PutGrant(ctx context.Context, workspace string, g approvals.Grant) error {
	if workspace == "" || g.ID == "" {
		return fmt.Errorf("put grant %q of workspace %q: it needs an id and a workspace", g.ID, workspace)
	}
	g, err := copyOf(g)
	if err != nil {
		return fmt.Errorf("put grant %s: %w", g.ID, err)
	}
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if m.revoked[workspace+"\x00"+g.ID] {
		return nil
	}
	have := slices.Clone(m.grants[workspace]) // readers may still hold it
	if i := slices.IndexFunc(have, func(h approvals.Grant) bool { return h.ID == g.ID }); i >= 0 {
		have[i] = g
	} else {
		have = append(have, g)
	}
	m.grants[workspace] = have
	return nil
}

func (m *memory) Grants(ctx context.Context, workspace string) ([]approvals.Grant, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	have := m.grants[workspace]
	m.mu.Unlock()
	if len(have) == 0 {
		return nil, nil
	}
	return copyOf(have)
}

func (m *memory) DeleteGrant(ctx context.Context, workspace, id string) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	have := m.grants[workspace]
	kept := slices.DeleteFunc(slices.Clone(have), func(g approvals.Grant) bool { return g.ID == id })
	if len(kept) == len(have) {
		return fmt.Errorf("grant %s of workspace %s: %w", id, workspace, ErrNotFound)
	}
	m.grants[workspace] = kept
	m.revoked[workspace+"\x00"+id] = true
	return nil
}
