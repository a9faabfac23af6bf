// Package scripted is a model that plays answers from a YAML file, for the
// demonstration, for tests and for checking a policy. docs/scripted.md
// describes the file.
//
// Guarantees: the same conversation gets the same answer, whatever session
// asks, because the place in the script is read from the conversation; only
// errors that are to happen a number of times are counted, per model. A
// file with a mistake is refused with its line. It contacts nobody and
// needs no key.
package scripted

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/gth-server/gth-server/runner/internal/provider"
)

// Model plays a script. Safe for concurrent use.
type Model struct {
	script *Script

	mu     sync.Mutex
	failed map[*Step]int // how often a step's error was played
}

var _ model.ToolCallingChatModel = (*Model)(nil)

// Open reads the script from a file, or parses source itself when it has a
// line break.
func Open(source string) (*Model, error) {
	if source == "" {
		return nil, fmt.Errorf("model scripted: no script is set: name a YAML file as model.script or with --model scripted:FILE")
	}
	name, text := "script", []byte(source)
	if !strings.Contains(source, "\n") {
		var err error
		if text, err = os.ReadFile(source); err != nil {
			return nil, fmt.Errorf("model scripted: %w", err)
		}
		name = source
	}
	script, err := Parse(name, text)
	if err != nil {
		return nil, fmt.Errorf("model scripted: %w", err)
	}
	return New(script), nil
}

// New returns a model that plays script.
func New(script *Script) *Model { return &Model{script: script, failed: map[*Step]int{}} }

// WithTools returns m: a script names its tools itself.
func (m *Model) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return m, nil }

// Generate returns the next answer whole.
func (m *Model) Generate(ctx context.Context, in []*schema.Message, opts ...model.Option) (*schema.Message, error) {
	stream, err := m.Stream(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	return schema.ConcatMessageStream(stream)
}

// Stream plays the next answer in pieces.
func (m *Model) Stream(ctx context.Context, in []*schema.Message, _ ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	turn, step := position(in)
	s, err := m.script.at(turn, step)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, s.Delay); err != nil {
		return nil, err
	}
	if err := m.failure(s); err != nil {
		return nil, err
	}
	sr, sw := schema.Pipe[*schema.Message](1)
	go func() {
		defer sw.Close()
		for i, chunk := range chunksOf(s, turn, step) {
			if i > 0 {
				if err := pause(ctx, s.Pace); err != nil {
					sw.Send(nil, err)
					return
				}
			}
			if sw.Send(chunk, nil) {
				return
			}
		}
	}()
	return sr, nil
}

// failure returns the error that s plays now, if any is left.
func (m *Model) failure(s *Step) error {
	if s.Error == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Error.Times > 0 && m.failed[s] >= s.Error.Times {
		return nil
	}
	m.failed[s]++
	return &provider.Error{Status: s.Error.Status, Message: s.Error.Message, RetryAfter: s.Error.RetryAfter}
}

// position counts, from 0, the turn (messages of the user) and the step in
// it (answers since the last of them).
func position(in []*schema.Message) (turn, step int) {
	turn = -1
	for _, m := range in {
		switch m.Role {
		case schema.User:
			turn++
			step = 0
		case schema.Assistant:
			step++
		}
	}
	return max(turn, 0), step
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// chunksOf splits an answer as a server would send it: reasoning and text
// by words, each call in two pieces, the finish reason last.
func chunksOf(s *Step, turn, step int) []*schema.Message {
	var out []*schema.Message
	for _, w := range strings.SplitAfter(s.Reasoning, " ") {
		if w != "" {
			out = append(out, &schema.Message{Role: schema.Assistant, ReasoningContent: w})
		}
	}
	for _, w := range strings.SplitAfter(s.Text, " ") {
		if w != "" {
			out = append(out, schema.AssistantMessage(w, nil))
		}
	}
	for i, c := range s.Calls {
		id := fmt.Sprintf("s%d-%d-%d", turn+1, step+1, i+1)
		if c.ID != nil {
			id = *c.ID
		}
		half := len(c.Arguments) / 2
		out = append(out,
			piece(i, id, c.Tool, c.Arguments[:half]), piece(i, "", "", c.Arguments[half:]))
	}
	if s.Cut {
		return out
	}
	usage := &schema.TokenUsage{PromptTokens: s.Usage.Input, CompletionTokens: s.Usage.Output, TotalTokens: s.Usage.Input + s.Usage.Output}
	return append(out, &schema.Message{Role: schema.Assistant, ResponseMeta: &schema.ResponseMeta{FinishReason: s.Finish, Usage: usage}})
}

func piece(index int, id, name, args string) *schema.Message {
	return schema.AssistantMessage("", []schema.ToolCall{{
		Index: &index, ID: id, Function: schema.FunctionCall{Name: name, Arguments: args},
	}})
}
