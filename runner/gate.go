package runner

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/gth-server/gth-server/approvals"
)

// Rater asks a model what a call is. Its failures are part of the rating.
// Rate must be safe for concurrent use and honour ctx.
type Rater interface {
	Rate(ctx context.Context, in approvals.RatingInput) approvals.Rating
}

// Gate decides calls: it evaluates, rates at most once, evaluates again and
// records a span per decision and per stage. Safe for concurrent use.
type Gate struct {
	rater  Rater
	tracer trace.Tracer
}

// NewGate returns a gate. A nil rater rates nothing, so that calls which
// need a rating ask; a nil tracer records nothing.
func NewGate(rater Rater, tracer trace.Tracer) *Gate {
	if tracer == nil {
		tracer = noop.NewTracerProvider().Tracer("")
	}
	return &Gate{rater: rater, tracer: tracer}
}

// Decide judges a call. It never waits for a person.
func (g *Gate) Decide(ctx context.Context, r *approvals.Reading, p approvals.Posture) approvals.Verdict {
	d := g.open(ctx, r, p)
	d.close()
	return d.verdict
}

// decision is one verdict with its span, which stays open while a person
// is asked.
type decision struct {
	gate    *Gate
	ctx     context.Context // of the span
	span    trace.Span
	verdict approvals.Verdict
	started time.Time
	took    time.Duration // without the time a person took
}

func (g *Gate) open(ctx context.Context, r *approvals.Reading, p approvals.Posture) *decision {
	d := &decision{gate: g, started: time.Now()}
	d.ctx, d.span = g.tracer.Start(ctx, "execute_authorization")
	first := approvals.Evaluate(r, p, nil)
	evaluated := time.Now()
	d.verdict = first
	rated := evaluated
	if first.Action == approvals.Rate {
		rating := g.rate(d.ctx, first.Rate)
		rated = time.Now()
		d.verdict = approvals.Evaluate(r, p, &rating)
		if d.verdict.Action == approvals.Rate {
			d.verdict = undecided(d.verdict)
		}
	}
	d.report(r, p, evaluated, rated)
	return d
}

// again judges a call with the rating that it had before, if any.
func (g *Gate) again(ctx context.Context, r *approvals.Reading, p approvals.Posture, rating *approvals.Rating) *decision {
	d := &decision{gate: g, started: time.Now()}
	d.ctx, d.span = g.tracer.Start(ctx, "execute_authorization")
	d.verdict = approvals.Evaluate(r, p, rating)
	evaluated := time.Now()
	d.report(r, p, evaluated, evaluated)
	return d
}

// report records the stages that ran.
func (d *decision) report(r *approvals.Reading, p approvals.Posture, evaluated, rated time.Time) {
	d.took = time.Since(d.started)
	d.describe(r, p)
	for _, s := range d.verdict.Stages {
		from, to := d.started, evaluated
		if s.Stage == approvals.StageRater || s.Stage == approvals.StageAllowTripwire {
			from, to = evaluated, rated
		}
		d.stage(s, from, to)
	}
}

// rate makes the one rating call. Without a rater there is no verdict,
// which is never an outcome.
func (g *Gate) rate(ctx context.Context, in *approvals.RatingInput) approvals.Rating {
	if g.rater == nil || in == nil {
		return approvals.Rating{Failure: "no-model", Detail: "no rater is configured"}
	}
	return g.rater.Rate(ctx, *in)
}

// undecided closes a decision that still wants a rating after it got one.
func undecided(v approvals.Verdict) approvals.Verdict {
	v.Action = approvals.Reject
	v.Message = "The call was refused: no decision could be reached on it. Try a different call or ask the user."
	return v
}

// settle adds the time a person took and what the answer became.
func (d *decision) settle(asked time.Time, s approvals.Decision, a approvals.Answer) {
	now := time.Now()
	d.stage(approvals.StageResult{Stage: approvals.StageAsk, Result: a.Choice.String()}, asked, now)
	d.stage(approvals.StageResult{Stage: approvals.StageSettle, Result: s.Action.String(), Detail: s.Scope.String()}, now, now)
	if d.span.IsRecording() {
		d.span.SetAttributes(attribute.String("gth.answer", a.Choice.String()), attribute.String("gth.settled", s.Action.String()))
	}
}

func (d *decision) close() { d.span.End() }

// stage records one stage as a child span. Details are left out: they may
// quote the command.
func (d *decision) stage(s approvals.StageResult, from, to time.Time) {
	_, span := d.gate.tracer.Start(d.ctx, string(s.Stage), trace.WithTimestamp(from))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("gth.stage", string(s.Stage)), attribute.String("gth.result", s.Result))
	}
	span.End(trace.WithTimestamp(to))
}

// describe puts names and kinds on the span, never the text of a command.
func (d *decision) describe(r *approvals.Reading, p approvals.Posture) {
	if !d.span.IsRecording() {
		return
	}
	call, v := r.Call(), d.verdict
	attrs := []attribute.KeyValue{
		attribute.String("gen_ai.tool.name", call.Tool),
		attribute.String("gen_ai.tool.call.id", call.ID),
		attribute.String("gth.rung", p.Rung.String()),
		attribute.String("gth.subject.kind", string(r.Subject().Kind)),
		attribute.String("gth.action", v.Action.String()),
		attribute.String("gth.stage", string(v.Stage)),
	}
	if v.Floor != nil {
		attrs = append(attrs, attribute.String("gth.floor", v.Floor.Family))
	}
	if v.Rule != nil {
		attrs = append(attrs, attribute.String("gth.rule.list", v.Rule.List), attribute.String("gth.rule.source", v.Rule.Source))
	}
	if v.Rating != nil {
		attrs = append(attrs, attribute.String("gth.rating.outcome", v.Rating.Outcome.String()), attribute.String("gth.rating.failure", v.Rating.Failure))
	}
	programs, kinds := summary(r.Effects())
	d.span.SetAttributes(append(attrs, attribute.StringSlice("gth.programs", programs), attribute.StringSlice("gth.effects", kinds))...)
}

// maxPrograms bounds what one span says of a long script.
const maxPrograms = 32

// summary returns the base names of the static programs and the kinds of
// effects, each once, in order.
func summary(effects []approvals.Effect) (programs, kinds []string) {
	for _, e := range effects {
		if k := e.Kind.String(); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
		if len(e.Argv) == 0 || !e.Argv[0].Static || len(programs) == maxPrograms {
			continue
		}
		name := path.Base(strings.ToValidUTF8(e.Argv[0].Text, "\uFFFD"))
		if len(name) <= 64 && !slices.Contains(programs, name) {
			programs = append(programs, name)
		}
	}
	return programs, kinds
}
