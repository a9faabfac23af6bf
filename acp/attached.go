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
	once   sync.Once     // starts the pump or gives it up
	pumped chan struct{} // closed when the pump has ended
	tr     *translator   // the pump's goroutine only, once it runs
	title  string        // as told; the pump's goroutine only
	asking sync.WaitGroup
	turns  sync.WaitGroup // prompts whose answer is not written yet

	mu      sync.Mutex
	running *turn // the turn that has, or will have, the session
	waiting *turn // the one behind it
	gone    error // set when no turn can start any more
	ended   map[string]session.TurnEnded
	asks    map[string]question // by ask id
	seen    session.Seq         // the last record that the client was told of
	moved   chan struct{}       // closed and made anew when seen changes
}

// question is one that is with the client.
type question struct {
	withdraw context.CancelCauseFunc
	turn     string // the session's turn that asked
}

// prepare makes s one of the connection's. The pump begins behind past, the
// log up to now; questions that wait come to it again.
func prepare(c *conn, s *session.Session) (a *attached, past []session.Record) {
	past = s.Records()
	seen := session.Seq(len(past))
	return &attached{
		c: c, s: s, sub: s.Subscribe(seen), pumped: make(chan struct{}), tr: newTranslator(), title: s.Title(),
		ended: map[string]session.TurnEnded{}, asks: map[string]question{}, seen: seen, moved: make(chan struct{}),
	}, past
}

// start lets the pump run. It comes behind the answer that makes the session
// known to the client: updates before it would be lost.
func (a *attached) start() { a.once.Do(func() { go a.pump() }) }

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
		a.handle(rec)
		a.note(rec.Seq)
	}
}

func (a *attached) handle(rec session.Record) {
	for _, u := range a.tr.updates(rec.Event, time.Now()) {
		a.c.notify(a.s.ID(), u)
	}
	switch e := rec.Event.(type) {
	case session.RungChanged:
		for _, u := range a.c.rungUpdates(e.To) {
			a.c.notify(a.s.ID(), u)
		}
	case session.TurnStarted, session.TitleChanged:
		if title := a.s.Title(); title != a.title {
			a.title = title
			a.c.notify(a.s.ID(), titleUpdate(title))
		}
	case session.Asked:
		a.ask(e.Request, rec.Turn)
	case session.Answered:
		a.withdraw(e.AskID, errSettled)
	case session.TurnEnded:
		a.withdrawAll(errTurnOver)
		a.asking.Wait()
		a.turnEnded(e)
	}
}

// note says how far the client was told; live events have no number.
func (a *attached) note(seq session.Seq) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if seq > a.seen {
		a.seen = seq
		close(a.moved)
		a.moved = make(chan struct{})
	}
}

// told returns when the client was told of the log as it is now, or can be
// told nothing more.
func (a *attached) told(ctx context.Context) {
	upTo := session.Seq(len(a.s.Records()))
	for {
		a.mu.Lock()
		there, moved := a.seen >= upTo, a.moved
		a.mu.Unlock()
		if there {
			return
		}
		select {
		case <-moved:
		case <-a.pumped:
			return
		case <-ctx.Done():
			return
		}
	}
}

// retire ends the pump of an idle session so that another attached can take
// its place. It reports false when a turn has the session.
func (a *attached) retire() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running != nil || a.waiting != nil {
		return false
	}
	if a.gone == nil {
		a.gone = errReopened
	}
	a.sub.Close()
	return true
}

// alive reports whether the session can still be used.
func (a *attached) alive() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gone == nil
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
	a.once.Do(func() { a.abandon(); close(a.pumped) }) // unless the pump runs
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
