package session

import (
	"context"

	"github.com/gth-server/gth-server/approvals"
)

// Runner runs the turns of one session. It starts no goroutine that
// outlives Run, apart from those that Close waits for.
type Runner interface {
	// Run plays one turn to its end: model steps, gate, tools. It blocks. On
	// a cancelled ctx it returns soon with StopCancelled and a nil error,
	// after giving every announced call a terminal record. A non-nil error
	// is a failed turn; a *TurnError says of which kind.
	Run(ctx context.Context, t *Turn) (StopReason, error)
	// Close releases what the runner holds and waits for it.
	Close(ctx context.Context) error
}

// Resumer is a Runner that can run calls whose turn has ended: their asks
// were answered afterwards. Without it they end as cancelled.
type Resumer interface {
	// Resume runs the calls of approved asks, in order, outside any turn. Of
	// each it reads the call from the log, checks that it is what was asked
	// and that the gate of now has nothing against it, claims the ask,
	// stores CallExecuting, runs it and stores CallEnded. It blocks and is
	// never called during Run. On a cancelled ctx it returns soon; calls
	// that it has not ended then are ended by the session, or are run when
	// the session is opened again, see Turn.Kept.
	Resume(ctx context.Context, t *Turn, approved []Settled) error
}

// NewRunner makes the runner of a session that was just created or opened.
type NewRunner func(ctx context.Context, s Spec) (Runner, error)

// Spec is what a session is made from.
type Spec struct {
	ID      ID
	Cwd     string   // absolute, an existing directory
	Roots   []string // further workspace roots, absolute
	Surface string
	Rung    approvals.Rung
}

// TurnError is a failed turn. Kind is one of the words below; Hint says
// what to do.
type TurnError struct {
	Kind ErrorKind
	Err  error
	Hint string
}

// ErrorKind says what made a turn fail.
type ErrorKind string

// The kinds of failure.
const (
	KindModel    ErrorKind = "model"    // the provider failed
	KindAuth     ErrorKind = "auth"     // key missing or refused
	KindLimit    ErrorKind = "limit"    // steps, tokens or time
	KindStore    ErrorKind = "store"    // the store refused a write
	KindInternal ErrorKind = "internal" // a fault of ours
	KindOwner    ErrorKind = "owner"    // the process that ran the turn is gone
)

func (e *TurnError) Error() string {
	if e.Hint == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + ": " + e.Hint
}

// Unwrap returns the cause.
func (e *TurnError) Unwrap() error { return e.Err }

// OnAsk says what a turn does when a call needs a person.
type OnAsk uint8

// The ways to carry an ask. The zero value fails, so that a surface which
// forgot to choose never waits for nobody.
const (
	AskFail  OnAsk = iota // the turn ends; nothing of the step runs
	AskWait               // the turn waits for the answer
	AskDeny               // the ask counts as refused and the turn goes on
	AskQueue              // the ask is stored open and the turn ends
)

// Prompt starts a turn.
type Prompt struct {
	Blocks []Block
	By     string
	OnAsk  OnAsk
	// Typed tells that the client can carry a typed confirmation.
	Typed bool
}

// Settled is an ask with its answer.
type Settled struct {
	Request  approvals.Request
	Answer   approvals.Answer
	Decision approvals.Decision
}
