// Package llm gets one whole answer out of a model.
//
// Guarantees: an answer is returned only when the model said that it was
// finished; a stream that was cut is never an answer. Rate limits, server
// faults, lost connections and empty answers are repeated within a budget,
// and each attempt is announced with a number of its own, so that pieces of
// a failed one can be told apart. A call is one span per attempt. The text
// of an error is made for people and names what to do.
//
// It keeps no state between calls, and knows nothing of sessions or tools.
package llm

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Client asks one model. Safe for concurrent use.
type Client struct {
	Model  model.ToolCallingChatModel
	Label  string // "provider:name"
	Retry  Retry
	Tracer trace.Tracer
	Logger *slog.Logger
}

// Watcher sees an answer arrive. Its methods are called from Ask's
// goroutine.
type Watcher interface {
	// Begin opens an attempt; what follows belongs to it.
	Begin()
	// Text and Reasoning bring a piece of the answer.
	Text(s string)
	Reasoning(s string)
	// Broken ends an attempt without an answer.
	Broken()
}

// Reply is a whole answer.
type Reply struct {
	Message *schema.Message // with the tool calls as the model sent them
	Finish  string          // stop, tool_calls, length, content_filter, …
}

// errCut means that the stream ended before the model was done.
var errCut = errors.New("the model's answer was cut off before its end")

// errEmpty means a finished answer with nothing in it.
var errEmpty = errors.New("the model answered with nothing, twice")

// errLong means an answer without end.
var errLong = errors.New("the model's answer grew over 16 MiB")

const maxAnswer = 16 << 20

// Ask returns the model's answer to msgs. The error is ctx's when ctx
// ended, else a *Failure.
func (c *Client) Ask(ctx context.Context, m model.ToolCallingChatModel, msgs []*schema.Message, w Watcher) (Reply, error) {
	budget := c.Retry.start()
	empty := 0
	for {
		w.Begin()
		reply, err := c.attempt(ctx, m, msgs, w)
		if err == nil && !blank(reply) {
			return reply, nil
		}
		w.Broken()
		if ctx.Err() != nil {
			return Reply{}, context.Cause(ctx)
		}
		if err == nil {
			if empty++; empty > 1 {
				return Reply{}, explain(errEmpty, c.Label, budget.attempts)
			}
			continue
		}
		wait, again := budget.next(err)
		if !again {
			return Reply{}, explain(err, c.Label, budget.attempts)
		}
		c.Logger.WarnContext(ctx, "model call failed, trying again", "model", c.Label, "wait", wait, "error", err)
		if !sleep(ctx, wait) {
			return Reply{}, context.Cause(ctx)
		}
	}
}

// blank reports a finished answer without text and calls. One that was cut
// by its length or a filter is no accident and not repeated.
func blank(r Reply) bool {
	return r.Message.Content == "" && len(r.Message.ToolCalls) == 0 && r.Finish != "length" && r.Finish != "content_filter"
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt makes one request and one span.
func (c *Client) attempt(ctx context.Context, m model.ToolCallingChatModel, msgs []*schema.Message, w Watcher) (Reply, error) {
	provider, name := splitLabel(c.Label)
	ctx, span := c.Tracer.Start(ctx, "chat "+name, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(attribute.String("gen_ai.operation.name", "chat"),
			attribute.String("gen_ai.provider.name", provider), attribute.String("gen_ai.request.model", name))
	}
	reply, err := c.stream(ctx, m, msgs, w)
	if !span.IsRecording() {
		return reply, err
	}
	if err != nil {
		span.SetStatus(codes.Error, "model call failed")
		span.SetAttributes(attribute.String("error.type", errorType(err)))
		return reply, err
	}
	span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{reply.Finish}))
	if meta := reply.Message.ResponseMeta; meta != nil && meta.Usage != nil {
		span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", meta.Usage.PromptTokens),
			attribute.Int("gen_ai.usage.output_tokens", meta.Usage.CompletionTokens))
	}
	return reply, nil
}

func (c *Client) stream(ctx context.Context, m model.ToolCallingChatModel, msgs []*schema.Message, w Watcher) (Reply, error) {
	stream, err := m.Stream(ctx, msgs)
	if err != nil {
		return Reply{}, err
	}
	defer stream.Close()
	var chunks []*schema.Message
	var calls calls
	size := 0
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return finish(chunks, calls)
		}
		if err != nil {
			return Reply{}, err
		}
		if err := ctx.Err(); err != nil {
			return Reply{}, err
		}
		if chunk == nil {
			continue
		}
		if chunk.ReasoningContent != "" {
			w.Reasoning(chunk.ReasoningContent)
		}
		if chunk.Content != "" {
			w.Text(chunk.Content)
		}
		for _, p := range chunk.ToolCalls {
			calls.add(p)
			size += len(p.Function.Arguments) + len(p.Function.Name) + len(p.ID)
		}
		if size += len(chunk.Content) + len(chunk.ReasoningContent); size > maxAnswer {
			return Reply{}, errLong
		}
		rest := *chunk
		rest.ToolCalls, rest.Role = nil, schema.Assistant
		chunks = append(chunks, &rest)
	}
}

// finish joins the chunks of a stream that ended without an error. Without
// a finish reason the connection ended, not the answer.
func finish(chunks []*schema.Message, calls calls) (Reply, error) {
	if len(chunks) == 0 {
		return Reply{}, errCut
	}
	msg, err := schema.ConcatMessages(chunks)
	if err != nil {
		return Reply{}, err
	}
	if msg.ResponseMeta == nil || msg.ResponseMeta.FinishReason == "" || msg.ResponseMeta.FinishReason == "null" {
		return Reply{}, errCut
	}
	msg.ToolCalls = calls.message()
	for key, v := range msg.Extra {
		if s, ok := v.(string); ok && s != "" && s == msg.ReasoningContent {
			delete(msg.Extra, key)
		}
	}
	return Reply{Message: msg, Finish: msg.ResponseMeta.FinishReason}, nil
}
