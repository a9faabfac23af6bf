package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner"
	"github.com/gth-server/gth-server/runner/runnertest"
	"github.com/gth-server/gth-server/session"
)

type args = map[string]any

func call(tool string, a args) runnertest.Call { return runnertest.NewCall(tool, a) }

func calls(c ...runnertest.Call) runnertest.Reply { return runnertest.Reply{Calls: c} }

func TestATurnOfReadsAndText(t *testing.T) {
	w := newWorld(t, setup{})
	w.write("a.txt", "alpha\n")
	w.write("b.txt", "beta\n")
	w.srv.Script("look",
		runnertest.Reply{Reasoning: "I look", Text: "Looking.", Calls: []runnertest.Call{
			call("list_directory", args{"path": "."}), call("read_file", args{"path": "a.txt"}), call("read_file", args{"path": "b.txt"}),
		}, Usage: &runnertest.Usage{Input: 100, Output: 20, Cached: 50, Reasoning: 5}},
		runnertest.Reply{Text: "Both are there."})
	got := w.play(prompt("look", session.AskFail), nil)
	if got.end.Reason != session.StopEndTurn || got.states() != "completed completed completed " {
		t.Fatalf("ended %+v with calls %s", got.end, got.states())
	}
	results := w.srv.Last().Results()
	if len(results) != 3 || !strings.Contains(results[0], "a.txt") || !strings.Contains(results[1], "alpha") || !strings.Contains(results[2], "beta") {
		t.Errorf("the model read %q", results)
	}
	texts := eventsOf[session.Text](got)
	if len(texts) != 2 || texts[0].Text != "Looking." || texts[1].Text != "Both are there." || texts[0].Message == texts[1].Message {
		t.Errorf("texts are %+v", texts)
	}
	if r := eventsOf[session.Reasoning](got); len(r) != 1 || r[0].Text != "I look" {
		t.Errorf("reasoning is %+v", r)
	}
	if s := eventsOf[session.Step](got); len(s) != 2 || s[0].Usage != (session.Usage{Input: 100, Output: 20, Cached: 50, Reasoning: 5}) {
		t.Errorf("steps are %+v", s)
	}
	var shown strings.Builder
	for _, ev := range got.live {
		if d, ok := ev.(session.TextDelta); ok && d.Message == texts[0].Message {
			shown.WriteString(d.Text)
		}
	}
	if shown.String() != "Looking." {
		t.Errorf("shown live: %q", shown.String())
	}
	if d := eventsOf[session.Decided](got); len(d) != 3 || d[0].Verdict.Stage != approvals.StageNotGated {
		t.Errorf("decisions are %+v", d)
	}
	if c := eventsOf[session.CallAnnounced](got); c[1].Title != "Read a.txt" || c[1].Kind != session.KindRead || c[1].Locations[0].Path != filepath.Join(w.dir, "a.txt") {
		t.Errorf("announced as %+v", c[1])
	}
}

func TestHistoryComesFromTheLog(t *testing.T) {
	w := newWorld(t, setup{})
	w.write("a.txt", "alpha\n")
	w.srv.Script("one", runnertest.Reply{Reasoning: "hm", Calls: []runnertest.Call{call("read_file", args{"path": "a.txt"})}}, runnertest.Reply{Text: "first"})
	w.srv.Script("two", runnertest.Reply{Text: "second"})
	w.play(prompt("one", session.AskFail), nil)
	w.play(prompt("two", session.AskFail), nil)
	var got []string
	for _, m := range w.srv.Last().Messages[1:] {
		got = append(got, fmt.Sprintf("%s:%d:%s:%s", m.Role, len(m.ToolCalls), m.ReasoningContent, strings.TrimSpace(m.Content)))
	}
	want := []string{"user:0::one", "assistant:1::", "tool:0::alpha", "assistant:0::first", "user:0::two"}
	for i := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], want[i][:strings.LastIndex(want[i], ":")]) || !strings.Contains(got[i], want[i][strings.LastIndex(want[i], ":")+1:]) {
			t.Fatalf("the model reads %q, want like %q", got, want)
		}
	}
	if first := w.srv.Requests()[1].Messages; first[2].ReasoningContent != "hm" {
		t.Errorf("inside the turn the reasoning is %q", first[2].ReasoningContent)
	}
}

