package acp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/session"
)

// surface names this package in records.
const surface = "acp"

// attached is a session of a connection: its turns, its pump, and the
// questions that are with the client.
type attached struct {
	c      *conn
	s      *session.Session
	sub    *session.Subscription
	pumped chan struct{} // closed when the pump has ended
	tr     *translator   // the pump's goroutine only
	asking sync.WaitGroup
	turns  sync.WaitGroup // prompts whose answer is not written yet

	mu      sync.Mutex
	running *turn // the turn that has, or will have, the session
	waiting *turn // the one behind it
	gone    error // set when no turn can start any more
	ended   map[string]session.TurnEnded
	asks    map[string]context.CancelCauseFunc // by ask id
}

// attach starts the pump of a new session; close ends it.
func attach(c *conn, s *session.Session) *attached {
	a := prepare(c, s)
	go a.pump()
	return a
}

// prepare makes s one of the connection's, without its pump: that begins
// behind what is stored by now. Questions that wait come again.
func prepare(c *conn, s *session.Session) *attached {
	return &attached{
		c: c, s: s, sub: s.Subscribe(session.Seq(len(s.Records()))), pumped: make(chan struct{}), tr: newTranslator(),
		ended: map[string]session.TurnEnded{}, asks: map[string]context.CancelCauseFunc{},
	}
}

// pump reads the session's log and tells the client, until either ends.
func (a *attached) pump() {
	defer close(a.pumped)
	defer a.abandon()
	for {
		rec, err := a.sub.Next(a.c.ctx)
		if err != nil {
			if !errors.Is(err, session.ErrClosed) && a.c.ctx.Err() == nil {
				a.c.log.Error("the session's log cannot be read", "session", a.s.ID(), "error", err)
			}
			return
		}
		a.handle(rec.Event)
	}
}

func (a *attached) handle(ev session.Event) {
	for _, u := range a.tr.updates(ev, time.Now()) {
		a.c.notify(a.s.ID(), u)
	}
	switch e := ev.(type) {
	case session.RungChanged:
		for _, u := range a.c.rungUpdates(e.To) {
			a.c.notify(a.s.ID(), u)
		}
	case session.Asked:
		a.ask(e.Request)
	case session.Answered:
		a.withdraw(e.AskID, errSettled)
	case session.TurnEnded:
		a.withdrawAll(errTurnOver)
		a.asking.Wait()
		a.turnEnded(e)
	}
}

// abandon answers what the log will not answer any more.
func (a *attached) abandon() {
	a.sub.Close()
	a.withdrawAll(errSessionClose)
	a.asking.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone == nil {
		a.gone = session.ErrClosed
	}
	for _, t := range []*turn{a.running, a.waiting} {
		if t != nil {
			t.resolve(cancelled())
		}
	}
	a.waiting = nil
}

// close ends turn, session and pump, and waits for them until ctx ends.
func (a *attached) close(ctx context.Context, cause error) error {
	a.stop(cause)
	err := a.s.Close(ctx)
	if err != nil {
		a.sub.Close()
	}
	select {
	case <-a.pumped:
	case <-ctx.Done():
		a.sub.Close()
		err = errors.Join(err, context.Cause(ctx))
	}
	return err
}

func cancelled() answer {
	return answer{result: wire.PromptResponse{StopReason: wire.StopReasonCancelled}}
}
