package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/sourcegraph/jsonrpc2"
)

// methodCancelRequest tells the other side that nobody waits any more.
const methodCancelRequest = "$/cancel_request"

// maxInFlight bounds the requests that are worked on at a time.
const maxInFlight = 1024

// ErrRequestCancelled is the cause of a work context when the other side
// withdrew its request.
var ErrRequestCancelled = errors.New("the request was cancelled by the other side")

// Request is a message that came in. ID is nil for a notification.
type Request struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

// Notification reports whether no answer is expected.
func (r Request) Notification() bool { return r.ID == nil }

// Work does what a request asks for. Its result is the answer, a nil result
// is {}; an error that is no *jsonrpc2.Error is answered with -32603. Of a
// notification neither is sent.
type Work func(ctx context.Context) (any, error)

// Then is a result of Work with something to do behind it.
type Then struct {
	Result any
	Err    error  // answered instead of Result when it is not nil
	After  func() // runs once the answer is written, or could not be
}

// Accept takes messages in the order in which they came. It must not
// block; a nil Work does nothing more, which for a request answers {}.
type Accept func(r Request) Work

// Options configure a connection.
type Options struct {
	Accept  Accept
	Logger  *slog.Logger // nil discards
	MaxLine int          // bytes, 0 is DefaultMaxLine
}

// Conn is one connection. Its methods are safe for concurrent use.
type Conn struct {
	accept  Accept
	log     *slog.Logger
	objects *objects
	rpc     *jsonrpc2.Conn
	ctx     context.Context
	cancel  context.CancelCauseFunc
	nextID  atomic.Uint64

	mu       sync.Mutex
	stopped  bool
	inFlight map[string]context.CancelCauseFunc // by raw id
	count    int
	work     sync.WaitGroup
}

// New starts a connection. ctx is the parent of all work; its end does not
// close the connection, Close does.
func New(ctx context.Context, in io.Reader, out io.Writer, o Options) *Conn {
	c := &Conn{accept: o.Accept, log: o.Logger, inFlight: map[string]context.CancelCauseFunc{}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.objects = newObjects(in, out, o.MaxLine, c.log)
	ready := make(chan struct{})
	h := handler(func(req *jsonrpc2.Request) { <-ready; c.handle(req) })
	c.rpc = jsonrpc2.NewConn(context.WithoutCancel(ctx), c.objects, h, jsonrpc2.SetLogger(rpcLog{c.log}))
	close(ready)
	return c
}

type handler func(*jsonrpc2.Request)

// Handle implements jsonrpc2.Handler.
func (h handler) Handle(_ context.Context, _ *jsonrpc2.Conn, req *jsonrpc2.Request) { h(req) }

type rpcLog struct{ log *slog.Logger }

// Printf implements jsonrpc2.Logger.
func (l rpcLog) Printf(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }

// handle runs on the reader's goroutine.
func (c *Conn) handle(req *jsonrpc2.Request) {
	r := Request{Method: req.Method, Params: c.objects.params}
	if !req.Notif {
		r.ID = json.RawMessage(req.ID.Str)
	}
	if r.Method == methodCancelRequest {
		c.withdraw(r)
		return
	}
	if !r.Notification() && c.full() {
		c.objects.refuse(&fault{r.ID, &jsonrpc2.Error{
			Code:    jsonrpc2.CodeInternalError,
			Message: fmt.Sprintf("more than %d requests at once: wait for answers first", maxInFlight),
		}})
		return
	}
	work := c.safeAccept(r)
	if work == nil && r.Notification() {
		return
	}
	c.start(r, work)
}

// safeAccept turns a panic of the handler into work that fails.
func (c *Conn) safeAccept(r Request) (w Work) {
	defer func() {
		if err := c.recovered(recover(), r); err != nil {
			w = func(context.Context) (any, error) { return nil, err }
		}
	}()
	return c.accept(r)
}

func (c *Conn) recovered(p any, r Request) error {
	if p == nil {
		return nil
	}
	c.log.Error("a handler panicked", "method", r.Method, "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("a fault of the server in %s: see its log", r.Method)
}

// full reports whether no further request can be taken. Only the reading
// goroutine adds any, so what it is told stays true until it does.
func (c *Conn) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count >= maxInFlight
}

// start runs work in a goroutine that Wait waits for.
func (c *Conn) start(r Request, work Work) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		cancel(nil)
		return
	}
	c.count++
	key := string(r.ID)
	if !r.Notification() {
		c.inFlight[key] = cancel
	}
	c.work.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.work.Done()
		defer cancel(nil)
		res, err := c.safeWork(ctx, r, work)
		c.mu.Lock()
		c.count--
		if !r.Notification() {
			delete(c.inFlight, key)
		}
		c.mu.Unlock()
		if then, ok := res.(Then); ok {
			defer then.After()
			res, err = then.Result, then.Err
		}
		c.reply(r, res, err)
	}()
}

