package runnertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// maxRequest bounds a request's body.
const maxRequest = 64 << 20

// Server is the fake. Its methods are safe for concurrent use.
type Server struct {
	// URL is the base URL for clients, with /v1.
	URL string
	// RequireKey answers 401 to requests with another bearer token; set it
	// before the first request.
	RequireKey string

	http    *httptest.Server
	closing chan struct{}
	mu      sync.Mutex
	scripts map[string][]Reply
	counts  map[string]int
	calls   int
	got     []Request
}

// NewServer starts a server on loopback that is closed at the end of tb.
func NewServer(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{scripts: map[string][]Reply{}, counts: map[string]int{}, closing: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.completions)
	mux.HandleFunc("GET /v1/models", s.models)
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL + "/v1"
	tb.Cleanup(func() {
		close(s.closing)
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Script sets what is played for a prompt, one reply for each step. Steps
// behind the last one are answered with a text.
func (s *Server) Script(prompt string, replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[prompt] = replies
}

// Requests returns the requests so far, in the order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.got...)
}

// Last returns the last request, or a zero one.
func (s *Server) Last() Request {
	all := s.Requests()
	if len(all) == 0 {
		return Request{}
	}
	return all[len(all)-1]
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{"id": "fake", "object": "model"}}})
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	var req Request
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&req); err != nil {
		fail(w, http.StatusBadRequest, "malformed request: "+err.Error())
		return
	}
	for i := range req.Messages {
		req.Messages[i].Content = contentText(req.Messages[i].RawContent)
	}
	req.Key = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	req.Traceparent = r.Header.Get("Traceparent")
	s.mu.Lock()
	s.got = append(s.got, req)
	s.mu.Unlock()
	if s.RequireKey != "" && req.Key != s.RequireKey {
		fail(w, http.StatusUnauthorized, "Incorrect API key provided")
		return
	}
	if msg := invalid(req); msg != "" {
		fail(w, http.StatusBadRequest, msg)
		return
	}
	prompt, step := req.Prompt()
	reply := s.reply(prompt, step)
	place := fmt.Sprintf("%d\x00%s", step, prompt)
	if !s.sleep(r, reply.Delay) {
		return
	}
	if reply.Status != 0 && s.left("status\x00"+place, reply.Times) {
		if reply.RetryAfter != "" {
			w.Header().Set("Retry-After", reply.RetryAfter)
		}
		fail(w, reply.Status, reply.Message)
		return
	}
	if !req.Stream {
		writeJSON(w, http.StatusOK, s.whole(req, reply))
		return
	}
	cut := reply.Cut
	if cut != 0 && !s.left("cut\x00"+place, reply.CutTimes) {
		cut = 0
	}
	s.stream(w, r, req, reply, cut)
}

// invalid holds a conversation to what OpenAI's server accepts: each tool
// call is followed by exactly one result.
func invalid(req Request) string {
	var open []string
	for _, m := range req.Messages {
		if m.Role == "tool" {
			if len(open) == 0 || open[0] != m.ToolCallID {
				return fmt.Sprintf("messages with role 'tool' must answer the preceding tool_calls in order: %q", m.ToolCallID)
			}
			open = open[1:]
			continue
		}
		if len(open) > 0 {
			return "tool_calls must be followed by tool messages: missing " + strings.Join(open, ", ")
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || !json.Valid([]byte(c.Function.Arguments)) {
				return fmt.Sprintf("tool call %q has no id or malformed arguments", c.ID)
			}
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		return "tool_calls must be followed by tool messages: missing " + strings.Join(open, ", ")
	}
	return ""
}

func (s *Server) reply(prompt string, step int) Reply {
	s.mu.Lock()
	replies, ok := s.scripts[prompt]
	s.mu.Unlock()
	if text := strings.TrimSpace(prompt); !ok && strings.HasPrefix(text, "[") {
		var own []Reply
		if json.Unmarshal([]byte(text), &own) == nil {
			replies, ok = own, true
		}
	}
	switch {
	case !ok:
		return Reply{Text: "You said: " + prompt}
	case step >= len(replies):
		return Reply{Text: "Done."}
	}
	return replies[step]
}

// left counts an event and reports whether it happens: always when times
// is 0, else the first times times.
func (s *Server) left(key string, times int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[key]++
	return times == 0 || s.counts[key] <= times
}

// sleep waits and reports whether the request is still wanted.
func (s *Server) sleep(r *http.Request, ms int) bool {
	if ms <= 0 {
		return true
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-s.closing:
	}
	return false
}

func (s *Server) id(c Call) string {
	if c.ID != nil {
		return *c.ID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return fmt.Sprintf("call_fake_%d", s.calls)
}

// contentText flattens both shapes of a message's content.
func contentText(v any) string {
	switch c := v.(type) {
	case string:
		return c
	case []any:
		var b strings.Builder
		for _, part := range c {
			if m, ok := part.(map[string]any); ok {
				text, _ := m["text"].(string)
				b.WriteString(text)
			}
		}
		return b.String()
	}
	return ""
}

func fail(w http.ResponseWriter, status int, message string) {
	if message == "" {
		message = http.StatusText(status)
	}
	writeJSON(w, status, map[string]any{"error": map[string]any{"message": message, "type": "fake_error", "code": nil}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
