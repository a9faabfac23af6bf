package session

import (
	"context"

	"github.com/gth-server/gth-server/approvals"
)

// Turn is what a runner sees of its session while Run lasts. Its methods
// are safe for concurrent use.
type Turn struct{}

// ID returns the turn's id.
func (t *Turn) ID() string { return "" }

// Session returns what the session was made from, with the rung of now.
func (t *Turn) Session() Spec { return Spec{} }

// Prompt returns what started the turn.
func (t *Turn) Prompt() Prompt { return Prompt{} }

// Records returns the session's whole log up to now, this turn included.
// The caller must not change it.
func (t *Turn) Records() []Record { return nil }

// Append stores events in order and then shows them to subscribers. An
// error means that nothing was stored: start no further call.
func (t *Turn) Append(ctx context.Context, ev ...Event) error { return ErrClosed }

// AppendSync is Append that returns after the records reached the disk.
func (t *Turn) AppendSync(ctx context.Context, ev ...Event) error { return ErrClosed }

// Show sends a live event to subscribers; it is not stored and may be lost.
func (t *Turn) Show(ev Event) {}

// Rung returns the rung in force now.
func (t *Turn) Rung() approvals.Rung { return approvals.Manual }

// Grants returns the remembered answers in force now.
func (t *Turn) Grants() *approvals.Grants { return nil }

// Ask stores the requests (giving each its id, session and times), shows
// them, and carries them as the prompt's OnAsk says. AskWait returns the
// answers in the order of reqs once all are there; grants and refusals that
// they bring are stored by then. AskDeny returns refusals at once. AskFail
// and AskQueue return ErrPersonNeeded. A cancelled ctx settles the open
// ones as Unanswered and returns the context's cause.
func (t *Turn) Ask(ctx context.Context, reqs []approvals.Request) ([]Settled, error) {
	return nil, ErrClosed
}

// Claim takes the right to run an approved ask's call, once. ErrConflict
// when it was claimed before.
func (t *Turn) Claim(ctx context.Context, askID, digest string) error { return ErrClosed }