func TestBadCallsNeverReachTheGate(t *testing.T) {
	w := newWorld(t, setup{rung: approvals.Bypass})
	big := `{"path":"a","content":"` + strings.Repeat("x", 1<<20) + `"}`
	empty := ""
	w.srv.Script("bad",
		calls(
			runnertest.Call{Tool: "write_file", Raw: `{"path":"x"`},
			runnertest.Call{Tool: "write_file", Raw: `["x"]`},
			runnertest.Call{Tool: "delete_everything", Raw: `{}`},
			call("write_file", args{"Path": "x", "content": "y"}),
			call("write_file", args{"path": "x"}),
			call("write_file", args{"path": 3, "content": "y"}),
			call("run_shell_command", args{"command": " "}),
			runnertest.Call{Tool: "write_file", Raw: big},
			runnertest.Call{Tool: empty, Raw: `null`},
			call("write_file", args{"path": "good", "content": "z"}),
		),
		runnertest.Reply{Text: "sorry"})
	got := w.play(prompt("bad", session.AskFail), nil)
	if got.end.Reason != session.StopEndTurn || got.states() != strings.Repeat("failed ", 9)+"completed " {
		t.Fatalf("ended %+v with calls %s", got.end, got.states())
	}
	if d := eventsOf[session.Decided](got); len(d) != 1 {
		t.Errorf("%d decisions, want one", len(d))
	}
	for i, want := range []string{"not usable", "not usable", "no tool", `"Path" is no argument`, `"content" is missing`, "not usable", "empty", "limit", "no tool"} {
		if r := w.srv.Last().Results()[i]; !strings.Contains(r, want) || len(r) > 1000 {
			t.Errorf("result %d is %.300q, want %q", i, r, want)
		}
	}
	if w.exists("x") || w.exists("a") || !w.exists("good") {
		t.Error("the wrong files were written")
	}
}

func TestTooManyCallsInOneAnswer(t *testing.T) {
	w := newWorld(t, setup{})
	w.srv.Script("x", calls(slices.Repeat([]runnertest.Call{call("list_directory", args{"path": "."})}, 70)...), runnertest.Reply{Text: "ok"})
	got := w.play(prompt("x", session.AskFail), nil)
	if want := strings.Repeat("completed ", 64) + strings.Repeat("failed ", 6); got.states() != want {
		t.Errorf("ended %+v with calls %s", got.end, got.states())
	}
}

func TestIDsAreUnique(t *testing.T) {
	w := newWorld(t, setup{rung: approvals.Bypass})
	same, none, odd := "dup", "", "a b\n"
	mk := func(id *string, n string) runnertest.Call {
		c := call("write_file", args{"path": n, "content": n})
		c.ID = id
		return c
	}
	w.srv.Script("ids", calls(mk(&same, "1"), mk(&same, "2"), mk(&none, "3"), mk(&none, "4"), mk(&odd, "5")), runnertest.Reply{Text: "ok"})
	w.srv.Script("again", calls(mk(&same, "6")), runnertest.Reply{Text: "ok"})
	first := w.play(prompt("ids", session.AskFail), nil)
	second := w.play(prompt("again", session.AskFail), nil)
	seen := map[string]bool{}
	for _, tt := range []turn{first, second} {
		for _, c := range eventsOf[session.CallAnnounced](tt) {
			if seen[c.Call.ID] || c.Call.ID == "" || c.Call.ID == odd {
				t.Errorf("id %q is not usable or not unique", c.Call.ID)
			}
			seen[c.Call.ID] = true
		}
	}
	if len(seen) != 6 || !seen["dup"] {
		t.Errorf("ids are %v", seen)
	}
	for _, n := range []string{"1", "2", "3", "4", "5", "6"} {
		if !w.exists(n) {
			t.Errorf("file %s was not written", n)
		}
	}
	if s := eventsOf[session.Step](second); !strings.Contains(string(s[0].Message), `"provider_id":"dup"`) {
		t.Errorf("the provider's id is gone: %s", s[0].Message)
	}
}

