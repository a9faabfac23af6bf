package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cloudwego/eino/components/model"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner"
	"github.com/gth-server/gth-server/runner/runnertest"
	"github.com/gth-server/gth-server/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a session manager with real sessions, runners, tools and store,
// and a fake model server.
type world struct {
	tb    testing.TB
	srv   *runnertest.Server
	dir   string
	m     *session.Manager
	store session.Store
	spans *tracetest.SpanRecorder
	sess  *session.Session
}

// setup changes what a world is made from.
type setup struct {
	rung    approvals.Rung
	rules   approvals.Rules
	rater   runner.Rater
	options func(*runner.Options)
	wrap    func(session.Store) session.Store
	script  string // plays a scripted model instead of the fake server
}

func newWorld(tb testing.TB, s setup) *world {
	tb.Helper()
	w := &world{tb: tb, dir: tb.TempDir(), spans: tracetest.NewSpanRecorder()}
	conf := runner.ModelConfig{Provider: "scripted", Script: s.script}
	if s.script == "" {
		w.srv = runnertest.NewServer(tb)
		conf = runner.ModelConfig{Provider: "openai", Name: "fake", BaseURL: w.srv.URL}
	}
	mdl, err := runner.NewModel(tb.Context(), conf)
	if err != nil {
		tb.Fatal(err)
	}
	policy, err := approvals.Compile(s.rules)
	if err != nil {
		tb.Fatal(err)
	}
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans)).Tracer("test")
	w.store = session.NewMemory()
	if s.wrap != nil {
		w.store = s.wrap(w.store)
	}
	w.m = session.NewManager(context.WithoutCancel(tb.Context()), session.Options{Store: w.store, NewRunner: func(ctx context.Context, sp session.Spec) (session.Runner, error) {
		o := runner.Options{
			Model: mdl, ModelLabel: "openai:fake", Policy: policy, Rater: s.rater, Tracer: tracer,
			Place:    approvals.Place{Cwd: sp.Cwd, Home: "/nowhere", User: "tester", Roots: []string{sp.Cwd}},
			Env:      harmlessEnv(tb),
			SpillDir: filepath.Join(w.dir, "spill"),
			Retry:    runner.Retry{First: time.Millisecond},
		}
		if s.options != nil {
			s.options(&o)
		}
		return runner.New(ctx, o)
	}})
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := w.m.Close(ctx); err != nil {
			tb.Errorf("close the manager: %v", err)
		}
		closeModel(mdl)
	})
	work := filepath.Join(w.dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		tb.Fatal(err)
	}
	w.dir = work
	w.sess, err = w.m.Create(tb.Context(), session.Spec{Cwd: work, Surface: "test", Rung: s.rung})
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// harmlessEnv has a PATH on which rm only leaves a mark, so that a broken
// guard deletes nothing.
func harmlessEnv(tb testing.TB) []string {
	tb.Helper()
	bin := tb.TempDir()
	script := "#!/bin/sh\n: > " + filepath.Join(bin, "rm-was-run") + "\n"
	if err := os.WriteFile(filepath.Join(bin, "rm"), []byte(script), 0o755); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(bin, "rm-was-run")); err == nil {
			tb.Error("rm was run")
		}
	})
	return []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
}

func closeModel(m model.ToolCallingChatModel) {
	if c, ok := m.(io.Closer); ok {
		_ = c.Close()
	}
}

func (w *world) write(name, content string) {
	w.tb.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o644); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(w.dir, name))
	return err == nil
}

func prompt(text string, on session.OnAsk) session.Prompt {
	return session.Prompt{Blocks: []session.Block{{Type: "text", Text: text}}, By: "test", OnAsk: on}
}

// turn is what a turn left behind.
type turn struct {
	records []session.Record // stored ones
	live    []session.Event
	end     session.TurnEnded
}

// answerer is called for each ask while a turn runs; nil leaves it open.
type answerer func(approvals.Request) *approvals.Answer