func (c *Conn) safeWork(ctx context.Context, r Request, work Work) (res any, err error) {
	defer func() {
		if perr := c.recovered(recover(), r); perr != nil {
			res, err = nil, perr
		}
	}()
	if work == nil {
		return nil, nil
	}
	return work(ctx)
}

func (c *Conn) reply(r Request, res any, err error) {
	if r.Notification() {
		if err != nil {
			c.log.Debug("a notification failed", "method", r.Method, "error", err)
		}
		return
	}
	resp := &jsonrpc2.Response{ID: jsonrpc2.ID{Str: string(r.ID), IsString: true}}
	if err == nil {
		if res == nil {
			res = struct{}{}
		}
		err = resp.SetResult(res)
	}
	if err != nil {
		resp.Result = nil
		if !errors.As(err, &resp.Error) {
			c.log.Error("a request failed", "method", r.Method, "error", err)
			resp.Error = &jsonrpc2.Error{Code: jsonrpc2.CodeInternalError, Message: err.Error()}
		}
	}
	if err := c.rpc.SendResponse(c.ctx, resp); err != nil {
		c.log.Debug("could not answer", "method", r.Method, "error", err)
	}
}

// withdraw cancels the context of a request that is worked on; unknown ids
// are ignored.
func (c *Conn) withdraw(r Request) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(r.Params, &p) == nil {
		c.mu.Lock()
		cancel := c.inFlight[string(p.ID)]
		c.mu.Unlock()
		if cancel != nil {
			cancel(ErrRequestCancelled)
		}
	}
	if !r.Notification() {
		c.start(r, nil)
	}
}

// Notify sends a notification and returns when it is written.
func (c *Conn) Notify(method string, params any) error {
	return c.rpc.Notify(c.ctx, method, params)
}

// Call sends a request and waits for its answer, which it reads into
// result. When ctx ends first it tells the other side and returns the
// cause of ctx.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	id := c.nextID.Add(1)
	call, err := c.rpc.DispatchCall(ctx, method, params, jsonrpc2.PickID(jsonrpc2.ID{Num: id}))
	if err != nil {
		return fmt.Errorf("send %s: %w", method, err)
	}
	err = call.Wait(ctx, result)
	if ctx.Err() == nil || err == nil {
		return err
	}
	if nerr := c.Notify(methodCancelRequest, struct {
		ID uint64 `json:"requestId"`
	}{id}); nerr != nil {
		c.log.Debug("could not withdraw a request", "method", method, "error", nerr)
	}
	return context.Cause(ctx)
}

// Ended is closed at the end of input or when writing failed.
func (c *Conn) Ended() <-chan struct{} { return c.objects.ended }

// Err returns why reading or writing failed, nil at the end of input.
func (c *Conn) Err() error { return c.objects.cause() }

// Stop refuses further messages. Work that runs goes on.
func (c *Conn) Stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
}

// Wait returns when all work has ended and is answered, or with the cause
// of ctx. Call Stop first.
func (c *Conn) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { c.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close cancels the work that is left and ends the connection. Calls and
// writes that wait return with an error.
func (c *Conn) Close(cause error) {
	c.Stop()
	c.cancel(cause)
	if err := c.rpc.Close(); err != nil && !errors.Is(err, jsonrpc2.ErrClosed) {
		c.log.Debug("could not close the connection", "error", err)
	}
}
