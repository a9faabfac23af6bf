package scripted

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudwego/eino/schema"
	"go.uber.org/goleak"

	"github.com/gth-server/gth-server/runner/internal/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sample = `turns:
  - steps:
      - reasoning: think first
        text: reading now
        calls:
          - tool: read_file
            args: {path: a.txt, limit: 3}
          - tool: read_file
            raw: '{"path'
            id: ""
        usage: {input: 10, output: 4}
      - text: done
  - - text: second
`

func read(t *testing.T, m *Model, in ...*schema.Message) *schema.Message {
	t.Helper()
	stream, err := m.Stream(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var chunks []*schema.Message
	for {
		c, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, c)
	}
	msg, err := schema.ConcatMessages(chunks)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func TestThePlaceIsReadFromTheConversation(t *testing.T) {
	m, err := Open(sample)
	if err != nil {
		t.Fatal(err)
	}
	user := schema.UserMessage("go")
	first := read(t, m, user)
	if first.ReasoningContent != "think first" || first.Content != "reading now" || len(first.ToolCalls) != 2 {
		t.Fatalf("first step is %+v", first)
	}
	if c := first.ToolCalls[0]; c.ID != "s1-1-1" || c.Function.Arguments != `{"limit":3,"path":"a.txt"}` {
		t.Errorf("first call is %+v", c)
	}
	if c := first.ToolCalls[1]; c.ID != "" || c.Function.Arguments != `{"path` {
		t.Errorf("second call is %+v", c)
	}
	if u := first.ResponseMeta.Usage; u.PromptTokens != 10 || u.CompletionTokens != 4 {
		t.Errorf("usage is %+v", u)
	}
	second := read(t, m, user, first, schema.ToolMessage("x", "s1-1-1"))
	if second.Content != "done" || second.ResponseMeta.FinishReason != "stop" {
		t.Errorf("second step is %+v", second)
	}
	if got := read(t, m, user, first, second, user).Content; got != "second" {
		t.Errorf("second turn says %q", got)
	}
	if got := read(t, m, user, first, second, user, schema.AssistantMessage("second", nil)).Content; got != "The script ends here." {
		t.Errorf("past the end it says %q", got)
	}
	if _, err := m.Stream(t.Context(), []*schema.Message{user, user, user}); err == nil || !strings.Contains(err.Error(), "has 2 turns") {
		t.Errorf("third turn: %v", err)
	}
}

func TestErrorsAreCounted(t *testing.T) {
	m, err := Open("turns:\n- - text: ok\n    error: {status: 429, times: 2, retryAfter: 1s}\n")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var pe *provider.Error
		if _, err := m.Stream(t.Context(), nil); !errors.As(err, &pe) || pe.Status != 429 || pe.RetryAfter != time.Second {
			t.Fatalf("error is %v", err)
		}
	}
	if got := read(t, m).Content; got != "ok" {
		t.Fatalf("after the errors it says %q", got)
	}
}

func TestDelayAndPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := Open("turns:\n- - text: a b c\n    delay: 2s\n    pace: 100ms\n")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if got := read(t, m).Content; got != "a b c" {
			t.Errorf("text is %q", got)
		}
		if took := time.Since(start); took != 2300*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

func TestMistakesNameTheirLine(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{"empty", "\n", "script:1: the script has no turns"},
		{"no yaml", "turns: [\n", "line 1"},
		{"unknown key", "turns:\n- - txt: x\n", `script:2: step has no key "txt"`},
		{"unknown top key", "turn:\n- x\n", `script:1: script has no key "turn"`},
		{"no steps", "turns:\n- []\n", "script:2: a turn needs"},
		{"no tool", "turns:\n- - text: x\n    calls:\n    - args: {}\n", "script:4: a call needs the name"},
		{"bad args", "turns:\n- - calls:\n    - tool: t\n      args: [1]\n", "script:4: args must be a mapping"},
		{"bad finish", "turns:\n- - text: x\n    finish: done\n", `finish "done" is unknown`},
		{"bad duration", "turns:\n- - text: x\n    delay: 3\n", `script:3: "3" is no duration`},
		{"bad status", "turns:\n- - error: {status: 200}\n", "error status 200"},
		{"twice", "turns:\n- - text: x\n    text: y\n", `script:3: step has the key "text" twice`},
		{"list expected", "turns: x\n", "script:1: turns must be a list"},
		{"scalar expected", "turns:\n- - text: [x]\n", "script:2: a single value"},
	}
	for _, tt := range tests {
		if _, err := Parse("script", []byte(tt.script)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
	t.Logf("%d cases", len(tests))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("turns:\n- - calls:\n    - {tool: x, args: {a: [1, {b: c}]}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("f", text)
		if (s == nil) == (err == nil) {
			t.Fatalf("script %v and error %v", s, err)
		}
	})
}