// play runs a turn to its end.
func (w *world) play(p session.Prompt, answers answerer) turn {
	w.tb.Helper()
	t, err := w.follow(p, answers, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	checkEnds(w.tb, t)
	return t
}

func (w *world) follow(p session.Prompt, answers answerer, started func()) (t turn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	sub := w.sess.Subscribe(w.lastSeq())
	defer sub.Close()
	id, err := w.sess.Start(ctx, p)
	if err != nil {
		return t, fmt.Errorf("start: %w", err)
	}
	if started != nil {
		started()
	}
	for {
		r, err := sub.Next(ctx)
		if err != nil {
			return t, fmt.Errorf("next record after %d: %w", len(t.records), err)
		}
		if r.Seq == 0 {
			t.live = append(t.live, r.Event)
			continue
		}
		t.records = append(t.records, r)
		switch e := r.Event.(type) {
		case session.Asked:
			if answers == nil {
				continue
			}
			if a := answers(e.Request); a != nil {
				if _, err := w.sess.Answer(ctx, e.Request.ID, *a); err != nil && !errors.Is(err, session.ErrConflict) {
					return t, err
				}
			}
		case session.TurnEnded:
			if e.ID == id {
				t.end = e
				return t, w.sess.Wait(ctx)
			}
		}
	}
}

func (w *world) lastSeq() session.Seq {
	recs, err := w.store.After(context.Background(), w.sess.ID(), 0, 0)
	if err != nil {
		w.tb.Fatal(err)
	}
	if len(recs) == 0 {
		return 0
	}
	return recs[len(recs)-1].Seq
}

func allow(approvals.Request) *approvals.Answer {
	return &approvals.Answer{Choice: approvals.AllowOnce}
}

func deny(approvals.Request) *approvals.Answer {
	return &approvals.Answer{Choice: approvals.RejectOnce}
}

// checkEnds holds a turn to the promise that every announced call ends
// once, and that nothing started without a decision.
func checkEnds(tb testing.TB, t turn) {
	tb.Helper()
	open := map[string]bool{}
	decided := map[string]bool{}
	for _, r := range t.records {
		switch e := r.Event.(type) {
		case session.CallAnnounced:
			if open[e.Call.ID] {
				tb.Errorf("call %s was announced twice", e.Call.ID)
			}
			open[e.Call.ID] = true
		case session.Decided:
			decided[e.CallID] = e.Verdict.Action == approvals.Approve || e.Decision != nil && e.Decision.Action == approvals.Approve
		case session.CallExecuting:
			if !decided[e.CallID] {
				tb.Errorf("call %s started without an approval", e.CallID)
			}
		case session.CallEnded:
			if !open[e.CallID] {
				tb.Errorf("call %s ended without being open", e.CallID)
			}
			delete(open, e.CallID)
		}
	}
	if len(open) > 0 {
		tb.Errorf("calls without an end: %v", open)
	}
}

// ends returns the ends of calls in the order in which they were announced.
func (t turn) ends() []session.CallEnded {
	var order []string
	by := map[string]session.CallEnded{}
	for _, r := range t.records {
		switch e := r.Event.(type) {
		case session.CallAnnounced:
			order = append(order, e.Call.ID)
		case session.CallEnded:
			by[e.CallID] = e
		}
	}
	var out []session.CallEnded
	for _, id := range order {
		if e, ok := by[id]; ok {
			out = append(out, e)
		}
	}
	return out
}

func (t turn) states() string {
	s := ""
	for _, e := range t.ends() {
		s += string(e.State) + " "
	}
	return s
}

func eventsOf[T session.Event](t turn) []T {
	var out []T
	for _, r := range t.records {
		if e, ok := r.Event.(T); ok {
			out = append(out, e)
		}
	}
	return out
}

// raterFunc rates by a function and counts.
type raterFunc struct {
	mu    sync.Mutex
	calls int
	rate  func(approvals.RatingInput) approvals.Rating
}

func (r *raterFunc) Rate(_ context.Context, in approvals.RatingInput) approvals.Rating {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	return r.rate(in)
}

func exactShell(command string) approvals.SourcedEntry {
	return approvals.SourcedEntry{Entry: approvals.Entry{Type: "shell", Matcher: "exact", Pattern: command}, Source: "test:1"}
}

func (w *world) symlink(target, name string) {
	w.tb.Helper()
	if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
		w.tb.Fatal(err)
	}
}
