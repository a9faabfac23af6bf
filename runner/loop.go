package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/history"
	"github.com/gth-server/gth-server/runner/internal/llm"
	"github.com/gth-server/gth-server/session"
)

// storeTimeout bounds what must be stored although the turn was cancelled.
const storeTimeout = 5 * time.Second

var errWallTime = errors.New("the turn's time is over")

// Run plays one turn; see [session.Runner].
func (r *Runner) Run(ctx context.Context, t *session.Turn) (session.StopReason, error) {
	ctx, span := r.o.Tracer.Start(ctx, "invoke_agent gth-server")
	defer span.End()
	timed, cancel := context.WithTimeoutCause(ctx, r.o.WallTime, errWallTime)
	defer cancel()
	p := &turn{Runner: r, t: t, history: history.New(r.o.SystemPrompt)}
	stop, err := p.play(timed)
	stop, err = p.ended(ctx, timed, stop, err)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("gen_ai.operation.name", "invoke_agent"),
			attribute.String("gen_ai.agent.name", "gth-server"),
			attribute.String("gen_ai.conversation.id", string(t.Session().ID)),
			attribute.String("gth.turn", t.ID()), attribute.String("gth.stop", string(stop)))
		if err != nil {
			span.SetStatus(codes.Error, "turn failed")
		}
	}
	return stop, err
}

// turn is one Run.
type turn struct {
	*Runner
	t       *session.Turn
	history *history.Builder
	bound   model.ToolCallingChatModel // with the tools as described at rung
	rung    approvals.Rung
	tokens  int // in and out, as far as the provider says
}

// play goes from model answer to model answer until nothing is left to do.
func (p *turn) play(ctx context.Context) (session.StopReason, error) {
	for n := 1; n <= p.o.MaxSteps; n++ {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if p.o.MaxTokens > 0 && p.tokens >= p.o.MaxTokens {
			return "", &session.TurnError{
				Kind: session.KindLimit, Err: fmt.Errorf("the turn used %d tokens of %d", p.tokens, p.o.MaxTokens),
				Hint: "raise limits.turnTokens or split the task",
			}
		}
		if err := p.history.Update(p.t.Records()); err != nil {
			return "", fmt.Errorf("read the session's log: %w", err)
		}
		if err := p.bind(); err != nil {
			return "", err
		}
		w := &watcher{turn: p, ctx: ctx, step: n}
		reply, err := p.client.Ask(ctx, p.bound, p.history.Messages(), w)
		if err != nil {
			return "", err
		}
		s, err := p.keepStep(ctx, n, w, reply)
		if err != nil {
			return "", err
		}
		used := usageOf(reply.Message)
		p.tokens += used.Input + used.Output
		switch {
		case reply.Finish == "length":
			return session.StopMaxTokens, nil
		case reply.Finish == "content_filter":
			return "", &session.TurnError{Kind: session.KindModel, Err: errors.New("the provider's content filter ended the answer"), Hint: "rephrase the prompt"}
		case len(s.calls) == 0:
			return session.StopEndTurn, nil
		}
		if stop, err := s.play(ctx); err != nil || stop != "" {
			return stop, err
		}
	}
	return session.StopMaxSteps, nil
}

// ended words how the turn ended. outer is the context that Run was given.
func (p *turn) ended(outer, timed context.Context, stop session.StopReason, err error) (session.StopReason, error) {
	var te *session.TurnError
	var failure *llm.Failure
	switch {
	case outer.Err() != nil:
		return session.StopCancelled, nil
	case err == nil:
		return stop, nil
	case errors.Is(context.Cause(timed), errWallTime):
		return session.StopFailed, &session.TurnError{
			Kind: session.KindLimit, Err: fmt.Errorf("the turn took longer than %s", p.o.WallTime),
			Hint: "raise limits.turnMs or split the task",
		}
	case errors.As(err, &te):
		return session.StopFailed, te
	case errors.As(err, &failure):
		kind := session.KindModel
		if failure.Cause == llm.CauseAuth {
			kind = session.KindAuth
		}
		return session.StopFailed, &session.TurnError{Kind: kind, Err: failure.Err, Hint: failure.Hint}
	}
	return session.StopFailed, &session.TurnError{Kind: session.KindInternal, Err: err, Hint: "please report this with the log"}
}

// bind describes the tools as the rung of now wants it.
func (p *turn) bind() error {
	rung := p.t.Rung()
	if p.bound != nil && rung == p.rung {
		return nil
	}
	m, err := p.o.Model.WithTools(p.tools.Infos(rung))
	if err != nil {
		return fmt.Errorf("describe the tools to the model: %w", err)
	}
	p.bound, p.rung = m, rung
	return nil
}

