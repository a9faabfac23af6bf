package runnertest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gth-server/gth-server/runner/runnertest"
)

func post(t *testing.T, s *runnertest.Server, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func body(t *testing.T, stream bool, messages ...map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"model": "m", "stream": stream, "messages": messages})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestThePromptCanBeTheScript(t *testing.T) {
	s := runnertest.NewServer(t)
	user := map[string]any{"role": "user", "content": `[{"text":"one"},{"text":"two"}]`}
	said := map[string]any{"role": "assistant", "content": "one"}
	for i, want := range []string{"one", "two", "Done."} {
		msgs := []map[string]any{user}
		for range i {
			msgs = append(msgs, said)
		}
		if code, got := post(t, s, body(t, false, msgs...)); code != 200 || !strings.Contains(got, `"content":"`+want+`"`) {
			t.Errorf("step %d: %d %s", i, code, got)
		}
	}
	if got := s.Last(); len(s.Requests()) != 3 || len(got.Messages) != 3 {
		t.Errorf("recorded %+v", got)
	}
}

func TestConversationsAreChecked(t *testing.T) {
	s := runnertest.NewServer(t)
	asked := map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": "a", "function": map[string]any{"name": "f", "arguments": "{}"}}}}
	user := map[string]any{"role": "user", "content": "x"}
	if code, got := post(t, s, body(t, false, user, asked, user)); code != 400 || !strings.Contains(got, "must be followed") {
		t.Errorf("a missing result: %d %s", code, got)
	}
	if code, got := post(t, s, body(t, false, user, map[string]any{"role": "tool", "tool_call_id": "b", "content": "x"})); code != 400 {
		t.Errorf("a result without a call: %d %s", code, got)
	}
	if code, _ := post(t, s, "{"); code != 400 {
		t.Errorf("malformed JSON: %d", code)
	}
}

func TestStreamsEndWithDone(t *testing.T) {
	s := runnertest.NewServer(t)
	s.Script("x", runnertest.Reply{Text: "a b", Calls: []runnertest.Call{runnertest.Shell("ls")}, Usage: &runnertest.Usage{Input: 1}})
	_, got := post(t, s, body(t, true, map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "x"}}}))
	if !strings.HasSuffix(got, "data: [DONE]\n\n") || !strings.Contains(got, `"finish_reason":"tool_calls"`) || !strings.Contains(got, `"prompt_tokens":1`) {
		t.Errorf("stream is %s", got)
	}
	for line := range bytes.Lines([]byte(got)) {
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok && string(data) != "[DONE]" && !json.Valid(data) {
			t.Errorf("chunk is %s", data)
		}
	}
}
