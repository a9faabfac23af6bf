package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/gth-server/gth-server/runner/runnertest"
)

// spanCollector is an OTLP receiver on loopback.
type spanCollector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*trace.Span
}

func newCollector(t *testing.T) *spanCollector {
	c := &spanCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &req); err != nil {
			t.Errorf("collector: %v", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *spanCollector) named(name string) []*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*trace.Span
	for _, s := range c.spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// TestSpansOfATurn: the collector sees every part of one gated turn, joined
// in one trace, also when the run ends with an error code.
func TestSpansOfATurn(t *testing.T) {
	model := runnertest.NewServer(t)
	c := newCollector(t)
	dir := t.TempDir()
	prompt := `[{"calls":[{"tool":"list_directory","args":{"path":"."}},{"tool":"run_shell_command","args":{"command":"rm -rf / secret-word"}}]},
		{"calls":[{"tool":"run_shell_command","args":{"command":"touch secret-word"}}]}]`
	cmd := exec.Command(program(t), "run", "-q", "--model", "openai:fake", "--base-url", model.URL, "--cwd", dir, prompt)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL}
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != exitPerson {
		t.Fatalf("exit %d, %v\n%s", code, err, out)
	}
	turns := c.named("invoke_agent gth-server")
	if len(turns) != 1 {
		t.Fatalf("%d turn spans, want 1", len(turns))
	}
	want := map[string]int{"chat fake": 2, "execute_authorization": 3, "execute_tool list_directory": 1, "hardline-floor": 3, "deny-list": 3}
	for name, n := range want {
		if got := len(c.named(name)); got != n {
			t.Errorf("%d spans %q, want %d", got, name, n)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := map[string]string{}
	for _, s := range c.spans {
		ids[string(s.SpanId)] = s.Name
	}
	for _, s := range c.spans {
		if !slices.Equal(s.TraceId, turns[0].TraceId) {
			t.Errorf("span %q is in another trace", s.Name)
		}
		if len(s.ParentSpanId) > 0 && ids[string(s.ParentSpanId)] == "" {
			t.Errorf("span %q has an unknown parent", s.Name)
		}
		if strings.Contains(s.String(), "secret-word") {
			t.Errorf("span %q carries command text", s.Name)
		}
	}
	t.Logf("%d spans", len(c.spans))
}
