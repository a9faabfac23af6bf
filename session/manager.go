package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gth-server/gth-server/approvals"
)

// ErrPersonNeeded ends a turn whose ask nobody can answer now.
var ErrPersonNeeded = errors.New("a person is needed")

// Options configure a Manager. Store and NewRunner are required.
type Options struct {
	Store     Store
	NewRunner NewRunner
	Logger    *slog.Logger     // nil discards
	Now       func() time.Time // nil is time.Now
	AskExpiry time.Duration    // 0 is 24 h; no expiry while a turn waits
}

const defaultAskExpiry = 24 * time.Hour

// Manager owns the sessions of a process and every goroutine in them.
// Its methods are safe for concurrent use.
type Manager struct {
	o      Options
	ctx    context.Context // parent of every turn
	cancel context.CancelCauseFunc

	mu     sync.Mutex // guards what follows; never held over I/O
	slots  map[ID]*slot
	closed bool
}

// slot is the place of a session from the start of Create or Open to the end
// of Close.
type slot struct {
	session *Session // nil while it is being made
	gone    chan struct{}
}

// NewManager returns a manager. ctx is the parent of every session.
func NewManager(ctx context.Context, o Options) *Manager {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.AskExpiry == 0 {
		o.AskExpiry = defaultAskExpiry
	}
	m := &Manager{o: o, slots: map[ID]*slot{}}
	m.ctx, m.cancel = context.WithCancelCause(ctx)
	return m
}

// now is the clock of records: UTC, and only what the encoding keeps.
func (m *Manager) now() time.Time { return m.o.Now().UTC().Round(0) }

// Create makes a session and its runner. The error says what is wrong with
// spec.Cwd when it is relative, missing or no directory; it is ErrConflict
// when the id is taken. An empty spec.ID gets one.
func (m *Manager) Create(ctx context.Context, spec Spec) (*Session, error) {
	spec, workspace, err := checked(spec)
	if err != nil {
		return nil, fmt.Errorf("create session: %w", err)
	}
	s, err := m.place(ctx, spec.ID, func(ctx context.Context, p *slot) (*Session, error) {
		return m.open(ctx, spec, workspace, p)
	})
	if err != nil {
		return nil, fmt.Errorf("create session %s: %w", spec.ID, err)
	}
	return s, nil
}

// place reserves the id and makes its session there. ctx of make also ends
// with the manager.
func (m *Manager) place(ctx context.Context, id ID, make func(context.Context, *slot) (*Session, error)) (*Session, error) {
	p, err := m.reserve(id)
	if err != nil {
		return nil, err
	}
	making, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.ctx, func() { cancel(context.Cause(m.ctx)) })()
	s, err := make(making, p)
	if err != nil {
		m.free(id, p)
		return nil, err
	}
	m.mu.Lock()
	p.session = s
	closed := m.closed
	m.mu.Unlock()
	if closed {
		return nil, errors.Join(ErrClosed, s.Close(ctx))
	}
	return s, nil
}

func (m *Manager) reserve(id ID) (*slot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, ErrClosed
	case m.slots[id] != nil:
		return nil, fmt.Errorf("it is open in this process already: %w", ErrConflict)
	}
	p := &slot{gone: make(chan struct{})}
	m.slots[id] = p
	return p, nil
}

func (m *Manager) free(id ID, p *slot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.slots, id)
	close(p.gone)
}

// open makes the store's entry and the runner, or leaves nothing behind.
func (m *Manager) open(ctx context.Context, spec Spec, workspace string, p *slot) (*Session, error) {
	now := m.now()
	lease, err := m.o.Store.Create(ctx, Meta{
		ID: spec.ID, Cwd: spec.Cwd, Roots: spec.Roots, Surface: spec.Surface, Rung: spec.Rung, CreatedAt: now, UpdatedAt: now,
	})
	if err != nil {
		return nil, err
	}
	runner, err := makeRunner(ctx, m.o.NewRunner, spec)
	if err != nil {
		undo, stop := detached(ctx)
		defer stop()
		return nil, errors.Join(err, m.o.Store.Delete(undo, spec.ID))
	}
	return newSession(m, spec, workspace, lease, runner, func() { m.free(spec.ID, p) }), nil
}

func makeRunner(ctx context.Context, make NewRunner, spec Spec) (r Runner, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked("the runner's constructor", p)
		}
	}()
	r, err = make(ctx, spec)
	if err == nil && r == nil {
		err = errors.New("there is no runner: NewRunner returned none")
	}
	return r, err
}

// checked completes spec and returns it with the real path of its cwd.
func checked(spec Spec) (Spec, string, error) {
	if spec.ID == "" {
		id, err := newID()
		if err != nil {
			return spec, "", err
		}
		spec.ID = ID(id)
	}
	if u, err := uuid.Parse(string(spec.ID)); err != nil || u.Version() != 7 || u.String() != string(spec.ID) {
		return spec, "", fmt.Errorf("id %.60q is not a UUID of version 7 in lower case: leave it empty to get one", spec.ID)
	}
	if !slices.Contains(approvals.Rungs(), spec.Rung) {
		return spec, "", fmt.Errorf("rung %d is unknown: use manual, write, assisted, auto or bypass", uint8(spec.Rung))
	}
	spec.Roots = slices.Clone(spec.Roots)
	for _, root := range spec.Roots {
		if err := directory("workspace root", root); err != nil {
			return spec, "", err
		}
	}
	if err := directory("cwd", spec.Cwd); err != nil {
		return spec, "", err
	}
	workspace, err := filepath.EvalSymlinks(spec.Cwd)
	if err != nil {
		return spec, "", fmt.Errorf("cwd %q cannot be resolved: %w", spec.Cwd, err)
	}
	return spec, workspace, nil
}

func directory(what, path string) error {
	switch {
	case path == "":
		return fmt.Errorf("%s is empty: give the absolute path of an existing directory", what)
	case !filepath.IsAbs(path):
		return fmt.Errorf("%s %q is relative: give the absolute path of an existing directory", what, path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s %q does not exist: create it or give another directory: %w", what, path, err)
	case err != nil:
		return fmt.Errorf("%s %q cannot be read: check its permissions: %w", what, path, err)
	case !info.IsDir():
		return fmt.Errorf("%s %q is no directory: give a directory", what, path)
	}
	return nil
}

func newID() (string, error) {
	u, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("no id: the system gives no random bytes: %w", err)
	}
	return u.String(), nil
}

// Get returns a live session or ErrNotFound.
func (m *Manager) Get(id ID) (*Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.slots[id]; p != nil && p.session != nil && !p.session.isClosing() {
		return p.session, nil
	}
	return nil, fmt.Errorf("session %.60q: %w", id, ErrNotFound)
}

// Close ends every session and returns when their goroutines have ended, or
// with an error that counts those that had not when ctx ended. It leaves
// the store open.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	slots := slices.Collect(maps.Values(m.slots))
	sessions := make([]*Session, len(slots))
	for i, p := range slots {
		sessions[i] = p.session
	}
	m.mu.Unlock()
	m.cancel(ErrClosed)
	for _, s := range sessions {
		if s != nil {
			s.beginClose(ctx)
		}
	}
	var errs []error
	left := 0
	for i, p := range slots {
		if !wait(ctx, p.gone) {
			left++
		} else if sessions[i] != nil {
			errs = append(errs, sessions[i].closeErr)
		}
	}
	if left > 0 {
		errs = append(errs, fmt.Errorf("close sessions: %d of %d had not ended: %w", left, len(slots), context.Cause(ctx)))
	}
	return errors.Join(errs...)
}

// wait reports whether done was closed before ctx ended.
func wait(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
