package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/eino/schema"
	"go.uber.org/goleak"

	"github.com/gth-server/gth-server/runner/internal/provider"
	"github.com/gth-server/gth-server/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newModel(t *testing.T, c Config) *Model {
	t.Helper()
	c.Name = "fake"
	m, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func TestStreamsAnAnswer(t *testing.T) {
	srv := runnertest.NewServer(t)
	srv.RequireKey = "k"
	srv.Script("hi", runnertest.Reply{Reasoning: "let me", Text: "hello there", Calls: []runnertest.Call{runnertest.Shell("ls")}, Usage: &runnertest.Usage{Input: 7, Output: 3, Cached: 2, Reasoning: 1}})
	m := newModel(t, Config{BaseURL: srv.URL, APIKey: "k"})
	stream, err := m.Stream(t.Context(), []*schema.Message{schema.UserMessage("hi")})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := schema.ConcatMessageStream(stream)
	if err != nil {
		t.Fatal(err)
	}
	if msg.Content != "hello there" || msg.ReasoningContent != "let me" || len(msg.ToolCalls) != 1 || msg.ToolCalls[0].Function.Arguments != `{"command":"ls"}` {
		t.Errorf("message is %+v", msg)
	}
	u := msg.ResponseMeta.Usage
	if msg.ResponseMeta.FinishReason != "tool_calls" || u.PromptTokens != 7 || u.CompletionTokens != 3 || u.PromptTokenDetails.CachedTokens != 2 || u.CompletionTokensDetails.ReasoningTokens != 1 {
		t.Errorf("meta is %+v, usage %+v", msg.ResponseMeta, u)
	}
}

func TestErrorsCarryStatusAndWait(t *testing.T) {
	srv := runnertest.NewServer(t)
	srv.Script("limit", runnertest.Reply{Status: 429, RetryAfter: "7", Message: "slow down"})
	srv.Script("auth", runnertest.Reply{Status: 401, Message: "no"})
	m := newModel(t, Config{BaseURL: srv.URL + "/"})
	var pe *provider.Error
	_, err := m.Stream(t.Context(), []*schema.Message{schema.UserMessage("limit")})
	if !errors.As(err, &pe) || pe.Status != 429 || pe.RetryAfter != 7*time.Second || pe.Message != "slow down" {
		t.Errorf("error is %v (%+v)", err, pe)
	}
	_, err = m.Generate(t.Context(), []*schema.Message{schema.UserMessage("auth")})
	if !errors.As(err, &pe) || pe.Status != 401 {
		t.Errorf("error is %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	hit := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit = true }))
	defer other.Close()
	srv := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	_, err := newModel(t, Config{BaseURL: srv.URL, APIKey: "secret"}).Stream(t.Context(), []*schema.Message{schema.UserMessage("x")})
	var pe *provider.Error
	if !errors.As(err, &pe) || pe.Status != 307 || hit {
		t.Fatalf("error is %v, followed %v", err, hit)
	}
}

func TestASilentServerFails(t *testing.T) {
	srv := runnertest.NewServer(t)
	srv.Script("before", runnertest.Reply{Delay: 60_000})
	srv.Script("within", runnertest.Reply{Text: "one", Hang: true})
	m := newModel(t, Config{BaseURL: srv.URL, Timeout: 50 * time.Millisecond})
	if _, err := m.Stream(t.Context(), []*schema.Message{schema.UserMessage("before")}); !errors.Is(err, provider.ErrSilent) {
		t.Errorf("silence before the answer: %v", err)
	}
	stream, err := m.Stream(t.Context(), []*schema.Message{schema.UserMessage("within")})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, provider.ErrSilent) {
		t.Errorf("silence within the answer: %v", err)
	}
}

func TestACutStreamIsNoEnd(t *testing.T) {
	srv := runnertest.NewServer(t)
	srv.Script("x", runnertest.Reply{Text: "one two three", Cut: 2})
	stream, err := newModel(t, Config{BaseURL: srv.URL}).Stream(t.Context(), []*schema.Message{schema.UserMessage("x")})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("the stream ended as if whole: %v", err)
	}
}

func TestConfiguration(t *testing.T) {
	tests := []struct {
		c    Config
		want string
	}{
		{Config{}, "no model name"},
		{Config{Name: "m"}, "no API key"},
		{Config{Name: "m", BaseURL: "localhost:80"}, "not usable"},
		{Config{Name: "m", BaseURL: "http://u:p@h/v1"}, "has a user"},
		{Config{Name: "m", BaseURL: "ftp://h"}, "not usable"},
	}
	for _, tt := range tests {
		if _, err := New(context.Background(), tt.c); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%+v: error %v, want %q", tt.c, err, tt.want)
		}
	}
	for in, want := range map[string]string{
		"http://h/v1/": "http://h/v1", "http://h/v1/chat/completions": "http://h/v1", "": defaultBaseURL,
	} {
		if got, err := baseURL(in); err != nil || got != want {
			t.Errorf("baseURL(%q) is %q, %v", in, got, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		header http.Header
		want   time.Duration
	}{
		{http.Header{}, 0},
		{http.Header{"Retry-After": {"2"}}, 2 * time.Second},
		{http.Header{"Retry-After": {"0.5"}}, 500 * time.Millisecond},
		{http.Header{"Retry-After": {"-3"}}, 0},
		{http.Header{"Retry-After": {"soon"}}, 0},
		{http.Header{"Retry-After": {"NaN"}}, 0},
		{http.Header{"Retry-After": {now.Add(time.Minute).Format(http.TimeFormat)}}, time.Minute},
		{http.Header{"Retry-After": {now.Add(-time.Minute).Format(http.TimeFormat)}}, 0},
		{http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"9"}}, 250 * time.Millisecond},
	}
	for _, tt := range tests {
		if got := retryAfter(tt.header, now); got != tt.want {
			t.Errorf("retryAfter(%v) is %s, want %s", tt.header, got, tt.want)
		}
	}
}

func TestMessageShapes(t *testing.T) {
	for raw, want := range map[string]string{
		`{"error":{"message":"a\n b"}}`: "a b",
		`{"error":"plain"}`:             "plain",
		`{"message":"top"}`:             "top",
		`{"detail":"fast"}`:             "fast",
		"<html>oops</html>":             "<html>oops</html>",
		"":                              "",
	} {
		if got := message([]byte(raw)); got != want {
			t.Errorf("message(%s) is %q, want %q", raw, got, want)
		}
	}
}
