package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner"
	"github.com/gth-server/gth-server/runner/runnertest"
	"github.com/gth-server/gth-server/session"
)

func TestAsks(t *testing.T) {
	step := calls(
		call("read_file", args{"path": "a.txt"}),
		call("write_file", args{"path": "asked", "content": "x"}),
		call("list_directory", args{"path": "."}),
		runnertest.Shell("touch asked2"),
	)
	tests := []struct {
		name    string
		on      session.OnAsk
		answers answerer
		reason  session.StopReason
		states  string
		files   bool
		asks    int // stored asks
	}{
		{"allowed", session.AskWait, allow, session.StopEndTurn, "completed completed completed completed ", true, 2},
		{"refused", session.AskWait, deny, session.StopEndTurn, "completed refused completed refused ", false, 2},
		{"deny", session.AskDeny, nil, session.StopEndTurn, "completed refused completed refused ", false, 2},
		{"fail", session.AskFail, nil, session.StopAsked, "cancelled cancelled cancelled cancelled ", false, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, setup{})
			w.write("a.txt", "alpha\n")
			w.srv.Script("x", step, runnertest.Reply{Text: "ok"})
			got := w.play(prompt("x", tt.on), tt.answers)
			if got.end.Reason != tt.reason || got.states() != tt.states {
				t.Errorf("ended %+v with calls %s", got.end, got.states())
			}
			if w.exists("asked") != tt.files || w.exists("asked2") != tt.files {
				t.Errorf("files exist: %v %v", w.exists("asked"), w.exists("asked2"))
			}
			if n := len(eventsOf[session.Decided](got)); n != 4 {
				t.Errorf("%d decisions, want 4", n)
			}
			if tt.reason == session.StopAsked && len(eventsOf[session.CallExecuting](got)) != 0 {
				t.Error("something of the step started")
			}
		})
	}
}

