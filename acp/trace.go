package acp

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/propagation"
)

// withTrace makes ctx part of the trace that the root of a prompt's _meta
// names by W3C trace context. What is no such thing is left out.
func withTrace(ctx context.Context, meta json.RawMessage) context.Context {
	var members map[string]json.RawMessage
	if json.Unmarshal(meta, &members) != nil {
		return ctx
	}
	carrier := propagation.MapCarrier{}
	for _, key := range (propagation.TraceContext{}).Fields() {
		var value string
		if json.Unmarshal(members[key], &value) == nil {
			carrier[key] = value
		}
	}
	return propagation.TraceContext{}.Extract(ctx, carrier)
}
