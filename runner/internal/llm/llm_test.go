package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/gth-server/gth-server/runner/internal/provider"
	"github.com/gth-server/gth-server/runner/internal/provider/scripted"
)

// seen records what a watcher saw.
type seen struct {
	begun, broken int
	text          strings.Builder
}

func (s *seen) Begin()           { s.begun++; s.text.Reset() }
func (s *seen) Text(t string)    { s.text.WriteString(t) }
func (s *seen) Reasoning(string) {}
func (s *seen) Broken()          { s.broken++ }

func client(m model.ToolCallingChatModel, r Retry) *Client {
	return &Client{Model: m, Label: "test:model", Retry: r, Tracer: noop.NewTracerProvider().Tracer(""), Logger: slog.New(slog.DiscardHandler)}
}

func open(t *testing.T, script string) *scripted.Model {
	t.Helper()
	m, err := scripted.Open(script)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ask(ctx context.Context, c *Client, w Watcher) (Reply, error) {
	return c.Ask(ctx, c.Model, []*schema.Message{schema.UserMessage("hi")}, w)
}

func TestRetriesAndTheirWaits(t *testing.T) {
	tests := []struct {
		name     string
		script   string
		retry    Retry
		attempts int
		min, max time.Duration
		fails    string // part of the error, empty for success
	}{
		{"rate limit, own waits", "turns:\n- - text: ok\n    error: {status: 429, times: 3}\n", Retry{}, 4, 3150 * time.Millisecond, 3850 * time.Millisecond, ""},
		{"server's wish is honoured", "turns:\n- - text: ok\n    error: {status: 503, times: 2, retryAfter: 7s}\n", Retry{}, 3, 14 * time.Second, 14 * time.Second, ""},
		{"wish over the budget fails at once", "turns:\n- - text: ok\n    error: {status: 429, retryAfter: 10m}\n", Retry{}, 1, 0, 0, "wait 10m0s"},
		{"attempts end", "turns:\n- - text: ok\n    error: {status: 500, message: broken}\n", Retry{}, 5, 6750 * time.Millisecond, 8250 * time.Millisecond, "failed 5 times"},
		{"budget ends", "turns:\n- - text: ok\n    error: {status: 500}\n", Retry{Attempts: 100, Budget: 3 * time.Second}, 3, 1350 * time.Millisecond, 1650 * time.Millisecond, "again later"},
		{"a bad request is not repeated", "turns:\n- - text: ok\n    error: {status: 400, message: bad}\n", Retry{}, 1, 0, 0, "does not accept"},
		{"a refused key is not repeated", "turns:\n- - text: ok\n    error: {status: 401}\n", Retry{}, 1, 0, 0, "check the API key"},
		{"cut streams are repeated", "turns:\n- - text: half\n    cut: true\n", Retry{Attempts: 3}, 3, 1350 * time.Millisecond, 1650 * time.Millisecond, "cut off"},
		{"an empty answer is repeated once", "turns:\n- - text: \"\"\n", Retry{}, 2, 0, 0, "answered with nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &seen{}
				start := time.Now()
				reply, err := ask(t.Context(), client(open(t, tt.script), tt.retry), w)
				took := time.Since(start)
				if w.begun != tt.attempts {
					t.Errorf("%d attempts, want %d", w.begun, tt.attempts)
				}
				if took < tt.min || took > tt.max {
					t.Errorf("took %s, want %s to %s", took, tt.min, tt.max)
				}
				if tt.fails == "" {
					if err != nil || reply.Message.Content != "ok" {
						t.Fatalf("reply %+v, error %v", reply.Message, err)
					}
					return
				}
				var f *Failure
				if !errors.As(err, &f) || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("error %v, want one with %q", err, tt.fails)
				}
				if w.broken != tt.attempts {
					t.Errorf("%d attempts broken of %d", w.broken, tt.attempts)
				}
			})
		})
	}
	t.Logf("%d cases", len(tests))
}

func TestCancelDuringWaitEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(200*time.Millisecond, func() { cancel(cause) })
		start := time.Now()
		_, err := ask(ctx, client(open(t, "turns:\n- - error: {status: 429, retryAfter: 30s}\n"), Retry{}), &seen{})
		if !errors.Is(err, cause) || time.Since(start) != 200*time.Millisecond {
			t.Fatalf("error %v after %s", err, time.Since(start))
		}
	})
}

func TestCancelInStreamEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(25*time.Millisecond, cancel)
		w := &seen{}
		_, err := ask(ctx, client(open(t, "turns:\n- - text: one two three four\n    pace: 10ms\n"), Retry{}), w)
		if !errors.Is(err, context.Canceled) || w.text.String() != "one two three " || w.broken != 1 {
			t.Fatalf("error %v, text %q, broken %d", err, w.text.String(), w.broken)
		}
	})
}

func TestTemporary(t *testing.T) {
	tests := []struct {
		err  error
		want bool
	}{
		{&provider.Error{Status: 429}, true},
		{&provider.Error{Status: 500}, true},
		{&provider.Error{Status: 529}, true},
		{&provider.Error{Status: 501}, false},
		{&provider.Error{Status: 404}, false},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true},
		{fmt.Errorf("read: %w", syscall.ECONNRESET), true},
		{provider.ErrSilent, false},
		{errLong, false},
		{errors.New("something else"), false},
	}
	for _, tt := range tests {
		if got := temporary(tt.err); got != tt.want {
			t.Errorf("temporary(%v) is %v, want %v", tt.err, got, tt.want)
		}
	}
}

func at(i int) *int { return &i }

func part(index *int, id, name, args string) schema.ToolCall {
	return schema.ToolCall{Index: index, ID: id, Function: schema.FunctionCall{Name: name, Arguments: args}}
}

func TestCallsAreJoinedAsSent(t *testing.T) {
	tests := []struct {
		name  string
		parts []schema.ToolCall
		want  []string // id name args
	}{
		{"usual", []schema.ToolCall{part(at(0), "a", "f", ""), part(at(0), "", "", `{"x"`), part(at(0), "", "", `:1}`)}, []string{`a f {"x":1}`}},
		{"interleaved", []schema.ToolCall{part(at(0), "a", "f", `{`), part(at(1), "b", "g", `{`), part(at(0), "", "", `}`), part(at(1), "", "", ` }`)}, []string{"a f {}", "b g { }"}},
		{"same id, two indexes", []schema.ToolCall{part(at(0), "a", "f", `{}`), part(at(1), "a", "g", `{}`)}, []string{"a f {}", "a g {}"}},
		{"index 0 for all, ids differ", []schema.ToolCall{part(at(0), "a", "f", `{}`), part(at(0), "b", "g", `{}`)}, []string{"a f {}", "b g {}"}},
		{"index 0 for all, no ids", []schema.ToolCall{part(at(0), "", "f", `{}`), part(at(0), "", "f", `{"y":2}`)}, []string{" f {}", ` f {"y":2}`}},
		{"no index, whole calls", []schema.ToolCall{part(nil, "", "f", `{}`), part(nil, "", "g", `{}`)}, []string{" f {}", " g {}"}},
		{"no index, pieces", []schema.ToolCall{part(nil, "a", "f", `{"x"`), part(nil, "", "", `:1}`)}, []string{`a f {"x":1}`}},
		{"id repeated in each piece", []schema.ToolCall{part(at(0), "a", "f", `{`), part(at(0), "a", "f", `}`)}, []string{"a f {}"}},
		{"name changes: no known tool", []schema.ToolCall{part(at(0), "a", "f", `{`), part(at(0), "", "g", `}`)}, []string{"a fg {}"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c calls
			for _, p := range tt.parts {
				c.add(p)
			}
			var got []string
			for _, m := range c.message() {
				got = append(got, m.ID+" "+m.Function.Name+" "+m.Function.Arguments)
			}
			if strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Logf("%d cases", len(tests))
}