func TestACutStreamNeverExecutes(t *testing.T) {
	for _, cut := range []int{1, 2, 3, -1} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			w := newWorld(t, setup{rung: approvals.Bypass})
			reply := calls(call("write_file", args{"path": "a", "content": "x"}), call("write_file", args{"path": "b", "content": "x"}))
			reply.Cut = cut
			w.srv.Script("always", reply)
			got := w.play(prompt("always", session.AskFail), nil)
			if got.end.Reason != session.StopFailed || got.end.ErrorKind != string(session.KindModel) || !strings.Contains(got.end.Error, "failed 5 times") {
				t.Errorf("ended %+v", got.end)
			}
			if len(eventsOf[session.CallAnnounced](got)) != 0 || w.exists("a") || w.exists("b") {
				t.Error("a call of a cut stream was announced or ran")
			}
			reply.CutTimes = 1
			w.srv.Script("once", reply, runnertest.Reply{Text: "ok"})
			got = w.play(prompt("once", session.AskFail), nil)
			if got.end.Reason != session.StopEndTurn || got.states() != "completed completed " || len(eventsOf[session.CallExecuting](got)) != 2 {
				t.Errorf("after one cut: %+v with calls %s", got.end, got.states())
			}
		})
	}
	t.Run("clean end without a finish reason", func(t *testing.T) {
		w := newWorld(t, setup{rung: approvals.Bypass})
		w.srv.Script("x", runnertest.Reply{Text: "half", Calls: []runnertest.Call{call("write_file", args{"path": "a", "content": "x"})}, Finish: "none"})
		got := w.play(prompt("x", session.AskFail), nil)
		if got.end.Reason != session.StopFailed || w.exists("a") {
			t.Errorf("ended %+v", got.end)
		}
		if texts := eventsOf[session.Text](got); len(texts) != 5 || !texts[0].Partial || texts[0].Text != "half" {
			t.Errorf("partial texts are %+v", texts)
		}
	})
}

func TestModelFailures(t *testing.T) {
	tests := []struct {
		name   string
		reply  runnertest.Reply
		reason session.StopReason
		kind   session.ErrorKind
		want   string
		asked  int
	}{
		{"401", runnertest.Reply{Status: 401, Message: "bad key"}, session.StopFailed, session.KindAuth, "check the API key", 1},
		{"429 twice", runnertest.Reply{Status: 429, Times: 2, Text: "ok"}, session.StopEndTurn, "", "", 3},
		{"500 always", runnertest.Reply{Status: 500}, session.StopFailed, session.KindModel, "failed 5 times", 5},
		{"429 for long", runnertest.Reply{Status: 429, RetryAfter: "3600"}, session.StopFailed, session.KindModel, "wait 1h0m0s", 1},
		{"400", runnertest.Reply{Status: 400, Message: "no such parameter"}, session.StopFailed, session.KindModel, "no such parameter", 1},
		{"empty", runnertest.Reply{}, session.StopFailed, session.KindModel, "answered with nothing", 2},
		{"length", runnertest.Reply{Text: "and so", Finish: "length", Calls: []runnertest.Call{call("write_file", args{"path": "a", "content": "x"})}}, session.StopMaxTokens, "", "", 1},
		{"filter", runnertest.Reply{Text: "and", Finish: "content_filter"}, session.StopFailed, session.KindModel, "content filter", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, setup{rung: approvals.Bypass})
			w.srv.Script("x", tt.reply)
			got := w.play(prompt("x", session.AskFail), nil)
			if got.end.Reason != tt.reason || got.end.ErrorKind != string(tt.kind) || !strings.Contains(got.end.Error, tt.want) {
				t.Errorf("ended %+v", got.end)
			}
			if n := len(w.srv.Requests()); n != tt.asked {
				t.Errorf("the model was asked %d times, want %d", n, tt.asked)
			}
			if w.exists("a") {
				t.Error("a call of an unfinished answer ran")
			}
		})
	}
}

