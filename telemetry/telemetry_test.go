package telemetry_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"github.com/gth-server/gth-server/telemetry"
)

func TestSetup(t *testing.T) {
	tests := map[string]struct {
		env       map[string]string
		exporting bool
		err       string
	}{
		"nothing set":     {},
		"endpoint":        {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, exporting: true},
		"traces endpoint": {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/x"}, exporting: true},
		"disabled":        {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "TRUE"}},
		"none":            {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}},
		"grpc":            {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, err: "http/protobuf"},
		"console":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "console"}, err: "otlp or none"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			tel, err := telemetry.Setup(t.Context(), telemetry.Config{Getenv: getenv(tt.env)})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("Setup: error %v, want one that says %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tel.Exporting != tt.exporting {
				t.Errorf("Exporting = %v, want %v", tel.Exporting, tt.exporting)
			}
			_, span := tel.Tracer.Start(t.Context(), "probe")
			if span.IsRecording() != tt.exporting {
				t.Errorf("span records: %v, want %v", span.IsRecording(), tt.exporting)
			}
			if err := tel.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	goleak.VerifyNone(t)
}

// TestExport sends two nested spans to a collector and finds them there
// with the service's name.
func TestExport(t *testing.T) {
	var got atomic.Pointer[collector.ExportTraceServiceRequest]
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var req collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &req); err != nil {
			t.Errorf("collector: %v", err)
		}
		got.Store(&req)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer srv.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	tel, err := telemetry.Setup(t.Context(), telemetry.Config{Version: "9.9", Getenv: getenv(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": srv.URL})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, outer := tel.Tracer.Start(context.Background(), "outer")
	_, inner := tel.Tracer.Start(ctx, "inner", trace.WithSpanKind(trace.SpanKindInternal))
	inner.End()
	outer.End()
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	req := got.Load()
	if req == nil || len(req.ResourceSpans) != 1 || len(req.ResourceSpans[0].ScopeSpans[0].Spans) != 2 {
		t.Fatalf("collector got %v, want two spans", req)
	}
	if !strings.Contains(req.ResourceSpans[0].Resource.String(), "gth-server") {
		t.Errorf("resource does not name the service: %v", req.ResourceSpans[0].Resource)
	}
}

func getenv(m map[string]string) func(string) string { return func(k string) string { return m[k] } }
