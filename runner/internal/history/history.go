// Package history turns a session's log into what the model reads.
//
// Guarantees: every tool call in the result has exactly one tool message
// behind it, also when the log ends in the middle of a step; user and
// assistant messages alternate, as the stricter chat templates want it;
// reasoning is repeated to the model inside the turn it belongs to only.
// It reads records and decides nothing.
package history

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cloudwego/eino/schema"

	"github.com/gth-server/gth-server/session"
)

// What the model reads where a call or a turn has no result of its own.
const (
	neverRan   = "The call did not run: the turn ended first."
	unknown    = "The outcome of this call is unknown: the server stopped while it ran. It is not repeated. Look at the state of things before you go on."
	noAnswer   = "(The turn ended before an answer.)"
	goOn       = "(Go on.)"
	stopMarker = "\n(The answer was broken off here.)"
)

// Builder builds the history of one session, incrementally. It is not safe
// for concurrent use.
type Builder struct {
	msgs     []*schema.Message
	read     int // records taken in
	results  map[string]*schema.Message
	thinking int    // index of the first message of the running turn
	open     bool   // a turn runs whose prompt has no answer yet
	partial  string // text of a broken answer without a step behind it
}

// New returns a builder that begins with a system message.
func New(system string) *Builder {
	b := &Builder{results: map[string]*schema.Message{}}
	if system != "" {
		b.msgs = append(b.msgs, schema.SystemMessage(system))
	}
	return b
}

// Update takes in the records that are new since the last call. records is
// the whole log.
func (b *Builder) Update(records []session.Record) error {
	for ; b.read < len(records); b.read++ {
		if err := b.add(records[b.read].Event); err != nil {
			return fmt.Errorf("log record %d: %w", records[b.read].Seq, err)
		}
	}
	return nil
}

// Messages returns the history. The caller must not change it, and it is
// good until the next Update.
func (b *Builder) Messages() []*schema.Message { return b.msgs }

// HasCall reports whether a call of that id is in the history.
func (b *Builder) HasCall(id string) bool { return b.results[id] != nil }

// Calls returns the number of calls in the history.
func (b *Builder) Calls() int { return len(b.results) }

func (b *Builder) add(ev session.Event) error {
	switch e := ev.(type) {
	case session.TurnStarted:
		b.endTurn()
		if e.Continues {
			b.goOn()
			return nil
		}
		for _, m := range b.msgs[b.thinking:] {
			m.ReasoningContent = ""
		}
		b.thinking = len(b.msgs)
		b.msgs = append(b.msgs, schema.UserMessage(PromptText(e.Prompt)))
		b.open = true
	case session.TurnEnded:
		b.endTurn()
	case session.Text:
		if e.Partial {
			b.partial = e.Text
		}
	case session.Step:
		return b.step(e)
	case session.CallExecuting:
		b.result(e.CallID, unknown)
	case session.CallEnded:
		b.result(e.CallID, e.Result)
	}
	return nil
}

// goOn continues where the model stopped: behind the results of its calls,
// whose reasoning stays. Behind an answer it gets something to answer.
func (b *Builder) goOn() {
	if n := len(b.msgs); n == 0 || b.msgs[n-1].Role != schema.Tool {
		b.msgs = append(b.msgs, schema.UserMessage(goOn))
		b.open = true
	}
}

func (b *Builder) step(e session.Step) error {
	m := &schema.Message{}
	if err := json.Unmarshal(e.Message, m); err != nil {
		return fmt.Errorf("model message of step %d: %w", e.Number, err)
	}
	b.partial = ""
	if m.Content == "" && len(m.ToolCalls) == 0 {
		return nil
	}
	b.open = false
	b.msgs = append(b.msgs, m)
	for _, c := range m.ToolCalls {
		r := schema.ToolMessage(neverRan, c.ID, schema.WithToolName(c.Function.Name))
		b.results[c.ID] = r
		b.msgs = append(b.msgs, r)
	}
	return nil
}

func (b *Builder) result(id, text string) {
	if m := b.results[id]; m != nil {
		if text == "" {
			text = "(no output)"
		}
		m.Content = text
	}
}

// endTurn gives a turn without a whole answer something that stands for it.
func (b *Builder) endTurn() {
	switch {
	case b.partial != "":
		b.msgs = append(b.msgs, schema.AssistantMessage(b.partial+stopMarker, nil))
	case b.open:
		b.msgs = append(b.msgs, schema.AssistantMessage(noAnswer, nil))
	}
	b.open, b.partial = false, ""
}

// PromptText is a prompt as the model reads it.
func PromptText(blocks []session.Block) string {
	var parts []string
	for _, b := range blocks {
		switch b.Type {
		case "text":
			parts = append(parts, b.Text)
		case "resource_link":
			name := b.Name
			if name == "" {
				name = b.URI
			}
			parts = append(parts, fmt.Sprintf("[%s](%s)", name, b.URI))
		}
	}
	return strings.Join(parts, "\n")
}