// keep stores events also when the turn was cancelled meanwhile: what the
// model said and what became of a call must not be lost.
func (p *turn) keep(ctx context.Context, events ...session.Event) error {
	if len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := p.t.Append(ctx, events...); err != nil {
		return storeError(err)
	}
	return nil
}

func storeError(err error) error {
	return &session.TurnError{Kind: session.KindStore, Err: fmt.Errorf("store the turn: %w", err), Hint: "check the data directory and its disk"}
}

// keepStep stores a whole answer and announces its calls, in one batch. An
// answer that was not finished by the model itself starts no call.
func (p *turn) keepStep(ctx context.Context, number int, w *watcher, reply llm.Reply) (*step, error) {
	msg := reply.Message
	if reply.Finish == "length" || reply.Finish == "content_filter" {
		msg.ToolCalls = nil
	}
	s := &step{turn: p}
	var events []session.Event
	if msg.ReasoningContent != "" {
		events = append(events, session.Reasoning{Message: w.id, Text: msg.ReasoningContent})
	}
	if msg.Content != "" {
		events = append(events, session.Text{Message: w.id, Text: msg.Content})
	}
	announced := make([]session.Event, 0, len(msg.ToolCalls))
	taken := map[string]bool{}
	for i := range msg.ToolCalls {
		p.giveID(&msg.ToolCalls[i], taken)
		c := p.readCall(&msg.ToolCalls[i])
		if i >= maxCalls {
			c.problem = fmt.Sprintf("The call did not run: one answer may hold %d calls. Make the rest in your next answer.", maxCalls)
		}
		s.calls = append(s.calls, c)
		announced = append(announced, c.announcement())
	}
	raw, err := json.Marshal(msg)
	if err != nil {
		return nil, fmt.Errorf("encode the model's answer: %w", err)
	}
	events = append(events, session.Step{Number: number, Message: raw, Usage: usageOf(msg)})
	if err := p.keep(ctx, append(events, announced...)...); err != nil {
		return nil, err
	}
	return s, nil
}

// maxCalls bounds the calls of one answer that are looked at; as many
// questions fit into a session.
const maxCalls = 64

// maxID bounds the ids of calls that are kept as the provider sent them.
const maxID = 128

// providerID is where a call's original id is kept when it got another.
const providerID = "provider_id"

// giveID makes the id of a call unique in the session. Providers send
// duplicates, empty ones, and the same ones again in each turn.
func (p *turn) giveID(c *schema.ToolCall, taken map[string]bool) {
	id := c.ID
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, unusual) || taken[id] || p.history.HasCall(id) {
		for n := p.history.Calls() + len(taken) + 1; ; n++ {
			id = fmt.Sprintf("call-%d", n)
			if !taken[id] && !p.history.HasCall(id) {
				break
			}
		}
		if c.Extra == nil {
			c.Extra = map[string]any{}
		}
		c.Extra[providerID] = strings.ToValidUTF8(c.ID[:min(len(c.ID), maxID)], "")
		c.ID = id
	}
	taken[id] = true
}

// unusual reports characters that an id has no need of.
func unusual(r rune) bool { return r <= ' ' || r >= 0x7f }

func usageOf(m *schema.Message) session.Usage {
	if m.ResponseMeta == nil || m.ResponseMeta.Usage == nil {
		return session.Usage{}
	}
	u := m.ResponseMeta.Usage
	return session.Usage{
		Input: u.PromptTokens, Output: u.CompletionTokens,
		Cached: u.PromptTokenDetails.CachedTokens, Reasoning: u.CompletionTokensDetails.ReasoningTokens,
	}
}

// watcher shows an answer while it arrives and keeps what a broken one
// had brought.
type watcher struct {
	*turn
	ctx     context.Context
	step    int
	attempt int
	id      string
	text    strings.Builder
}

func (w *watcher) Begin() {
	w.attempt++
	w.id = fmt.Sprintf("%s-%d", w.t.ID(), w.step)
	if w.attempt > 1 {
		w.id += fmt.Sprintf("-%d", w.attempt)
	}
	w.text.Reset()
}

func (w *watcher) Text(s string) {
	w.text.WriteString(s)
	w.t.Show(session.TextDelta{Message: w.id, Text: s})
}

func (w *watcher) Reasoning(s string) {
	w.t.Show(session.ReasoningDelta{Message: w.id, Text: s})
}

func (w *watcher) Broken() {
	if w.text.Len() == 0 {
		return
	}
	if err := w.keep(w.ctx, session.Text{Message: w.id, Text: w.text.String(), Partial: true}); err != nil {
		w.o.Logger.WarnContext(w.ctx, "a broken answer was not stored", "error", err)
	}
}