func TestQueuedAsksStayOpen(t *testing.T) {
	w := newWorld(t, setup{})
	w.srv.Script("x", calls(call("list_directory", args{"path": "."}), call("write_file", args{"path": "a", "content": "x"})))
	got, err := w.follow(prompt("x", session.AskQueue), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	open, err := w.store.OpenAsks(t.Context(), w.sess.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got.end.Reason != session.StopAsked || len(open) != 1 || len(eventsOf[session.CallExecuting](got)) != 0 {
		t.Errorf("ended %+v, %d open asks", got.end, len(open))
	}
}

func TestReadersRunWhileAPersonIsAsked(t *testing.T) {
	w := newWorld(t, setup{})
	w.srv.Script("x", calls(
		call("write_file", args{"path": "asked", "content": "x"}),
		call("list_directory", args{"path": "."}),
		call("write_file", args{"path": "asked2", "content": "x"}),
	), runnertest.Reply{Text: "ok"})
	asked := 0
	got, err := w.follow(prompt("x", session.AskWait), func(r approvals.Request) *approvals.Answer {
		// Answers come late, so that the reading call is done by then.
		if asked++; asked == 1 {
			time.Sleep(200 * time.Millisecond)
		}
		return allow(r)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkEnds(t, got)
	var order []string
	for _, r := range got.records {
		switch r.Event.(type) {
		case session.CallEnded:
			order = append(order, "end")
		case session.Answered:
			order = append(order, "answer")
		}
	}
	if want := []string{"end", "answer", "answer", "end", "end"}; !slices.Equal(order, want) {
		t.Errorf("order is %v, want %v", order, want)
	}
}

func TestASessionGrantCoversTheRest(t *testing.T) {
	w := newWorld(t, setup{})
	w.srv.Script("x", calls(runnertest.Shell("touch a")), calls(runnertest.Shell("touch a")), runnertest.Reply{Text: "ok"})
	asks := 0
	got := w.play(prompt("x", session.AskWait), func(approvals.Request) *approvals.Answer {
		asks++
		return &approvals.Answer{Choice: approvals.AllowSession}
	})
	if asks != 1 || got.states() != "completed completed " {
		t.Errorf("%d asks, calls %s", asks, got.states())
	}
}

func attackOn(word string) *raterFunc {
	return &raterFunc{rate: func(in approvals.RatingInput) approvals.Rating {
		if strings.Contains(in.Subject.Command, word) {
			return approvals.Rating{Outcome: approvals.Attack, Reason: "it steals keys"}
		}
		return approvals.Rating{Outcome: approvals.Safe, Reason: "harmless"}
	}}
}

func TestAnAttackStopsTheStep(t *testing.T) {
	w := newWorld(t, setup{rung: approvals.Assisted, rater: attackOn("evil")})
	w.srv.Script("x", calls(
		runnertest.Shell("touch good"), call("list_directory", args{"path": "."}), runnertest.Shell("touch evil"), runnertest.Shell("touch other"),
	), runnertest.Reply{Text: "never said"})
	got := w.play(prompt("x", session.AskWait), allow)
	if got.end.Reason != session.StopRefusal || got.states() != "cancelled cancelled refused cancelled " {
		t.Errorf("ended %+v with calls %s", got.end, got.states())
	}
	if len(w.srv.Requests()) != 1 || len(eventsOf[session.Asked](got)) != 0 || len(eventsOf[session.CallExecuting](got)) != 0 {
		t.Error("the model was called again, somebody was asked, or something ran")
	}
	actions := map[approvals.Action]int{}
	for _, d := range eventsOf[session.Decided](got) {
		actions[d.Verdict.Action]++
	}
	if actions[approvals.Halt] != 1 || actions[approvals.Approve] != 3 {
		t.Errorf("decisions are %v", actions)
	}
}

func TestATypedConfirmation(t *testing.T) {
	for _, tt := range []struct {
		typed  string
		reason session.StopReason
		states string
	}{
		{"run anyway", session.StopEndTurn, "completed completed "},
		{"yes", session.StopRefusal, "cancelled refused "},
	} {
		t.Run(tt.typed, func(t *testing.T) {
			w := newWorld(t, setup{rung: approvals.Assisted, rater: attackOn("evil")})
			w.srv.Script("x", calls(runnertest.Shell("touch good"), runnertest.Shell("touch evil")), runnertest.Reply{Text: "ok"})
			p := prompt("x", session.AskWait)
			p.Typed = true
			got := w.play(p, func(r approvals.Request) *approvals.Answer {
				if !r.Typed {
					t.Errorf("the ask is %+v", r)
				}
				return &approvals.Answer{Choice: approvals.AllowOnce, Typed: tt.typed}
			})
			if got.end.Reason != tt.reason || got.states() != tt.states || w.exists("evil") != (tt.reason == session.StopEndTurn) {
				t.Errorf("ended %+v with calls %s", got.end, got.states())
			}
		})
	}
}

func TestRulesDecide(t *testing.T) {
	w := newWorld(t, setup{rules: approvals.Rules{
		Allow: []approvals.SourcedEntry{exactShell("touch allowed")},
		Deny:  []approvals.SourcedEntry{exactShell("touch denied")},
	}})
	w.srv.Script("x", calls(runnertest.Shell("touch allowed"), runnertest.Shell("touch denied"), runnertest.Shell("rm -rf /")), runnertest.Reply{Text: "ok"})
	got := w.play(prompt("x", session.AskFail), nil)
	if got.end.Reason != session.StopEndTurn || got.states() != "completed refused refused " || !w.exists("allowed") || w.exists("denied") {
		t.Errorf("ended %+v with calls %s", got.end, got.states())
	}
	var stages []approvals.Stage
	for _, d := range eventsOf[session.Decided](got) {
		stages = append(stages, d.Verdict.Stage)
	}
	if want := []approvals.Stage{approvals.StageAllowList, approvals.StageDenyList, approvals.StageHardlineFloor}; !slices.Equal(stages, want) {
		t.Errorf("stages are %v, want %v", stages, want)
	}
}

// TestWhatChangedDoesNotRun makes the rung stricter between the approval of
// a call and its start.
func TestWhatChangedDoesNotRun(t *testing.T) {
	w := newWorld(t, setup{rung: approvals.Bypass})
	w.srv.Script("x", calls(runnertest.Shell("sleep 0.3"), call("write_file", args{"path": "late", "content": "x"})), runnertest.Reply{Text: "ok"})
	changed := make(chan error, 1)
	got, err := w.follow(prompt("x", session.AskWait), nil, func() {
		go func() {
			time.Sleep(150 * time.Millisecond)
			changed <- w.sess.SetRung(context.Background(), approvals.Manual, "test")
		}()
	})
	if err := errors.Join(err, <-changed); err != nil {
		t.Fatal(err)
	}
	checkEnds(t, got)
	if got.states() != "completed refused " || w.exists("late") || !strings.Contains(got.ends()[1].Result, "changed since") {
		t.Errorf("calls %s: %+v", got.states(), got.ends())
	}
}

func TestSpans(t *testing.T) {
	w := newWorld(t, setup{rung: approvals.Assisted, rater: attackOn("evil")})
	w.srv.Script("x", calls(runnertest.Shell("echo secret-word"), call("list_directory", args{"path": "."})), runnertest.Reply{Text: "ok", Usage: &runnertest.Usage{Input: 5, Output: 2}})
	w.play(prompt("x", session.AskWait), allow)
	names := map[string]int{}
	traces := map[string]bool{}
	for _, s := range w.spans.Ended() {
		names[s.Name()]++
		traces[s.SpanContext().TraceID().String()] = true
		for _, a := range s.Attributes() {
			if strings.Contains(a.Value.String(), "secret-word") {
				t.Errorf("span %s carries command text in %s", s.Name(), a.Key)
			}
		}
	}
	want := map[string]int{"invoke_agent gth-server": 1, "chat fake": 2, "execute_authorization": 2, "execute_tool run_shell_command": 1, "execute_tool list_directory": 1, "rater": 1, "deny-list": 2, "not-gated": 1}
	for name, n := range want {
		if names[name] < n {
			t.Errorf("%d spans %q, want %d; all: %v", names[name], name, n, names)
		}
	}
	if len(traces) != 1 {
		t.Errorf("a turn has %d traces", len(traces))
	}
}

// TestALinkMadeInBetweenIsSeen has a write that was harmless when it was
// judged lead into a control file when its turn comes.
func TestALinkMadeInBetweenIsSeen(t *testing.T) {
	w := newWorld(t, setup{
		rung:  approvals.Write,
		rules: approvals.Rules{Allow: []approvals.SourcedEntry{exactShell("ln -s .git/hooks x")}},
		options: func(o *runner.Options) {
			o.Place.RealPath = func(p string) string {
				rest := ""
				for {
					if real, err := filepath.EvalSymlinks(p); err == nil {
						return filepath.Join(real, rest)
					}
					if p == filepath.Dir(p) {
						return filepath.Join(p, rest)
					}
					p, rest = filepath.Dir(p), filepath.Join(filepath.Base(p), rest)
				}
			}
		},
	})
	if err := os.MkdirAll(filepath.Join(w.dir, ".git", "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.srv.Script("x", calls(
		runnertest.Shell("ln -s .git/hooks x"), call("write_file", args{"path": "x/pre-commit", "content": "#!/bin/sh\n"}),
	), runnertest.Reply{Text: "ok"})
	got := w.play(prompt("x", session.AskFail), nil)
	if got.states() != "completed refused " || w.exists(".git/hooks/pre-commit") || !strings.Contains(got.ends()[1].Result, "changed since") {
		t.Errorf("ended %+v with calls %s: %+v", got.end, got.states(), got.ends())
	}
}
