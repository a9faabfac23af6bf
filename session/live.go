package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
//   - mu guards turn, closing, unended, stuck and cache, and state for everybody
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
	stuck   map[string]bool // calls that could be neither run nor ended
	cache   grantCache

	life    context.Context // ends when the session closes
	stop    context.CancelCauseFunc
	minders sync.WaitGroup // added to under mu while not closing

	onEnd    func()
	done     chan struct{} // closed when the session has ended
	closeErr error         // set before onEnd is called
}

func newSession(m *Manager, spec Spec, workspace string, l Lease, r Runner, onEnd func()) *Session {
	s := &Session{
		m: m, spec: spec, workspace: workspace, lease: l, runner: r, hub: newHub(), stuck: map[string]bool{},
		writing: make(chan struct{}, 1), state: newState(spec.Rung), onEnd: onEnd, done: make(chan struct{}),
	}
	s.life, s.stop = context.WithCancelCause(m.ctx)
	return s
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

// Title returns the session's name: the first line of its first prompt,
// unless it was given another. Empty before there is one.
func (s *Session) Title() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.title
}

// Records returns the session's whole log up to now. The caller must not
// change it.
func (s *Session) Records() []Record { return s.hub.records() }

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
// ErrBusy when a turn runs. Asks that an earlier turn left open end as
// Unanswered, their calls as cancelled; calls that were approved are run to
// their end first, for which Start waits. The turn's end is the TurnEnded
// record. Of ctx the turn keeps the values, such as a trace, and not the
// cancellation.
func (s *Session) Start(ctx context.Context, p Prompt) (turn string, err error) {
	return s.begin(ctx, p, false)
}

// Continue begins a turn that nobody prompted: the model goes on with the
// results of calls whose asks were answered after their turn. Blocks of p
// are left out. Calls that were approved are run to their end first, for
// which Continue waits. ErrPersonNeeded while asks are open.
func (s *Session) Continue(ctx context.Context, p Prompt) (turn string, err error) {
	p.Blocks = nil
	return s.begin(ctx, p, true)
}

func (s *Session) begin(ctx context.Context, p Prompt, continues bool) (turn string, err error) {
	id, err := newID()
	if err != nil {
		return "", err
	}
	p.Blocks = slices.Clone(p.Blocks)
	t := s.newTurn(ctx, id, p)
	if err := s.enter(ctx, t, continues); err != nil {
		t.cancel(err)
		return "", err
	}
	unhook := s.tie(t)
	err = s.write(ctx, true, func(context.Context) (string, []Event, error) {
		return id, append(s.strays("", false), TurnStarted{ID: id, Prompt: p.Blocks, By: p.By, Continues: continues}), nil
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

func (s *Session) newTurn(ctx context.Context, id string, p Prompt) *Turn {
	t := &Turn{s: s, id: id, prompt: p, done: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return t
}

// tie ends t with its manager.
func (s *Session) tie(t *Turn) (untie func() bool) {
	return context.AfterFunc(s.m.ctx, func() {
		t.cancel(fmt.Errorf("%w: %w", ErrOwnerLost, context.Cause(s.m.ctx)))
	})
}

// enter makes t the session's turn. What earlier turns left is settled
// before: nothing of it may come between t's records.
func (s *Session) enter(ctx context.Context, t *Turn, continues bool) error {
	for {
		busy, asks, err := s.occupy(t)
		switch {
		case err != nil:
			return err
		case busy != nil:
			if !wait(ctx, busy.done) {
				return fmt.Errorf("session %s: an approved call is running: %w", s.spec.ID, context.Cause(ctx))
			}
		case len(asks) == 0:
			return nil
		case continues:
			if err := s.recordAll(ctx, asks); err != nil {
				return err
			}
			if s.waiting() {
				return fmt.Errorf("session %s: %w: %d of its asks may be open: answer them first", s.spec.ID, ErrPersonNeeded, len(asks))
			}
		default:
			for _, id := range asks {
				if err := s.unanswered(ctx, id, t.prompt.By); err != nil {
					return err
				}
			}
		}
	}
}

// occupy gives the session to t, or returns the calls that run outside
// turns, or the open asks that stand in the way.
func (s *Session) occupy(t *Turn) (busy *Turn, asks []string, err error) {
	s.tend()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return nil, nil, s.errClosed()
	case s.turn != nil && s.turn.id != "":
		return nil, nil, fmt.Errorf("session %s: %w: wait for its end or cancel it", s.spec.ID, ErrBusy)
	case s.turn != nil:
		return s.turn, nil, nil
	case len(s.state.asks) > 0:
		return nil, slices.Sorted(maps.Keys(s.state.asks)), nil
	}
	s.turn = t
	return nil, nil, nil
}

func (s *Session) vacate(t *Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == t {
		s.turn = nil
	}
}

// Cancel cancels the running turn, if there is one, or the calls that run
// outside turns, and returns at once. Wait tells when it has ended. Its asks
// end as not answered, unless cause is ErrOwnerLost.
func (s *Session) Cancel(cause error) {
	if t := s.current(); t != nil {
		t.cancel(cause)
	}
}

// Wait returns when no turn is running, nor a call outside of turns.
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
// whole log first. Asks that earlier turns left open are shown again behind
// the log, as live records.
func (s *Session) Subscribe(after Seq) *Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	var again []Record
	for _, ask := range s.state.asks {
		if s.turn == nil || s.turn.id != ask.turn {
			again = append(again, Record{At: ask.req.Created, Turn: ask.turn, Event: Asked{Request: ask.req}})
		}
	}
	slices.SortFunc(again, func(a, b Record) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Event.(Asked).Request.ID, b.Event.(Asked).Request.ID))
	})
	return s.hub.subscribe(after, again)
}

// OpenAsks returns the asks of this session that wait for an answer, oldest
// first.
func (s *Session) OpenAsks(ctx context.Context) ([]StoredAsk, error) {
	open, err := s.m.o.Store.OpenAsks(ctx, s.spec.ID)
	if err != nil {
		return nil, fmt.Errorf("open asks of session %s: %w", s.spec.ID, err)
	}
	return open, nil
}

// Close cancels the turn, closes the runner and returns when both are done.
// Asks stay open: they are asked again when the session is opened. To end
// them, Cancel and Wait first. When ctx ends first both go on ending, and
// Close may be called again.
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
	defer close(s.done) // by then the session can be opened again
	defer s.onEnd()
	if t != nil {
		t.cancel(s.errClosed())
		<-t.done
	}
	s.stop(s.errClosed())
	s.minders.Wait()
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
