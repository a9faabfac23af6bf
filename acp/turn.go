package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gth-server/gth-server/acp/internal/stream"
	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/session"
)

// startTries bounds how often a turn that finds the session busy waits.
const startTries = 100

// answer is what a prompt is answered with.
type answer struct {
	result wire.PromptResponse
	err    error
}

// turn is a prompt from its arrival to its answer. attached.mu guards it.
type turn struct {
	blocks []session.Block
	meta   json.RawMessage // of the prompt
	before <-chan struct{} // closed when what the client asked for earlier is done
	ready  chan struct{}   // closed when the session is this turn's
	over   chan struct{}   // closed when the answer is there
	answer answer

	ctx       context.Context // ends when the turn is cancelled
	end       context.CancelCauseFunc
	id        string // of the session's turn, once started
	done      bool   // answer is set
	cancelled bool   // it will be answered cancelled
	byClient  bool   // the client's session/cancel for it has come
}

func newTurn(ctx context.Context, blocks []session.Block) *turn {
	t := &turn{blocks: blocks, ready: make(chan struct{}), over: make(chan struct{})}
	t.ctx, t.end = context.WithCancelCause(ctx)
	return t
}

// resolve gives the answer; the first one counts.
func (t *turn) resolve(ans answer) {
	if !t.done {
		t.done, t.answer = true, ans
		close(t.over)
		t.end(errTurnOver)
	}
}

// prompt serves session/prompt. The turn is admitted here, on the reading
// goroutine, so that a cancel right behind it finds it.
func (c *conn) prompt(r stream.Request) stream.Work {
	var p wire.PromptRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	a, err := c.lookup(p.SessionID)
	if err != nil {
		return fail(err)
	}
	blocks, err := promptBlocks(p.Prompt)
	if err != nil {
		return fail(err)
	}
	t := newTurn(c.ctx, blocks)
	t.meta, t.before = p.Meta, c.order.before(p.SessionID)
	a.admit(t)
	return func(ctx context.Context) (any, error) { return a.play(ctx, t), nil }
}

// admit puts t in the session's hand, or behind the turn that has it. That
// one is cancelled, and one that was waiting gives way.
func (a *attached) admit(t *turn) {
	a.turns.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.gone != nil:
		t.resolve(cancelled())
	case a.running == nil:
		a.running = t
		close(t.ready)
	default:
		a.cancelTurn(a.running, errSuperseded)
		if a.waiting != nil {
			a.waiting.resolve(cancelled())
		}
		a.waiting = t
	}
}

// release passes the session on once t is answered.
func (a *attached) release(t *turn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running != t {
		return
	}
	a.running, a.waiting = a.waiting, nil
	if a.running != nil {
		close(a.running.ready)
	}
}

// play runs t and returns its answer.
func (a *attached) play(ctx context.Context, t *turn) stream.Then {
	unhook := context.AfterFunc(ctx, func() { a.requestEnded(t, context.Cause(ctx)) })
	defer unhook()
	select {
	case <-t.ready:
		select {
		case <-t.before: // such as the rung that it is to run at
		case <-t.ctx.Done():
		}
		a.begin(withTrace(ctx, t.meta), t)
		<-t.over
	case <-t.over:
	}
	return stream.Then{Result: t.answer.result, Err: t.answer.err, After: func() { a.release(t); a.turns.Done() }}
}

// requestEnded cancels t because its request was withdrawn; when the whole
// connection ends nobody is left to read an answer.
func (a *attached) requestEnded(t *turn, cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancelTurn(t, cause)
	if !errors.Is(cause, stream.ErrRequestCancelled) {
		t.resolve(cancelled())
	}
}

// begin starts t in the session. A turn that is just ending, or another
// surface's, is waited for.
func (a *attached) begin(ctx context.Context, t *turn) {
	p := session.Prompt{Blocks: t.blocks, By: surface, OnAsk: session.AskWait}
	err := error(session.ErrBusy)
	var id string
	for try := 0; try < startTries && errors.Is(err, session.ErrBusy) && t.ctx.Err() == nil; try++ {
		if try > 0 && a.s.Wait(t.ctx) != nil {
			break
		}
		id, err = a.s.Start(context.WithoutCancel(ctx), p)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil && t.cancelled:
		t.resolve(cancelled())
	case err != nil:
		t.resolve(answer{err: failure("the turn could not be started", err)})
	default:
		t.id = id
		if ev, over := a.ended[id]; over {
			t.resolve(t.answerFor(ev))
		} else if t.cancelled {
			a.s.Cancel(context.Cause(t.ctx))
		}
		clear(a.ended)
	}
}

