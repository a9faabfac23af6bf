package acp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/gth-server/gth-server/acp/internal/stream"
	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/session"
)

// conn is one client. accept and what it calls run on the connection's
// reading goroutine, one after the other; work runs in goroutines.
type conn struct {
	server *Server
	log    *slog.Logger
	rpc    *stream.Conn
	ready  chan struct{} // closed once rpc is set

	ctx    context.Context // of pumps and questions
	cancel context.CancelCauseFunc

	initialized bool // reading goroutine only
	order       order

	mu       sync.Mutex
	closing  bool
	sessions map[session.ID]*attached
}

func newConn(ctx context.Context, s *Server) *conn {
	c := &conn{server: s, log: s.log, ready: make(chan struct{}), sessions: map[session.ID]*attached{}}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return c
}

// methods are the requests that are served once the client has initialized.
var methods = map[string]func(*conn, stream.Request) stream.Work{
	wire.MethodAuthenticate:           (*conn).authenticate,
	wire.MethodSessionNew:             (*conn).newSession,
	wire.MethodSessionList:            (*conn).listSessions,
	wire.MethodSessionLoad:            (*conn).loadSession,
	wire.MethodSessionResume:          (*conn).resumeSession,
	wire.MethodSessionDelete:          (*conn).deleteSession,
	wire.MethodSessionSetMode:         (*conn).setMode,
	wire.MethodSessionSetConfigOption: (*conn).setConfigOption,
	wire.MethodSessionPrompt:          (*conn).prompt,
	wire.MethodSessionClose:           (*conn).closeSession,
	wire.MethodSessionCancel:          (*conn).cancelSession,
}

// accept takes a message in its turn.
func (c *conn) accept(r stream.Request) stream.Work {
	<-c.ready
	if r.Method == wire.MethodInitialize {
		return c.initialize(r)
	}
	serve, known := methods[r.Method]
	switch {
	case r.Notification() && r.Method != wire.MethodSessionCancel:
		c.log.Debug("ignored a notification", "method", r.Method)
		return nil
	case !known:
		return fail(wireError(wire.ErrorCodeMethodNotFound, "method %q is not served: see the capabilities in the answer to initialize", r.Method))
	case !c.initialized:
		return fail(wireError(wire.ErrorCodeInvalidRequest, "%s came before initialize: send initialize first", r.Method))
	}
	return serve(c, r)
}

// fail is work that only answers with err.
func fail(err error) stream.Work {
	return func(context.Context) (any, error) { return nil, err }
}

// decode reads the parameters of r.
func decode(r stream.Request, dst any) error {
	params := r.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	if err := json.Unmarshal(params, dst); err != nil {
		return invalidParams("%s: %v", r.Method, err)
	}
	return nil
}

// find returns a session of this connection, nil when it is not open here.
func (c *conn) find(id wire.SessionID) *attached {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[session.ID(id)]
}

// lookup is find with an error for the client.
func (c *conn) lookup(id wire.SessionID) (*attached, error) {
	if a := c.find(id); a != nil {
		return a, nil
	}
	return nil, unknownSession(id, "is not open here: make one with session/new, or load it and wait for the answer")
}

// take is lookup, and the session is none of the connection's any more.
func (c *conn) take(id wire.SessionID) (*attached, error) {
	a, err := c.lookup(id)
	if err == nil {
		c.remove(a)
	}
	return a, err
}

// add makes a new session known. It reports false when the connection ends.
func (c *conn) add(a *attached) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	c.sessions[a.s.ID()] = a
	return true
}

func (c *conn) remove(a *attached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[a.s.ID()] == a {
		delete(c.sessions, a.s.ID())
	}
}

// hasEnded reports whether nothing more comes from the client.
func (c *conn) hasEnded() bool {
	select {
	case <-c.rpc.Ended():
		return true
	default:
		return false
	}
}

func (c *conn) all() []*attached {
	c.mu.Lock()
	defer c.mu.Unlock()
	as := make([]*attached, 0, len(c.sessions))
	for _, a := range c.sessions {
		as = append(as, a)
	}
	return as
}

// shutdown ends the connection in bounded time: turns are cancelled and
// answered, requests that still run end, then the sessions close.
func (c *conn) shutdown(parent context.Context) {
	c.rpc.Stop()
	for _, a := range c.all() {
		a.stop(errConnEnded)
	}
	base := context.WithoutCancel(parent)
	drain, cancelDrain := context.WithTimeout(base, drainTime)
	if err := c.rpc.Wait(drain); err != nil {
		c.log.Warn("requests were still running when the client left", "error", err)
	}
	cancelDrain()

	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(base, closeTime+forceTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, a := range c.all() {
		wg.Go(func() { c.end(ctx, a) })
	}
	wg.Wait()
	c.cancel(errConnEnded)
	c.rpc.Close(errConnEnded)
	if err := c.rpc.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
		c.log.Warn("requests outlive the connection", "error", err)
	}
}

// end closes a session. Its runner is given closeTime; what it then does by
// force is waited for until ctx ends.
func (c *conn) end(ctx context.Context, a *attached) {
	polite, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	err := a.close(polite, errConnEnded)
	if err != nil && polite.Err() != nil {
		err = a.close(ctx, errConnEnded)
	}
	if err != nil {
		c.log.Warn("a session did not close in time", "session", a.s.ID(), "error", err)
	}
}

// notify sends an update; that a client has gone is no failure here.
func (c *conn) notify(id session.ID, u wire.SessionUpdate) {
	n := wire.SessionNotification{SessionID: wire.SessionID(id), Update: u}
	if err := c.rpc.Notify(wire.MethodSessionUpdate, n); err != nil {
		c.log.Debug("could not send an update", "session", id, "error", err)
	}
}
