package session

import (
	"context"
	"errors"
	"log/slog"
	"time"

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

// Manager owns the sessions of a process and every goroutine in them.
// Its methods are safe for concurrent use.
type Manager struct{}

// NewManager returns a manager. ctx is the parent of every session.
func NewManager(ctx context.Context, o Options) *Manager { return &Manager{} }

// Create makes a session and its runner. The error says what is wrong with
// spec.Cwd when it is relative, missing or no directory.
func (m *Manager) Create(ctx context.Context, s Spec) (*Session, error) { return nil, ErrClosed }

// Get returns a live session or ErrNotFound.
func (m *Manager) Get(id ID) (*Session, error) { return nil, ErrNotFound }

// Close ends every session and returns when their goroutines have ended, or
// with an error that counts those that had not when ctx ended.
func (m *Manager) Close(ctx context.Context) error { return nil }

// Session is one live session. Its methods are safe for concurrent use.
type Session struct{}

// ID returns the session's id.
func (s *Session) ID() ID { return "" }

// Spec returns what the session was made from.
func (s *Session) Spec() Spec { return Spec{} }

// Rung returns the rung in force.
func (s *Session) Rung() approvals.Rung { return approvals.Manual }

// SetRung moves the session to another rung; a stricter one drops the
// session grants that were born at a looser one.
func (s *Session) SetRung(ctx context.Context, r approvals.Rung, by string) error { return ErrClosed }

// Start begins a turn and returns its id; TurnStarted is stored by then.
// ErrBusy when a turn runs. The turn's end is the TurnEnded record.
func (s *Session) Start(ctx context.Context, p Prompt) (turn string, err error) {
	return "", ErrClosed
}

// Cancel cancels the running turn, if there is one, and returns at once.
// Wait tells when it has ended.
func (s *Session) Cancel(cause error) {}

// Wait returns when no turn is running.
func (s *Session) Wait(ctx context.Context) error { return nil }

// Answer settles an ask of this session. The first valid answer wins; a
// later one gets the stored result together with ErrConflict.
func (s *Session) Answer(ctx context.Context, askID string, a approvals.Answer) (StoredAsk, error) {
	return StoredAsk{}, ErrClosed
}

// Subscribe returns a subscription that starts behind after; 0 replays the
// whole log first.
func (s *Session) Subscribe(after Seq) *Subscription { return nil }

// Close cancels the turn, closes the runner and returns when both are done.
func (s *Session) Close(ctx context.Context) error { return nil }

// Subscription reads a session's log as it grows. One goroutine reads it.
type Subscription struct{}

// Next returns the next stored record or live event (Seq 0), in order. It
// blocks; ErrClosed after the session closed and everything was read.
func (s *Subscription) Next(ctx context.Context) (Record, error) { return Record{}, ErrClosed }

// Close ends the subscription.
func (s *Subscription) Close() {}