// turnEnded gives a turn of the session its answer.
func (a *attached) turnEnded(ev session.TurnEnded) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.running; t != nil && t.id == ev.ID {
		t.resolve(t.answerFor(ev))
		return
	}
	a.ended[ev.ID] = ev // begin has not learned the id yet, or it is not ours
}

// answerFor turns the end of a turn into the answer of its prompt. A cancel
// that came before the answer wins over how the turn really ended.
func (t *turn) answerFor(ev session.TurnEnded) answer {
	if t.cancelled {
		return cancelled()
	}
	switch ev.Reason {
	case session.StopEndTurn:
		return answer{result: wire.PromptResponse{StopReason: wire.StopReasonEndTurn}}
	case session.StopMaxTokens:
		return answer{result: wire.PromptResponse{StopReason: wire.StopReasonMaxTokens}}
	case session.StopMaxSteps:
		return answer{result: wire.PromptResponse{StopReason: wire.StopReasonMaxTurnRequests}}
	case session.StopRefusal:
		return answer{result: wire.PromptResponse{StopReason: wire.StopReasonRefusal}}
	case session.StopCancelled:
		return cancelled()
	case session.StopAsked:
		return answer{err: turnFailure("the turn stopped", session.KindInternal, "a question is open and the turn did not wait for its answer")}
	}
	return answer{err: turnFailure("the turn failed", session.ErrorKind(ev.ErrorKind), ev.Error)}
}

// lost reports whether t was cancelled because its client is gone.
func (t *turn) lost() bool {
	return t.ctx.Err() != nil && errors.Is(context.Cause(t.ctx), session.ErrOwnerLost)
}

// cancelTurn marks t and cancels it in the session where it runs. It holds
// mu, so the session cannot have gone on to another turn of ours.
func (a *attached) cancelTurn(t *turn, cause error) {
	if t.done {
		return
	}
	t.cancelled = true
	t.end(cause)
	if t.id != "" {
		a.s.Cancel(cause)
	}
	for _, q := range a.asks {
		if t.id != "" && q.turn == t.id {
			q.withdraw(cause)
		}
	}
	if a.waiting == t {
		a.waiting = nil
		t.resolve(cancelled())
	}
}

// cancel serves the client's session/cancel. Each turn takes one: a client
// that sends its next prompt before the cancel means the turn before. Without
// a turn it ends the questions that outlived theirs, and the calls that they
// allowed.
func (a *attached) cancel() {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.running != nil && !a.running.byClient:
		a.running.byClient = true
		a.cancelTurn(a.running, errClientCancel)
	case a.waiting != nil:
		a.cancelTurn(a.waiting, errClientCancel)
	case a.running == nil:
		for _, q := range a.asks {
			q.withdraw(errDropped)
		}
		a.s.Cancel(errClientCancel)
	}
}

// stop cancels every turn and lets none start.
func (a *attached) stop(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone == nil {
		a.gone = cause
	}
	for _, t := range []*turn{a.waiting, a.running} {
		if t != nil {
			a.cancelTurn(t, cause)
		}
	}
}

// promptBlocks reads a prompt. Links are passed on by name, whether or not
// what they point to exists.
func promptBlocks(content []wire.ContentBlock) ([]session.Block, error) {
	if len(content) == 0 {
		return nil, invalidParams("prompt is empty: send at least one text block")
	}
	blocks := make([]session.Block, 0, len(content))
	for i, b := range content {
		switch {
		case b.Text != nil:
			blocks = append(blocks, session.Block{Type: "text", Text: b.Text.Text})
		case b.ResourceLink != nil:
			mime, _ := b.ResourceLink.MimeType.Get()
			blocks = append(blocks, session.Block{Type: "resource_link", URI: b.ResourceLink.URI, Name: b.ResourceLink.Name, MimeType: mime})
		default:
			return nil, invalidParams("prompt[%d] has the type %s, which is not supported: send text or resource_link", i, fmt.Sprintf("%q", b.Tag))
		}
	}
	return blocks, nil
}
