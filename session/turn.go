package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/gth-server/gth-server/approvals"
)

// Turn is what a runner sees of its session while Run lasts. Its methods
// are safe for concurrent use.
type Turn struct {
	s      *Session
	id     string // empty outside turns, see Resumer
	prompt Prompt
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when its goroutine has nothing left to do
	failed error         // first failure of the store; guarded by s.mu
}

// ID returns the turn's id; empty when calls run outside turns.
func (t *Turn) ID() string { return t.id }

// Session returns what the session was made from, with the rung of now.
func (t *Turn) Session() Spec {
	spec := t.s.Spec()
	spec.Rung = t.s.Rung()
	return spec
}

// Prompt returns what started the turn.
func (t *Turn) Prompt() Prompt { return t.prompt }

// Records returns the session's whole log up to now, this turn included.
// The caller must not change it.
func (t *Turn) Records() []Record { return t.s.hub.records() }

// Append stores events in order and then shows them to subscribers. An
// error means that nothing was stored: start no further call. A ctx that
// has ended stores nothing; the store's failure cancels the turn. Asks,
// answers, grants, rungs and the ends of turns are the session's to store.
func (t *Turn) Append(ctx context.Context, ev ...Event) error { return t.store(ctx, false, ev) }

// AppendSync is Append that returns after the records reached the disk.
func (t *Turn) AppendSync(ctx context.Context, ev ...Event) error { return t.store(ctx, true, ev) }

func (t *Turn) store(ctx context.Context, sync bool, evs []Event) error {
	for _, ev := range evs {
		switch ev.(type) {
		case TurnStarted, TurnEnded, RungChanged, Asked, Answered, Granted:
			return fmt.Errorf("turn %s: event %T is the session's own: use the method of Turn or Session for it", t.id, ev)
		}
	}
	return t.write(ctx, sync, func(context.Context) ([]Event, error) { return evs, nil })
}

// write appends to the log as part of this turn.
func (t *Turn) write(ctx context.Context, sync bool, build func(context.Context) ([]Event, error)) error {
	return t.writeThen(ctx, sync, build, nil)
}

func (t *Turn) writeThen(ctx context.Context, sync bool, build func(context.Context) ([]Event, error), then func(context.Context) error) error {
	err := t.s.writeThen(ctx, sync, func(ctx context.Context) (string, []Event, error) {
		if t.s.current() != t || t.s.openTurn() != t.id {
			return "", nil, fmt.Errorf("turn %s has ended: %w", t.id, ErrClosed)
		}
		evs, err := build(ctx)
		return t.id, evs, err
	}, then)
	t.note(err)
	return err
}

// note ends the turn when err is a failure of the store.
func (t *Turn) note(err error) {
	if !isStoreFailure(err) {
		return
	}
	t.s.mu.Lock()
	if t.failed == nil {
		t.failed = err
	}
	t.s.mu.Unlock()
	t.cancel(err)
}

// Show sends a live event to subscribers; it is not stored and may be lost.
// It never blocks on a subscriber. Other events are logged and left out.
func (t *Turn) Show(ev Event) {
	if !Live(ev) {
		t.s.log().Error("an event that is not live was passed to Show", slog.String("type", fmt.Sprintf("%T", ev)))
		return
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.s.turn == t {
		t.s.hub.show(Record{At: t.s.m.now(), Turn: t.id, Event: ev}, false)
	}
}

// Rung returns the rung in force now.
func (t *Turn) Rung() approvals.Rung { return t.s.Rung() }

// Grants returns the remembered answers in force now. When the store cannot
// be read, those of the workspace are left out.
func (t *Turn) Grants() *approvals.Grants { return t.s.grants(t.ctx) }

// Claim takes the right to run an approved ask's call, once. ErrConflict
// when it was claimed before, was not approved, or digest is not that of
// the call that was asked.
func (t *Turn) Claim(ctx context.Context, askID, digest string) error {
	if t.s.current() != t {
		return fmt.Errorf("turn %s has ended: %w", t.id, ErrClosed)
	}
	err := t.s.m.o.Store.ClaimAsk(ctx, t.s.lease, askID, digest)
	if err == nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) || ctx.Err() != nil {
		return err
	}
	err = t.s.storeFailed(err)
	t.note(err)
	return err
}

// grantCache holds the grants as they were last compiled, and from what.
type grantCache struct {
	session, workspace, refusals []approvals.Grant
	compiled                     *approvals.Grants
}

// grants reads the workspace's grants each time, since other sessions and
// processes change them, and compiles only what changed.
func (s *Session) grants(ctx context.Context) *approvals.Grants {
	ctx, cancel := detached(ctx)
	defer cancel()
	workspace, err := s.m.o.Store.Grants(ctx, s.workspace)
	if err != nil {
		s.log().Warn("the workspace's grants cannot be read and do not count", slog.Any("error", err))
		workspace = nil
	}
	now := s.m.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	next := grantCache{
		session: inForce(s.state.grants, now), workspace: inForce(workspace, now), refusals: inForce(s.state.refusals, now),
		compiled: s.cache.compiled,
	}
	if next.compiled == nil || !reflect.DeepEqual(next, s.cache) {
		next.compiled = approvals.NewGrants(next.session, next.workspace, next.refusals)
		s.cache = next
	}
	return next.compiled
}
