package runner_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/runnertest"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// reopen opens the session again, in the same manager, after its owner went.
func (w *world) reopen() {
	w.tb.Helper()
	if err := w.sess.Close(context.Background()); err != nil {
		w.tb.Fatal(err)
	}
	w.again()
}

func (w *world) again() {
	w.tb.Helper()
	s, err := w.m.Open(context.Background(), w.sess.ID())
	if err != nil {
		w.tb.Fatal(err)
	}
	w.sess = s
}

// settle answers every open ask of the session and waits for the calls.
func (w *world) settle(c approvals.Choice) {
	w.tb.Helper()
	open, err := w.sess.OpenAsks(context.Background())
	if err != nil || len(open) == 0 {
		w.tb.Fatalf("%d open asks, %v", len(open), err)
	}
	for _, a := range open {
		if _, err := w.sess.Answer(context.Background(), a.Request.ID, approvals.Answer{Choice: c, By: "test"}); err != nil {
			w.tb.Fatal(err)
		}
	}
	w.wait()
}

func (w *world) wait() {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := w.sess.Wait(ctx); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) log() turn {
	w.tb.Helper()
	recs, err := w.store.After(context.Background(), w.sess.ID(), 0, 0)
	if err != nil {
		w.tb.Fatal(err)
	}
	return turn{records: recs}
}

// queue plays a turn that leaves one question open.
func (w *world) queue(steps ...runnertest.Reply) {
	w.tb.Helper()
	w.srv.Script("x", steps...)
	got, err := w.follow(prompt("x", session.AskQueue), nil, nil)
	if err != nil || got.end.Reason != session.StopAsked {
		w.tb.Fatalf("ended %+v, %v", got.end, err)
	}
}

func TestQueuedCallRunsAfterItsAnswer(t *testing.T) {
	w := newWorld(t, setup{})
	w.queue(calls(
		call("list_directory", args{"path": "."}),
		runnertest.Shell("touch asked"),
		call("write_file", args{"path": "file", "content": "x"}),
	), runnertest.Reply{Text: "done"})
	w.reopen()
	if w.exists("asked") {
		t.Fatal("the call ran before its answer")
	}
	w.settle(approvals.AllowOnce)
	got := w.log()
	checkEnds(t, got)
	if got.states() != "cancelled completed completed " || !w.exists("asked") || !w.exists("file") {
		t.Errorf("calls are %s, files %v %v", got.states(), w.exists("asked"), w.exists("file"))
	}
	if _, err := w.sess.Continue(t.Context(), prompt("", session.AskQueue)); err != nil {
		t.Fatal(err)
	}
	w.wait()
	ends := eventsOf[session.TurnEnded](w.log())
	if last := ends[len(ends)-1]; len(ends) != 2 || last.Reason != session.StopEndTurn {
		t.Errorf("turns ended with %+v", ends)
	}
	if texts := eventsOf[session.Text](w.log()); len(texts) != 1 || texts[0].Text != "done" {
		t.Errorf("the model went on with %+v", texts)
	}
	if _, _, err := session.Verify(w.log().records); err != nil {
		t.Error(err)
	}
}

func TestResumeJudgesAgain(t *testing.T) {
	tests := []struct {
		name   string
		change func(*world) // between the question and the answer
		choice approvals.Choice
		state  string
		result string
	}{
		{"allowed", func(*world) {}, approvals.AllowOnce, "completed", ""},
		{"refused by a person", func(*world) {}, approvals.RejectOnce, "refused", ""},
		{"the rung is another", func(w *world) { w.rung(approvals.Auto) }, approvals.AllowOnce, "refused", "changed since it was judged"},
		{"the rung is looser and gates nothing", func(w *world) { w.rung(approvals.Bypass) }, approvals.AllowOnce, "completed", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, setup{})
			w.queue(calls(runnertest.Shell("touch asked")))
			tt.change(w)
			w.reopen()
			w.settle(tt.choice)
			got := w.log()
			checkEnds(t, got)
			end := got.ends()[0]
			if string(end.State) != tt.state || !strings.Contains(end.Result, tt.result) || w.exists("asked") != (tt.state == "completed") {
				t.Errorf("ended %s with %q, ran %v", end.State, end.Result, w.exists("asked"))
			}
		})
	}
}

func (w *world) rung(r approvals.Rung) {
	w.tb.Helper()
	if err := w.sess.SetRung(context.Background(), r, "test"); err != nil {
		w.tb.Fatal(err)
	}
}

func TestResumeSeesChangedLinks(t *testing.T) {
	w := newWorld(t, setup{})
	w.queue(calls(call("write_file", args{"path": "dir/file", "content": "x"})))
	w.reopen()
	w.symlink("..", "dir") // what was judged as inside the workspace leads out of it
	w.settle(approvals.AllowOnce)
	got := w.log()
	if got.states() == "completed " {
		t.Errorf("the call ran through a link that came later")
	}
	checkEnds(t, got)
}

// TestRatedCallIsNotRatedAgain: the question was asked with a rating.
func TestRatedCallIsNotRatedAgain(t *testing.T) {
	r := &raterFunc{rate: func(approvals.RatingInput) approvals.Rating {
		return approvals.Rating{Outcome: approvals.Catastrophic, Reason: "it is big"}
	}}
	w := newWorld(t, setup{rung: approvals.Assisted, rater: r})
	w.queue(calls(runnertest.Shell("touch asked")))
	w.reopen()
	w.settle(approvals.AllowOnce)
	if got := w.log(); got.states() != "completed " || r.calls != 1 {
		t.Errorf("calls are %s after %d ratings", got.states(), r.calls)
	}
}

// TestKilledProcess dies while a person is asked and an answer is there.
func TestKilledProcess(t *testing.T) {
	shared := session.NewMemory()
	p := sessiontest.NewProcess(shared)
	w := newWorld(t, setup{wrap: func(session.Store) session.Store { return p }})
	w.srv.Script("x", calls(runnertest.Shell("touch a"), runnertest.Shell("touch b"), call("write_file", args{"path": "c", "content": "x"})))
	sub := w.sess.Subscribe(0)
	defer sub.Close()
	if _, err := w.sess.Start(t.Context(), prompt("x", session.AskWait)); err != nil {
		t.Fatal(err)
	}
	for asked := 0; asked < 3; {
		r, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := r.Event.(session.Asked); ok {
			if asked++; asked == 1 {
				if _, err := w.sess.Answer(t.Context(), a.Request.ID, approvals.Answer{Choice: approvals.AllowOnce, By: "test"}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	p.Kill()
	_ = w.m.Close(context.Background()) // its store is dead
	w.m, w.store = newWorld(t, setup{wrap: func(session.Store) session.Store { return sessiontest.NewProcess(shared) }}).m, shared
	w.again()
	w.wait()
	if got := w.log(); got.states() != "completed " || !w.exists("a") {
		t.Errorf("after opening calls are %s", got.states())
	}
	w.settle(approvals.AllowOnce)
	got := w.log()
	checkEnds(t, got)
	if got.states() != "completed completed completed " || !w.exists("b") || !w.exists("c") {
		t.Errorf("calls are %s", got.states())
	}
}
