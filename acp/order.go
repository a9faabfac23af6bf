package acp

import (
	"context"
	"sync"

	"github.com/gth-server/gth-server/acp/internal/stream"
	"github.com/gth-server/gth-server/acp/internal/wire"
)

// order lets what changes a session happen in the order in which the client
// asked for it, although each request is worked on in a goroutine of its own.
type order struct {
	mu   sync.Mutex
	last map[wire.SessionID]chan struct{} // closed when the last request for it is done
}

// none is what nothing has to wait for.
var none = func() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// before returns what is closed when all that was asked for so far is done.
func (o *order) before(id wire.SessionID) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ch := o.last[id]; ch != nil {
		return ch
	}
	return none
}

// join puts a request behind those before it.
func (o *order) join(id wire.SessionID) (before <-chan struct{}, leave func()) {
	before = o.before(id)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = map[wire.SessionID]chan struct{}{}
	}
	mine := make(chan struct{})
	o.last[id] = mine
	return before, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.last[id] == mine {
			delete(o.last, id)
		}
		close(mine)
	}
}

// inOrder is work that begins when what was asked for the same session
// before it is done, and that is done once it is answered. It is called on
// the reading goroutine.
func (c *conn) inOrder(id wire.SessionID, work stream.Work) stream.Work {
	before, leave := c.order.join(id)
	return func(ctx context.Context) (any, error) {
		<-before // its own context ends with the connection, too
		answered := false
		defer func() {
			if !answered {
				leave()
			}
		}()
		if ctx.Err() != nil {
			return nil, withdrawn(ctx)
		}
		res, err := work(ctx)
		then, ok := res.(stream.Then)
		if !ok {
			then = stream.Then{Result: res, Err: err, After: func() {}}
		}
		after := then.After
		then.After = func() { after(); leave() }
		answered = true
		return then, nil
	}
}
