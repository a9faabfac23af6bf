package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/persistence/internal/frame"
	"github.com/gth-server/gth-server/session"
)

// remote is a store that another process has open. Every call fails with
// errGone once the connection is lost.
type remote struct {
	conn    *conn
	pid     int
	beat    time.Duration
	lost    chan struct{} // closed when the connection is of no use any more
	running sync.WaitGroup

	mu      sync.Mutex // guards what follows
	dead    bool
	last    uint64
	calls   map[uint64]chan reply
	watches map[string]chan struct{}
}

// connect greets the process behind nc.
func connect(nc net.Conn, own owner, o Options, within time.Duration) (*remote, error) {
	c := &conn{Conn: nc, silence: within}
	if err := checkServer(nc); err != nil {
		return nil, err
	}
	if err := c.send(hello{Share: shareVersion, Owner: own}); err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	var w welcome
	if err := frame.Decode(c, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	if w.Refused != "" {
		return nil, fmt.Errorf("process %d has the store open and refuses this one: %s", w.PID, w.Refused)
	}
	// From here on one goroutine reads, so the limit may change.
	c.silence = o.Beat * beatsToDeath
	r := &remote{
		conn: c, pid: w.PID, beat: o.Beat, lost: make(chan struct{}),
		calls: map[uint64]chan reply{}, watches: map[string]chan struct{}{},
	}
	r.running.Go(r.read)
	r.running.Go(r.live)
	return r, nil
}

// close ends the connection and returns when the goroutines have ended.
func (r *remote) close() {
	r.end()
	r.running.Wait()
}

func (r *remote) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return
	}
	r.dead = true
	r.conn.Close()
	close(r.lost)
}

// live shows that this process lives. The answers to it show that the other
// one does: without them read fails.
func (r *remote) live() {
	t := time.NewTicker(r.beat)
	defer t.Stop()
	for {
		select {
		case <-r.lost:
			return
		case <-t.C:
			if err := r.conn.send(request{}); err != nil {
				r.end()
				return
			}
		}
	}
}

func (r *remote) read() {
	defer r.end()
	for {
		var a reply
		if err := frame.Decode(r.conn, &a); err != nil {
			return
		}
		r.mu.Lock()
		if a.Left != "" {
			if ch := r.watches[a.Left]; ch != nil {
				close(ch)
			}
			delete(r.watches, a.Left)
		}
		ch := r.calls[a.Number]
		delete(r.calls, a.Number)
		r.mu.Unlock()
		if ch != nil {
			ch <- a // has room
		}
	}
}

// call sends q and waits for its answer. When ctx ends the answer is not
// waited for; what was asked for may happen all the same.
func (r *remote) call(ctx context.Context, q request) (reply, error) {
	if ctx.Err() != nil {
		return reply{}, fmt.Errorf("store: %w", context.Cause(ctx))
	}
	ch := make(chan reply, 1)
	r.mu.Lock()
	if r.dead {
		r.mu.Unlock()
		return reply{}, errGone
	}
	r.last++
	q.Number = r.last
	r.calls[q.Number] = ch
	r.mu.Unlock()
	forget := func() {
		r.mu.Lock()
		delete(r.calls, q.Number)
		r.mu.Unlock()
	}
	if err := r.conn.send(q); err != nil {
		forget()
		if errors.Is(err, frame.ErrTooLong) || isMarshal(err) {
			return reply{}, fmt.Errorf("store of process %d: %w", r.pid, err)
		}
		r.end()
		return reply{}, fmt.Errorf("%w: %w", errGone, err)
	}
	select {
	case a := <-ch:
		return a, a.err()
	case <-r.lost:
		select {
		case a := <-ch:
			return a, a.err()
		default:
			return reply{}, errGone
		}
	case <-ctx.Done():
		forget()
		return reply{}, fmt.Errorf("store: %w", context.Cause(ctx))
	}
}

func isMarshal(err error) bool {
	var m *json.MarshalerError
	var t *json.UnsupportedTypeError
	var v *json.UnsupportedValueError
	return errors.As(err, &m) || errors.As(err, &t) || errors.As(err, &v)
}

// err is the reply's error as an error, which a nil *wireError is not.
func (a reply) err() error {
	if a.Err == nil {
		return nil
	}
	return a.Err
}

func (r *remote) create(ctx context.Context, m session.Meta, nonce string) (session.Lease, error) {
	a, err := r.call(ctx, request{Do: doCreate, Meta: &m, Nonce: nonce})
	return value(a.Lease), err
}

func (r *remote) acquire(ctx context.Context, id session.ID, nonce string) (session.Lease, error) {
	a, err := r.call(ctx, request{Do: doAcquire, Session: id, Nonce: nonce})
	return value(a.Lease), err
}

func (r *remote) keep(ctx context.Context, l session.Lease) error {
	_, err := r.call(ctx, request{Do: doKeep, Lease: &l})
	return err
}

