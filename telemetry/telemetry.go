// Package telemetry sets up the OpenTelemetry SDK; nothing else here may
// import the SDK.
//
// Guarantees:
//   - Nothing leaves the machine unless one of the standard variables names
//     an endpoint; without one the tracer is a no-op and costs next to
//     nothing.
//   - Nothing is printed to standard output, and no global provider is set:
//     whoever needs a tracer is given one.
//   - Shutdown sends what is still queued, within its context.
//
// Not guaranteed: that spans arrive. An exporter that cannot reach its
// endpoint drops them and tells Config.OnError.
//
// The variables are those of the OpenTelemetry specification; docs/telemetry.md
// lists the ones that are honoured and every span.
package telemetry

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Scope is the instrumentation scope of every span of ours.
const Scope = "github.com/gth-server/gth-server"

// Config says how to set up. Getenv is required.
type Config struct {
	Version string
	Getenv  func(string) string
	// OnError hears of exporter failures; nil drops them.
	OnError func(error)
}

// Telemetry is what a process uses to be observed.
type Telemetry struct {
	Tracer trace.Tracer
	// Exporting tells that an endpoint is set.
	Exporting bool
	shutdown  func(context.Context) error
}

// Setup reads the standard variables and returns a tracer. It returns an
// error, before anything is sent, for a protocol that is not built in.
// It sets the SDK's process-wide error handler, because the default one
// writes to standard error behind the caller's back.
func Setup(ctx context.Context, c Config) (*Telemetry, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if c.OnError != nil {
			c.OnError(err)
		}
	}))
	exporting, err := wantsTraces(c.Getenv)
	if err != nil {
		return nil, err
	}
	if !exporting {
		return &Telemetry{Tracer: noop.NewTracerProvider().Tracer(Scope)}, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("telemetry: cannot make the OTLP exporter: %w: check the OTEL_EXPORTER_OTLP_* variables", err)
	}
	res, err := describe(ctx, c)
	if err != nil {
		return nil, err
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(time.Second)),
		sdktrace.WithResource(res),
	)
	return &Telemetry{Tracer: provider.Tracer(Scope), Exporting: true, shutdown: provider.Shutdown}, nil
}

// Shutdown sends what is queued and stops the exporter. It is safe to call
// when nothing is exported.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t == nil || t.shutdown == nil {
		return nil
	}
	if err := t.shutdown(ctx); err != nil {
		return fmt.Errorf("telemetry: cannot send the last spans: %w", err)
	}
	return nil
}

// wantsTraces follows the specification's general and OTLP variables.
func wantsTraces(getenv func(string) string) (bool, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false, nil
	}
	if getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return false, nil
	}
	if e := getenv("OTEL_TRACES_EXPORTER"); e != "" && e != "otlp" {
		return false, fmt.Errorf("telemetry: OTEL_TRACES_EXPORTER is %q: use otlp or none", e)
	}
	protocol := getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("telemetry: OTLP protocol %q is not built in: set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf", protocol)
	}
	return true, nil
}

func describe(ctx context.Context, c Config) (*resource.Resource, error) {
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", "gth-server"),
			attribute.String("service.version", c.Version),
		),
		resource.WithFromEnv(), // OTEL_SERVICE_NAME wins over ours
	)
	if err != nil {
		return nil, fmt.Errorf("telemetry: cannot read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return res, nil
}