func TestAnUnreachableServerFailsSoon(t *testing.T) {
	w := newWorld(t, setup{options: func(o *runner.Options) {
		m, err := runner.NewModel(t.Context(), runner.ModelConfig{Provider: "openai", Name: "x", BaseURL: "http://127.0.0.1:1/v1"})
		if err != nil {
			t.Fatal(err)
		}
		o.Model, o.ModelLabel = m, "openai:x"
	}})
	got := w.play(prompt("x", session.AskFail), nil)
	if got.end.ErrorKind != string(session.KindModel) || !strings.Contains(got.end.Error, "nothing listens") || !strings.Contains(got.end.Error, "3 times") {
		t.Errorf("ended %+v", got.end)
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t, setup{options: func(o *runner.Options) { o.MaxSteps = 3 }})
	w.srv.Script("loop", slices.Repeat([]runnertest.Reply{calls(call("list_directory", args{"path": "."}))}, 10)...)
	if got := w.play(prompt("loop", session.AskFail), nil); got.end.Reason != session.StopMaxSteps || len(w.srv.Requests()) != 3 {
		t.Errorf("ended %+v after %d requests", got.end, len(w.srv.Requests()))
	}
	w = newWorld(t, setup{options: func(o *runner.Options) { o.MaxTokens = 100 }})
	list := calls(call("list_directory", args{"path": "."}))
	list.Usage = &runnertest.Usage{Input: 40, Output: 15}
	w.srv.Script("loop", slices.Repeat([]runnertest.Reply{list}, 10)...)
	if got := w.play(prompt("loop", session.AskFail), nil); got.end.ErrorKind != string(session.KindLimit) || !strings.Contains(got.end.Error, "110 tokens of 100") {
		t.Errorf("ended %+v", got.end)
	}
	w = newWorld(t, setup{rung: approvals.Bypass, options: func(o *runner.Options) { o.WallTime = 300 * time.Millisecond }})
	w.srv.Script("slow", calls(runnertest.Shell("sleep 20"), call("write_file", args{"path": "a", "content": "x"})))
	got := w.play(prompt("slow", session.AskFail), nil)
	if got.end.Reason != session.StopFailed || got.end.ErrorKind != string(session.KindLimit) || got.states() != "cancelled cancelled " || w.exists("a") {
		t.Errorf("ended %+v with calls %s", got.end, got.states())
	}
}

func TestShellCommands(t *testing.T) {
	w := newWorld(t, setup{rung: approvals.Bypass})
	w.srv.Script("x", calls(runnertest.Shell("echo out; echo err >&2; exit 3"), runnertest.Shell("pwd"), runnertest.Shell("X=rm; $X -rf /")), runnertest.Reply{Text: "ok"})
	got := w.play(prompt("x", session.AskFail), nil)
	ends := got.ends()
	if len(ends) != 3 {
		t.Fatalf("ended %+v with %d calls", got.end, len(ends))
	}
	if r := ends[0]; r.State != session.CallFailed || *r.ExitCode != 3 || !strings.Contains(r.Result, "out\n") || !strings.Contains(r.Result, "err\n") || !strings.Contains(r.Result, "Exit code: 3") {
		t.Errorf("first result is %+v", r)
	}
	if r := ends[1]; r.State != session.CallCompleted || !strings.Contains(r.Result, w.dir) {
		t.Errorf("second result is %+v", r)
	}
	if r := ends[2]; r.State != session.CallRefused {
		t.Errorf("third result is %+v", r)
	}
	if c := eventsOf[session.CallAnnounced](got); c[0].Title != "echo out; echo err >&2; exit 3" || c[0].Kind != session.KindExecute {
		t.Errorf("announced as %+v", c[0])
	}
}

func TestTenMebibytesOfOutput(t *testing.T) {
	w := newWorld(t, setup{rung: approvals.Bypass})
	w.srv.Script("x", calls(runnertest.Shell("head -c 10485760 /dev/zero | tr '\\0' x")), runnertest.Reply{Text: "ok"})
	got := w.play(prompt("x", session.AskFail), nil)
	end := got.ends()[0]
	if end.State != session.CallCompleted || len(end.Result) > 110_000 || len(end.Result) < 50_000 {
		t.Fatalf("state %s, %d bytes", end.State, len(end.Result))
	}
	live := 0
	for _, ev := range got.live {
		if o, ok := ev.(session.CallOutput); ok {
			live += len(o.Text)
		}
	}
	if live == 0 || live > 256<<10 {
		t.Errorf("%d bytes were shown live", live)
	}
	t.Logf("result %d bytes, live %d bytes in %d events", len(end.Result), live, len(got.live))
}