// Release gives a lease back.
func (r *remote) Release(ctx context.Context, l session.Lease) error {
	_, err := r.call(ctx, request{Do: doRelease, Lease: &l})
	return err
}

// Meta returns a session's index entry.
func (r *remote) Meta(ctx context.Context, id session.ID) (session.Meta, error) {
	a, err := r.call(ctx, request{Do: doMeta, Session: id})
	return value(a.Meta), err
}

// Update changes the index entry.
func (r *remote) Update(ctx context.Context, l session.Lease, m session.Meta) error {
	_, err := r.call(ctx, request{Do: doUpdate, Lease: &l, Meta: &m})
	return err
}

// List returns a page of sessions.
func (r *remote) List(ctx context.Context, f session.Filter) ([]session.Meta, string, error) {
	a, err := r.call(ctx, request{Do: doList, Filter: &f})
	return a.Metas, a.Cursor, err
}

// Delete removes a session.
func (r *remote) Delete(ctx context.Context, id session.ID) error {
	_, err := r.call(ctx, request{Do: doDelete, Session: id})
	return err
}

func (r *remote) append(ctx context.Context, l session.Lease, expect session.Seq, key string, encoded [][]byte, sync bool) (*span, error) {
	a, err := r.call(ctx, request{Do: doAppend, Lease: &l, Seq: expect, Key: key, Records: raw(encoded), Sync: sync})
	if err != nil || a.First == 0 {
		return nil, err
	}
	return &span{a.First, a.Last}, nil
}

func (r *remote) after(ctx context.Context, id session.ID, seq session.Seq, limit, _ int) ([][]byte, bool, error) {
	a, err := r.call(ctx, request{Do: doAfter, Session: id, Seq: seq, Limit: limit})
	encoded := make([][]byte, len(a.Records))
	for i, b := range a.Records {
		encoded[i] = b
	}
	return encoded, a.More, err
}

func (r *remote) putAsk(ctx context.Context, l session.Lease, q approvals.Request, nonce string) error {
	_, err := r.call(ctx, request{Do: doPutAsk, Lease: &l, Request: &q, Nonce: nonce})
	return err
}

// GetAsk returns an ask.
func (r *remote) GetAsk(ctx context.Context, id string) (session.StoredAsk, error) {
	a, err := r.call(ctx, request{Do: doGetAsk, ID: id})
	if err != nil {
		return session.StoredAsk{}, err
	}
	return value(a.Ask), nil
}

func (r *remote) answerAsk(ctx context.Context, id string, ans approvals.Answer, d approvals.Decision, nonce string) (session.StoredAsk, error) {
	a, err := r.call(ctx, request{Do: doAnswer, ID: id, Answer: &ans, Decision: &d, Nonce: nonce})
	return value(a.Ask), err
}

func (r *remote) claimAsk(ctx context.Context, l session.Lease, id, digest, nonce string) error {
	_, err := r.call(ctx, request{Do: doClaim, Lease: &l, ID: id, Digest: digest, Nonce: nonce})
	return err
}

// OpenAsks returns the open asks.
func (r *remote) OpenAsks(ctx context.Context, id session.ID) ([]session.StoredAsk, error) {
	a, err := r.call(ctx, request{Do: doOpenAsks, Session: id})
	return a.Asks, err
}

// WatchAsk returns a channel that is closed when the ask leaves open, if the
// connection lasts that long.
func (r *remote) WatchAsk(ctx context.Context, id string) (<-chan struct{}, error) {
	name, err := newNonce()
	if err != nil {
		return nil, err
	}
	ch := make(chan struct{})
	r.mu.Lock()
	r.watches[name] = ch
	r.mu.Unlock()
	forget := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		_, there := r.watches[name]
		delete(r.watches, name)
		return there && !r.dead
	}
	if _, err := r.call(ctx, request{Do: doWatch, ID: id, Nonce: name}); err != nil {
		forget()
		return nil, err
	}
	context.AfterFunc(ctx, func() {
		if forget() {
			// Nobody waits for the answer.
			_ = r.conn.send(request{Number: unanswered, Do: doUnwatch, Nonce: name})
		}
	})
	return ch, nil
}

// unanswered numbers requests whose answer nobody waits for.
const unanswered = 1 << 63

// PutGrant stores a grant.
func (r *remote) PutGrant(ctx context.Context, workspace string, g approvals.Grant) error {
	_, err := r.call(ctx, request{Do: doPutGrant, Workspace: workspace, Grant: &g})
	return err
}

// Grants returns the grants of a workspace.
func (r *remote) Grants(ctx context.Context, workspace string) ([]approvals.Grant, error) {
	a, err := r.call(ctx, request{Do: doGrants, Workspace: workspace})
	return a.Grants, err
}

// DeleteGrant removes a grant.
func (r *remote) DeleteGrant(ctx context.Context, workspace, id string) error {
	_, err := r.call(ctx, request{Do: doDeleteGrant, Workspace: workspace, ID: id})
	return err
}
