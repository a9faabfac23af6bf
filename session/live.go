package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/gth-server/gth-server/approvals"
)

// The times that a session gives others.
const (
	storeTimeout = 10 * time.Second // one call of the store
	closeTimeout = 10 * time.Second // the runner's Close
)

// Session is one live session. Its methods are safe for concurrent use.
//
// Locks, in the order in which they may be taken:
//   - writing, a token: its holder alone appends to the log and changes
//     state, doubt and over. It is held over calls of the store, which have
//     a time limit.
//   - mu guards turn, closing, unended and cache, and state for everybody
//     who does not hold the token. Never held over I/O.
//   - the hub's lock.
type Session struct {
	m         *Manager
	spec      Spec
	workspace string // real path of spec.Cwd
	lease     Lease
	runner    Runner
	hub       *hub

	writing chan struct{}
	doubt   bool // the store may hold records that the hub does not know
	over    bool // nothing is appended any more

	mu      sync.Mutex
	state   state
	turn    *Turn
	unended *TurnEnded // end of a turn that the store refused
	closing bool
	cache   grantCache

	onEnd    func()
	done     chan struct{} // closed when the session has ended
	closeErr error         // set before done is closed
}

func newSession(m *Manager, spec Spec, workspace string, l Lease, r Runner, onEnd func()) *Session {
	return &Session{
		m: m, spec: spec, workspace: workspace, lease: l, runner: r, hub: newHub(),
		writing: make(chan struct{}, 1), state: newState(spec.Rung), onEnd: onEnd, done: make(chan struct{}),
	}
}

// ID returns the session's id.
func (s *Session) ID() ID { return s.spec.ID }

// Spec returns what the session was made from.
func (s *Session) Spec() Spec {
	spec := s.spec
	spec.Roots = slices.Clone(spec.Roots)
	return spec
}

// Rung returns the rung in force.
func (s *Session) Rung() approvals.Rung {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.rung
}

// SetRung moves the session to another rung; a stricter one drops the
// session grants that were born at a looser one.
func (s *Session) SetRung(ctx context.Context, r approvals.Rung, by string) error {
	if !slices.Contains(approvals.Rungs(), r) {
		return fmt.Errorf("session %s: rung %d is unknown: use manual, write, assisted, auto or bypass", s.spec.ID, uint8(r))
	}
	if s.isClosing() {
		return s.errClosed()
	}
	return s.write(ctx, true, func(context.Context) (string, []Event, error) {
		if s.state.rung == r {
			return "", nil, nil
		}
		return s.openTurn(), []Event{RungChanged{From: s.state.rung, To: r, By: by}}, nil
	})
}

// Start begins a turn and returns its id; TurnStarted is stored by then.
// ErrBusy when a turn runs. The turn's end is the TurnEnded record. Of ctx
// the turn keeps the values, such as a trace, and not the cancellation.
func (s *Session) Start(ctx context.Context, p Prompt) (turn string, err error) {
	id, err := newID()
	if err != nil {
		return "", err
	}
	p.Blocks = slices.Clone(p.Blocks)
	t := &Turn{s: s, id: id, prompt: p, done: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := s.occupy(t); err != nil {
		t.cancel(err)
		return "", err
	}
	unhook := context.AfterFunc(s.m.ctx, func() { t.cancel(context.Cause(s.m.ctx)) })
	err = s.write(ctx, true, func(context.Context) (string, []Event, error) {
		return id, []Event{TurnStarted{ID: id, Prompt: p.Blocks, By: p.By}}, nil
	})
	if err != nil {
		unhook()
		t.cancel(err)
		s.vacate(t)
		close(t.done)
		return "", err
	}
	go s.play(t, unhook)
	return id, nil
}

func (s *Session) occupy(t *Turn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return s.errClosed()
	case s.turn != nil:
		return fmt.Errorf("session %s: %w: wait for its end or cancel it", s.spec.ID, ErrBusy)
	}
	s.turn = t
	return nil
}

func (s *Session) vacate(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == t {
		s.turn = nil
	}
}

// Cancel cancels the running turn, if there is one, and returns at once.
// Wait tells when it has ended.
func (s *Session) Cancel(cause error) {
	if t := s.current(); t != nil {
		t.cancel(cause)
	}
}

// Wait returns when no turn is running.
func (s *Session) Wait(ctx context.Context) error {
	for {
		t := s.current()
		if t == nil {
			return nil
		}
		if !wait(ctx, t.done) {
			return fmt.Errorf("wait for the turn of session %s: %w", s.spec.ID, context.Cause(ctx))
		}
	}
}

func (s *Session) current() *Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn
}

// Subscribe returns a subscription that starts behind after; 0 replays the
// whole log first.
func (s *Session) Subscribe(after Seq) *Subscription { return s.hub.subscribe(after) }

// Close cancels the turn, closes the runner and returns when both are done.
// When ctx ends first they go on ending, and Close may be called again.
func (s *Session) Close(ctx context.Context) error {
	s.beginClose(ctx)
	if !wait(ctx, s.done) {
		return fmt.Errorf("close session %s: it has not ended yet: %w", s.spec.ID, context.Cause(ctx))
	}
	return s.closeErr
}

func (s *Session) beginClose(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	s.closing = true
	t := s.turn
	go s.shutdown(context.WithoutCancel(ctx), t)
}

func (s *Session) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

func (s *Session) errClosed() error { return fmt.Errorf("session %s: %w", s.spec.ID, ErrClosed) }

// shutdown ends the session. No turn starts once closing is set.
func (s *Session) shutdown(ctx context.Context, t *Turn) {
	defer s.onEnd()
	defer close(s.done)
	if t != nil {
		t.cancel(s.errClosed())
		<-t.done
	}
	runnerErr := s.closeRunner(ctx)
	s.writing <- struct{}{}
	s.over = true
	<-s.writing
	s.hub.end()
	ctx, cancel := detached(ctx)
	defer cancel()
	s.closeErr = errors.Join(runnerErr, s.m.o.Store.Release(ctx, s.lease))
}

func (s *Session) closeRunner(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.logPanic(p)
			err = panicked("the runner's Close", p)
		}
	}()
	if err := s.runner.Close(ctx); err != nil {
		return fmt.Errorf("close the runner of session %s: %w", s.spec.ID, err)
	}
	return nil
}

func (s *Session) log() *slog.Logger {
	return s.m.o.Logger.With(slog.String("session", string(s.spec.ID)))
}

func (s *Session) logPanic(p any) {
	s.log().Error("the runner panicked", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
}

func panicked(what string, p any) error {
	return &TurnError{Kind: KindInternal, Err: fmt.Errorf("%s panicked: %v", what, p), Hint: "this is a fault of the server: please report it with its log"}
}