func TestCancelAtAnyMoment(t *testing.T) {
	runs := 60
	if testing.Short() {
		runs = 15
	}
	w := newWorld(t, setup{rung: approvals.Write, rules: approvals.Rules{Allow: []approvals.SourcedEntry{exactShell("sleep 0.02; echo done")}}})
	w.write("a.txt", "alpha\n")
	reply := runnertest.Reply{Text: "one two three", Pace: 2, Calls: []runnertest.Call{
		call("read_file", args{"path": "a.txt"}), runnertest.Shell("sleep 0.02; echo done"),
		call("write_file", args{"path": "b", "content": "x"}), runnertest.Shell("echo asks"),
	}}
	w.srv.Script("x", reply, reply, runnertest.Reply{Text: "ok"})
	reasons := map[session.StopReason]int{}
	for i := range runs {
		delay := time.Duration(rand.IntN(180)) * time.Millisecond
		cancelled := make(chan struct{})
		got, err := w.follow(prompt("x", session.AskWait), func(r approvals.Request) *approvals.Answer {
			if i%2 == 0 {
				return allow(r)
			}
			return nil
		}, func() {
			go func() {
				defer close(cancelled)
				time.Sleep(delay)
				w.sess.Cancel(errors.New("test"))
			}()
		})
		<-cancelled
		if err != nil {
			t.Fatalf("run %d, cancelled after %s: %v", i, delay, err)
		}
		checkEnds(t, got)
		reasons[got.end.Reason]++
	}
	if reasons[session.StopCancelled]+reasons[session.StopEndTurn] != runs || reasons[session.StopCancelled] == 0 {
		t.Errorf("reasons are %v", reasons)
	}
	t.Logf("%d runs, %v", runs, reasons)
}

func TestCancelIsQuickWhileTheModelIsSilent(t *testing.T) {
	w := newWorld(t, setup{})
	w.srv.Script("x", runnertest.Reply{Text: "half an ", Hang: true})
	var at atomic.Int64
	got, err := w.follow(prompt("x", session.AskWait), nil, func() {
		time.AfterFunc(100*time.Millisecond, func() {
			at.Store(time.Now().UnixNano())
			w.sess.Cancel(errors.New("test"))
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(time.Unix(0, at.Load()))
	if got.end.Reason != session.StopCancelled || got.end.Error != "" || took > time.Second {
		t.Errorf("ended %+v after %s", got.end, took)
	}
	if texts := eventsOf[session.Text](got); len(texts) != 1 || !texts[0].Partial || texts[0].Text != "half an " {
		t.Errorf("texts are %+v", texts)
	}
	w.srv.Script("next", runnertest.Reply{Text: "ok"})
	w.play(prompt("next", session.AskWait), nil)
	msgs := w.srv.Last().Messages
	if m := msgs[len(msgs)-2]; m.Role != "assistant" || !strings.HasPrefix(m.Content, "half an ") {
		t.Errorf("the model reads %+v before the next prompt", m)
	}
}

// failing refuses appends that hold a kind of event.
type failing struct {
	session.Store
	when func(session.Event) bool
}

func (f failing) Append(ctx context.Context, b session.Batch) ([]session.Record, error) {
	if slices.ContainsFunc(b.Events, f.when) {
		return nil, errors.New("disk full")
	}
	return f.Store.Append(ctx, b)
}

func TestNothingStartsThatIsNotStored(t *testing.T) {
	w := newWorld(t, setup{rung: approvals.Bypass, wrap: func(s session.Store) session.Store {
		return failing{s, func(ev session.Event) bool { _, ok := ev.(session.CallExecuting); return ok }}
	}})
	w.srv.Script("x", calls(call("write_file", args{"path": "a", "content": "x"}), call("write_file", args{"path": "b", "content": "x"})))
	got := w.play(prompt("x", session.AskFail), nil)
	if got.end.ErrorKind != string(session.KindStore) || got.states() != "cancelled cancelled " {
		t.Errorf("ended %+v with calls %s", got.end, got.states())
	}
	if w.exists("a") || w.exists("b") {
		t.Error("a call ran that the log does not hold")
	}
}

func BenchmarkScriptedTurnOfThreeCalls(b *testing.B) {
	w := newWorld(b, setup{script: strings.ReplaceAll(`turns:
T  - - calls:
T      - tool: read_file
T        args: {path: a.txt}
T      - tool: list_directory
T        args: {path: .}
T      - tool: read_file
T        args: {path: a.txt}
T    - text: done
`, "T", "")})
	if err := os.WriteFile(filepath.Join(w.dir, "a.txt"), []byte("alpha\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		// A session of its own each time: the script has one turn.
		s, err := w.m.Create(b.Context(), session.Spec{Cwd: w.dir, Surface: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Start(b.Context(), prompt("go", session.AskFail)); err != nil {
			b.Fatal(err)
		}
		if err := s.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
