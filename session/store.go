package session

import (
	"context"
	"errors"
	"time"

	"github.com/gth-server/gth-server/approvals"
)

// Errors that a Store returns, wrapped.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("conflict")           // another writer was first
	ErrLost     = errors.New("session lease lost") // this process no longer owns the session
	ErrClosed   = errors.New("closed")
	ErrBusy     = errors.New("a turn is running")
)

// Meta is what the index knows of a session.
type Meta struct {
	ID        ID             `json:"id"`
	Cwd       string         `json:"cwd"`             // as given to create
	Roots     []string       `json:"roots,omitempty"` // further workspace roots, as given to create
	Title     string         `json:"title,omitempty"`
	Surface   string         `json:"surface"` // acp, agui, run, demo, exec
	Rung      approvals.Rung `json:"rung"`
	CreatedAt time.Time      `json:"createdAt"`
	UpdatedAt time.Time      `json:"updatedAt"`
}

// Lease is the right to append to one session. Epoch grows with each holder.
type Lease struct {
	Session ID
	Epoch   uint64
}

// Batch is a group of records that is stored whole or not at all. Records
// are numbered by the store; Expect is the number of the last record that
// the writer knows of, Key makes a repeat of the same batch a no-op.
type Batch struct {
	Lease  Lease
	Expect Seq
	Key    string
	Turn   string
	Events []Event
	Sync   bool // reaches the disk before Append returns
	At     time.Time
}

// AskState is where an ask stands.
type AskState string

// The states of an ask. Answered asks that were approved go on to Claimed.
const (
	AskOpen     AskState = "open"
	AskAnswered AskState = "answered"
	AskClaimed  AskState = "claimed" // the approved call was started, once
	AskExpired  AskState = "expired"
)

// StoredAsk is an ask with what became of it.
type StoredAsk struct {
	Request  approvals.Request   `json:"request"`
	State    AskState            `json:"state"`
	Answer   *approvals.Answer   `json:"answer,omitempty"`
	Decision *approvals.Decision `json:"decision,omitempty"`
}

// Store keeps sessions. Every method is safe for concurrent use, honours
// its context, and returns one of this package's errors wrapped where one
// fits. What a caller passes in or gets out is a copy: neither side sees
// the other's later changes. Implementations pass sessiontest.RunStore.
type Store interface {
	Sessions
	Logs
	Asks
	WorkspaceGrants
	// Close releases the store; later calls return ErrClosed, and closing
	// again does nothing.
	Close() error
}

// Sessions is the index.
type Sessions interface {
	// Create adds a session and returns the first lease. ErrConflict when
	// the id is taken; an empty id is an error.
	Create(ctx context.Context, m Meta) (Lease, error)
	// Acquire takes the lease of an existing session; ErrConflict names the
	// holder when another one is alive, ErrNotFound when there is none. The
	// epoch is larger than that of every earlier lease of the session.
	Acquire(ctx context.Context, id ID) (Lease, error)
	// Release gives a lease back, after which nothing can be written under
	// it. Releasing a lost lease is no error and changes nothing.
	Release(ctx context.Context, l Lease) error
	// Meta returns a session's index entry, or ErrNotFound.
	Meta(ctx context.Context, id ID) (Meta, error)
	// Update changes title, rung and time of update, and nothing else;
	// ErrLost when l is not current.
	Update(ctx context.Context, l Lease, m Meta) error
	// List returns sessions, newest created first, and the cursor of the
	// next page, empty at the end. Pages neither repeat nor skip a session
	// that was there all the time. A cursor that it did not hand out is
	// ErrNotFound.
	List(ctx context.Context, f Filter) ([]Meta, string, error)
	// Delete removes a session with its log and asks, and with that its
	// lease; workspace grants stay. Unknown ids are no error.
	Delete(ctx context.Context, id ID) error
}

// Filter selects sessions. The zero value selects all, 50 a page.
type Filter struct {
	Cwd    string // exactly as given to Create
	Cursor string
	Limit  int
}

// Logs is the ordered log per session.
type Logs interface {
	// Append stores a batch and returns the records with their numbers.
	// ErrLost when the lease is not current; then, a batch whose Key was
	// stored before returns the records of that time; then, ErrConflict
	// when Expect is not the last number. Live events are ErrLive. After
	// an error nothing of the batch is stored. A batch without events stores
	// nothing and tells whether the lease is current.
	Append(ctx context.Context, b Batch) ([]Record, error)
	// After returns up to limit records with a number above seq, in order;
	// limit 0 means all. ErrNotFound when there is no such session.
	After(ctx context.Context, id ID, seq Seq, limit int) ([]Record, error)
}

// Asks are the questions of all sessions. Answering needs no lease.
type Asks interface {
	// PutAsk stores an open ask; ErrConflict when the id is taken, ErrLost
	// when l is not current. It is an error when r has no id or is not of
	// l's session.
	PutAsk(ctx context.Context, l Lease, r approvals.Request) error
	// GetAsk returns an ask, or ErrNotFound.
	GetAsk(ctx context.Context, id string) (StoredAsk, error)
	// AnswerAsk moves an open ask to answered, atomically. When it is not
	// open any more it returns what is stored and ErrConflict. An answer
	// from the time of expiry on moves it to expired instead, which is a
	// conflict too. ErrNotFound when there is no such ask.
	AnswerAsk(ctx context.Context, id string, a approvals.Answer, d approvals.Decision) (StoredAsk, error)
	// ClaimAsk moves an answered, approved ask to claimed, once; ErrConflict
	// on every later call and when it was not approved. digest must be that
	// of the request, else it is ErrConflict too, unless the answer brought
	// arguments of its own. ErrLost when l is not current, ErrNotFound when
	// l's session has no such ask.
	ClaimAsk(ctx context.Context, l Lease, id, digest string) error
	// OpenAsks returns the open asks of a session, oldest first; of all
	// sessions when id is empty.
	OpenAsks(ctx context.Context, id ID) ([]StoredAsk, error)
	// WatchAsk returns a channel that is closed when the ask leaves open,
	// also by deletion, and at once when it is not open. The watch ends
	// with ctx. ErrNotFound when there is no such ask.
	WatchAsk(ctx context.Context, id string) (<-chan struct{}, error)
}

// WorkspaceGrants are the grants that outlive a session, keyed by the real
// path of the session's cwd.
type WorkspaceGrants interface {
	// PutGrant adds a grant, or replaces the one of the same id. One that
	// was deleted does not come back: putting it is no error and changes
	// nothing. A grant without an id and an empty workspace are errors.
	PutGrant(ctx context.Context, workspace string, g approvals.Grant) error
	// Grants returns the grants of a workspace in the order in which they
	// were first put, none for an unknown one.
	Grants(ctx context.Context, workspace string) ([]approvals.Grant, error)
	// DeleteGrant removes a grant for ever; ErrNotFound when it is not there.
	DeleteGrant(ctx context.Context, workspace, id string) error
}
