package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// shareVersion is the version of what processes say to each other. Another
// one is refused at the handshake: the store itself may differ too.
const shareVersion = 1

// hello opens a connection, from the process that wants to share.
type hello struct {
	Share int   `json:"share"`
	Owner owner `json:"owner"`
}

// welcome answers it, from the process that has the store open.
type welcome struct {
	Share   int    `json:"share"`
	PID     int    `json:"pid"`
	Refused string `json:"refused,omitempty"`
}

// request is one call. Number 0 is a beat and has no other field.
type request struct {
	Number uint64 `json:"n"`
	Do     verb   `json:"do,omitempty"`
	Nonce  string `json:"nonce,omitempty"`

	Session   session.ID          `json:"session,omitempty"`
	Lease     *session.Lease      `json:"lease,omitempty"`
	Meta      *session.Meta       `json:"meta,omitempty"`
	Filter    *session.Filter     `json:"filter,omitempty"`
	Seq       session.Seq         `json:"seq,omitempty"`
	Key       string              `json:"key,omitempty"`
	Records   []json.RawMessage   `json:"records,omitempty"`
	Sync      bool                `json:"sync,omitempty"`
	Limit     int                 `json:"limit,omitempty"`
	ID        string              `json:"id,omitempty"` // of an ask or a grant
	Request   *approvals.Request  `json:"request,omitempty"`
	Answer    *approvals.Answer   `json:"answer,omitempty"`
	Decision  *approvals.Decision `json:"decision,omitempty"`
	Digest    string              `json:"digest,omitempty"`
	Workspace string              `json:"workspace,omitempty"`
	Grant     *approvals.Grant    `json:"grant,omitempty"`
}

// reply answers the request of the same number. Number 0 answers a beat, or
// with Left tells of an ask that is watched under this name.
type reply struct {
	Number uint64     `json:"n"`
	Left   string     `json:"left,omitempty"`
	Err    *wireError `json:"err,omitempty"`

	Lease   *session.Lease      `json:"lease,omitempty"`
	Meta    *session.Meta       `json:"meta,omitempty"`
	Metas   []session.Meta      `json:"metas,omitempty"`
	Cursor  string              `json:"cursor,omitempty"`
	First   session.Seq         `json:"first,omitempty"` // of a batch that was stored before
	Last    session.Seq         `json:"last,omitempty"`
	Records []json.RawMessage   `json:"records,omitempty"`
	More    bool                `json:"more,omitempty"`
	Ask     *session.StoredAsk  `json:"ask,omitempty"`
	Asks    []session.StoredAsk `json:"asks,omitempty"`
	Grants  []approvals.Grant   `json:"grants,omitempty"`
}

// verb names a call.
type verb string

const (
	doCreate      verb = "create"
	doAcquire     verb = "acquire"
	doRelease     verb = "release"
	doKeep        verb = "keep"
	doMeta        verb = "meta"
	doUpdate      verb = "update"
	doList        verb = "list"
	doDelete      verb = "delete"
	doAppend      verb = "append"
	doAfter       verb = "after"
	doPutAsk      verb = "putAsk"
	doGetAsk      verb = "getAsk"
	doAnswer      verb = "answer"
	doClaim       verb = "claim"
	doOpenAsks    verb = "openAsks"
	doWatch       verb = "watch"
	doUnwatch     verb = "unwatch"
	doPutGrant    verb = "putGrant"
	doGrants      verb = "grants"
	doDeleteGrant verb = "deleteGrant"
)

// backend is a store that a Shared works on: the one that this process has
// open, or another process's. The calls that take a nonce, and an append
// with a key, may be repeated when nobody knows whether they arrived.
type backend interface {
	create(ctx context.Context, m session.Meta, nonce string) (session.Lease, error)
	acquire(ctx context.Context, id session.ID, nonce string) (session.Lease, error)
	keep(ctx context.Context, l session.Lease) error
	Release(ctx context.Context, l session.Lease) error
	Meta(ctx context.Context, id session.ID) (session.Meta, error)
	Update(ctx context.Context, l session.Lease, m session.Meta) error
	List(ctx context.Context, f session.Filter) ([]session.Meta, string, error)
	Delete(ctx context.Context, id session.ID) error
	append(ctx context.Context, l session.Lease, expect session.Seq, key string, encoded [][]byte, sync bool) (*span, error)
	after(ctx context.Context, id session.ID, seq session.Seq, limit, bytes int) ([][]byte, bool, error)
	putAsk(ctx context.Context, l session.Lease, r approvals.Request, nonce string) error
	GetAsk(ctx context.Context, id string) (session.StoredAsk, error)
	answerAsk(ctx context.Context, id string, a approvals.Answer, d approvals.Decision, nonce string) (session.StoredAsk, error)
	claimAsk(ctx context.Context, l session.Lease, id, digest, nonce string) error
	OpenAsks(ctx context.Context, id session.ID) ([]session.StoredAsk, error)
	WatchAsk(ctx context.Context, id string) (<-chan struct{}, error)
	PutGrant(ctx context.Context, workspace string, g approvals.Grant) error
	Grants(ctx context.Context, workspace string) ([]approvals.Grant, error)
	DeleteGrant(ctx context.Context, workspace, id string) error
}

var (
	_ backend = (*seat)(nil)
	_ backend = (*remote)(nil)
)

// wireError is an error on its way to another process: its text, and which
// of the errors that callers tell apart it is.
type wireError struct {
	Text string `json:"text"`
	Kind string `json:"kind,omitempty"`
}

// errGone is a store whose process can not be reached any more.
var errGone = fmt.Errorf("%w: its process is gone", ErrUnavailable)

// errorKinds orders the errors so that the first match is the nearest one.
var errorKinds = []struct {
	kind string
	err  error
}{
	{"fenced", errFenced},
	{"notFound", session.ErrNotFound},
	{"conflict", session.ErrConflict},
	{"lost", session.ErrLost},
	{"closed", session.ErrClosed},
	{"busy", session.ErrBusy},
	{"newer", session.ErrNewer},
	{"live", session.ErrLive},
	{"damaged", ErrDamaged},
	{"unavailable", ErrUnavailable},
	{"canceled", context.Canceled},
	{"deadline", context.DeadlineExceeded},
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Text: err.Error()}
	for _, k := range errorKinds {
		if errors.Is(err, k.err) {
			w.Kind = k.kind
			break
		}
	}
	return w
}

// Error returns the text of the other process.
func (w *wireError) Error() string { return w.Text }

// Unwrap returns the error that it is one of.
func (w *wireError) Unwrap() error {
	for _, k := range errorKinds {
		if k.kind == w.Kind {
			return k.err
		}
	}
	return nil
}
