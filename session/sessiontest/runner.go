package sessiontest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// Step is one thing that a scripted turn does. An empty reason goes on with
// the next step.
type Step func(ctx context.Context, t *session.Turn) (session.StopReason, error)

// Script is one turn. A turn that comes to its end stops with end_turn.
type Script []Step

// Emit appends events.
func Emit(ev ...session.Event) Step {
	return func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		return "", t.Append(ctx, ev...)
	}
}

// Show shows live events.
func Show(ev ...session.Event) Step {
	return func(_ context.Context, t *session.Turn) (session.StopReason, error) {
		for _, e := range ev {
			t.Show(e)
		}
		return "", nil
	}
}

// Ask asks and hands what came back to then, which may be nil. It goes on
// when the asks were settled, and ends the turn with Ask's error otherwise.
func Ask(then func(ctx context.Context, t *session.Turn, s []session.Settled) error, reqs ...approvals.Request) Step {
	return func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		settled, err := t.Ask(ctx, reqs)
		if err == nil && then != nil {
			err = then(ctx, t, settled)
		}
		return "", err
	}
}

// Block waits until the turn is cancelled and stops with cancelled.
func Block() Step {
	return func(ctx context.Context, _ *session.Turn) (session.StopReason, error) {
		<-ctx.Done()
		return session.StopCancelled, nil
	}
}

// Fail ends the turn with a failure of this kind.
func Fail(kind session.ErrorKind, text string) Step {
	return func(context.Context, *session.Turn) (session.StopReason, error) {
		return "", &session.TurnError{Kind: kind, Err: errors.New(text)}
	}
}

// Panic panics with v.
func Panic(v any) Step {
	return func(context.Context, *session.Turn) (session.StopReason, error) { panic(v) }
}

// Stop ends the turn with reason.
func Stop(reason session.StopReason) Step {
	return func(context.Context, *session.Turn) (session.StopReason, error) { return reason, nil }
}

// Scripted is a session.Runner that plays one script per turn, and the last
// one again when there are no more.
type Scripted struct {
	scripts []Script

	mu     sync.Mutex // guards what follows
	turns  int
	closed int
}

// NewRunner returns a constructor whose runners play scripts.
func NewRunner(scripts ...Script) session.NewRunner {
	return func(context.Context, session.Spec) (session.Runner, error) { return New(scripts...), nil }
}

// New returns a runner that plays scripts.
func New(scripts ...Script) *Scripted { return &Scripted{scripts: scripts} }

// Run plays the next script.
func (r *Scripted) Run(ctx context.Context, t *session.Turn) (session.StopReason, error) {
	for _, step := range r.next() {
		if stop, err := step(ctx, t); stop != "" || err != nil {
			return stop, err
		}
	}
	return session.StopEndTurn, nil
}

func (r *Scripted) next() Script {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.scripts) == 0 {
		return nil
	}
	s := r.scripts[min(r.turns, len(r.scripts)-1)]
	r.turns++
	return s
}

// Close counts.
func (r *Scripted) Close(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
	return nil
}

// Closed returns how often Close was called.
func (r *Scripted) Closed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// closeWithin bounds the cleanup of Open.
const closeWithin = 10 * time.Second

// Manager returns a manager on a memory store whose runners play scripts.
// It is closed when the test ends.
func Manager(t testing.TB, scripts ...Script) *session.Manager {
	t.Helper()
	return ManagerWith(t, session.Options{Store: session.NewMemory(), NewRunner: NewRunner(scripts...)})
}

// ManagerWith returns a manager that is closed when the test ends.
func ManagerWith(t testing.TB, o session.Options) *session.Manager {
	t.Helper()
	m := session.NewManager(context.Background(), o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("close the manager: %v", err)
		}
	})
	return m
}

// Open returns a session in a temporary directory whose turns play scripts.
// It is closed when the test ends.
func Open(t testing.TB, scripts ...Script) *session.Session {
	t.Helper()
	s, err := Manager(t, scripts...).Create(context.Background(), session.Spec{Cwd: t.TempDir(), Surface: "test"})
	if err != nil {
		t.Fatalf("create a session: %v", err)
	}
	return s
}

// ReadTurn reads sub up to the end of the turn called id and returns all of
// it, the end included.
func ReadTurn(ctx context.Context, t testing.TB, sub *session.Subscription, id string) []session.Record {
	t.Helper()
	var recs []session.Record
	for {
		r, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("read turn %s after %d records: %v", id, len(recs), err)
		}
		recs = append(recs, r)
		if end, ok := r.Event.(session.TurnEnded); ok && end.ID == id {
			return recs
		}
	}
}
