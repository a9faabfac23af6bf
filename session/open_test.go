package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// on returns a manager on a process of its own.
func on(t *testing.T, shared session.Store, run session.NewRunner) (*sessiontest.Process, *session.Manager) {
	t.Helper()
	p := sessiontest.NewProcess(shared)
	m := session.NewManager(t.Context(), session.Options{Store: p, NewRunner: run})
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil && p.Alive(func() {}) {
			t.Errorf("close a manager: %v", err)
		}
	})
	return p, m
}

func mustOpen(t *testing.T, m *session.Manager, id session.ID) *session.Session {
	t.Helper()
	s, err := m.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func announce(ids ...string) sessiontest.Step {
	var evs []session.Event
	for _, id := range ids {
		evs = append(evs, session.CallAnnounced{Call: approvals.Call{ID: id, Tool: "tool", Arguments: []byte("{}")}})
	}
	return sessiontest.Emit(evs...)
}

// asking announces calls and asks for them; what was approved runs.
func asking(run func(string) string, ids ...string) sessiontest.Script {
	var reqs []approvals.Request
	for _, id := range ids {
		reqs = append(reqs, offering(id))
	}
	return sessiontest.Script{announce(ids...), sessiontest.Ask(sessiontest.RunSettled(run), reqs...)}
}

func result(string) string { return "ran" }

func states(recs []session.Record) string {
	var out []string
	for _, e := range only[session.CallEnded](recs) {
		out = append(out, e.CallID+" "+string(e.State))
	}
	return strings.Join(out, ", ")
}

func TestOpenGoesOn(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	shared := session.NewMemory()
	_, m := on(t, shared, sessiontest.NewRunner(sessiontest.Script{sessiontest.Emit(session.TitleChanged{Title: "name"})}))
	s, err := m.Create(t.Context(), session.Spec{Cwd: dir, Roots: []string{root}, Surface: "test", Rung: approvals.Assisted})
	if err != nil {
		t.Fatal(err)
	}
	play(t, s, prompt(session.AskWait))
	if err := s.SetRung(t.Context(), approvals.Write, "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Open(t.Context(), s.ID()); !errors.Is(err, session.ErrConflict) || !strings.Contains(err.Error(), "open in this process") {
		t.Errorf("open a live session: %v", err)
	}
	_, other := on(t, shared, sessiontest.NewRunner())
	if _, err := other.Open(t.Context(), s.ID()); !errors.Is(err, session.ErrConflict) {
		t.Errorf("open a session of another process: %v", err)
	}
	before := wholeLog(t, shared, s.ID())
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var made session.Spec
	_, third := on(t, shared, func(_ context.Context, spec session.Spec) (session.Runner, error) {
		made = spec
		return sessiontest.New(), nil
	})
	again := mustOpen(t, third, s.ID())
	want := session.Spec{ID: s.ID(), Cwd: dir, Roots: []string{root}, Surface: "test", Rung: approvals.Write}
	if fmt.Sprint(made) != fmt.Sprint(want) || fmt.Sprint(again.Spec()) != fmt.Sprint(want) || again.Rung() != approvals.Write {
		t.Errorf("opened as %+v and %+v, rung %v", made, again.Spec(), again.Rung())
	}
	if got, err := third.Get(s.ID()); err != nil || got != again {
		t.Errorf("get the opened session: %v, %v", got, err)
	}
	play(t, again, prompt(session.AskWait))
	after := wholeLog(t, shared, s.ID())
	checkLog(t, after)
	if len(after) != len(before)+2 || !slices.EqualFunc(before, after[:len(before)], sameRecord) {
		t.Errorf("%d records became %d", len(before), len(after))
	}
	if _, _, err := session.Verify(after); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	shared := session.NewMemory()
	broken := errors.New("no such profile")
	run := sessiontest.NewRunner()
	_, m := on(t, shared, func(ctx context.Context, s session.Spec) (session.Runner, error) { return run(ctx, s) })
	if _, err := m.Open(t.Context(), session.ID(uuid.Must(uuid.NewV7()).String())); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("open an unknown session: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := m.Create(t.Context(), session.Spec{Cwd: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	run = func(context.Context, session.Spec) (session.Runner, error) { return nil, broken }
	if _, err := m.Open(t.Context(), s.ID()); !errors.Is(err, broken) {
		t.Errorf("open without a runner: %v", err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Open(t.Context(), s.ID()); err == nil || !strings.Contains(err.Error(), "does not exist: create it") {
		t.Errorf("open without its directory: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	run = sessiontest.NewRunner()
	mustOpen(t, m, s.ID()) // failed tries left nothing behind
}

func TestListAndDelete(t *testing.T) {
	shared := session.NewMemory()
	_, m := on(t, shared, sessiontest.NewRunner(sessiontest.Script{sessiontest.Block()}))
	_, other := on(t, shared, sessiontest.NewRunner())
	s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), prompt(session.AskWait)); err != nil {
		t.Fatal(err)
	}
	if page, next, err := other.List(t.Context(), session.Filter{Cwd: "/"}); err != nil || next != "" || len(page) != 1 || page[0].ID != s.ID() {
		t.Errorf("list: %v, %q, %v", page, next, err)
	}
	if _, _, err := other.List(t.Context(), session.Filter{Cursor: "x"}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("list behind a wrong cursor: %v", err)
	}
	if err := other.Delete(t.Context(), s.ID()); !errors.Is(err, session.ErrConflict) {
		t.Errorf("delete another process's session: %v", err)
	}
	if err := m.Delete(t.Context(), s.ID()); err != nil {
		t.Errorf("delete a live session: %v", err)
	}
	if _, err := shared.Meta(t.Context(), s.ID()); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("meta of a deleted session: %v", err)
	}
	if err := m.Delete(t.Context(), s.ID()); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("delete again: %v", err)
	}
	if _, err := m.Create(t.Context(), session.Spec{ID: s.ID(), Cwd: "/"}); err != nil {
		t.Errorf("the place of a deleted session is not free: %v", err)
	}
}

// TestOpenAfterCrash kills the process with calls in every state.
func TestOpenAfterCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := session.NewMemory()
		var claimed string
		p, m := on(t, shared, sessiontest.NewRunner(sessiontest.Script{
			announce("ended", "running", "waits", "claimed", "open", "approved", "refused"),
			sessiontest.Emit(session.CallEnded{CallID: "ended", State: session.CallCompleted}, session.CallExecuting{CallID: "running"}),
			sessiontest.Ask(func(ctx context.Context, turn *session.Turn, s []session.Settled) error {
				claimed = s[0].Request.ID
				return turn.Claim(ctx, claimed, s[0].Request.Digest)
			}, offering("claimed")),
			sessiontest.Ask(nil, offering("open"), offering("approved"), offering("refused")),
		}))
		s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
		if err != nil {
			t.Fatal(err)
		}
		startAsking(t, s)
		answer(t, s, "claimed", approvals.AllowOnce)
		synctest.Wait()
		answer(t, s, "approved", approvals.AllowOnce)
		p.Kill()
		answerOutside(t, shared, s.ID(), "refused", approvals.RejectOnce)
		var ran []string
		_, m2 := on(t, shared, sessiontest.NewResuming(sessiontest.RunSettled(func(call string) string { ran = append(ran, call); return "ran" })))
		s2 := mustOpen(t, m2, s.ID())
		if err := s2.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		recs := wholeLog(t, shared, s.ID())
		checkLog(t, recs)
		if got, want := states(recs), "ended completed, running unknown, waits cancelled, claimed cancelled, refused refused, approved completed"; got != want {
			t.Errorf("calls are %s\nwant %s", got, want)
		}
		ends := only[session.TurnEnded](recs)
		if len(ends) != 1 || ends[0].Reason != session.StopFailed || ends[0].ErrorKind != string(session.KindOwner) {
			t.Errorf("the turn ended with %+v", ends)
		}
		if strings.Join(ran, " ") != "approved" {
			t.Errorf("ran %v", ran)
		}
		open, err := s2.OpenAsks(t.Context())
		if err != nil || len(open) != 1 || open[0].Request.CallID != "open" {
			t.Errorf("open asks: %+v, %v", open, err)
		}
	})
}

// askOf finds the open ask of a call.
func askOf(t *testing.T, st session.Store, id session.ID, call string) string {
	t.Helper()
	open, err := st.OpenAsks(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range open {
		if a.Request.CallID == call {
			return a.Request.ID
		}
	}
	t.Fatalf("call %s has no open ask among %d", call, len(open))
	return ""
}

func answer(t *testing.T, s *session.Session, call string, c approvals.Choice) {
	t.Helper()
	open, err := s.OpenAsks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range open {
		if a.Request.CallID == call {
			if _, err := s.Answer(t.Context(), a.Request.ID, approvals.Answer{Choice: c, By: "test"}); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("call %s has no open ask among %d", call, len(open))
}

func answerOutside(t *testing.T, st session.Store, id session.ID, call string, c approvals.Choice) {
	t.Helper()
	if _, err := session.Answer(t.Context(), st, askOf(t, st, id, call), approvals.Answer{Choice: c, By: "outside", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
}

// TestAsksOutliveTheirOwner ends a turn in every way and says what becomes
// of its asks.
func TestAsksOutliveTheirOwner(t *testing.T) {
	tests := []struct {
		name  string
		queue bool
		end   func(*session.Session, *sessiontest.Process)
		kept  bool
	}{
		{"a person cancels", false, func(s *session.Session, _ *sessiontest.Process) { s.Cancel(errors.New("enough")) }, false},
		{"the connection is gone", false, func(s *session.Session, _ *sessiontest.Process) {
			s.Cancel(fmt.Errorf("end of input: %w", session.ErrOwnerLost))
		}, true},
		{"the session closes", false, func(*session.Session, *sessiontest.Process) {}, true},
		{"the process dies", false, func(_ *session.Session, p *sessiontest.Process) { p.Kill() }, true},
		{"queued", true, func(*session.Session, *sessiontest.Process) {}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := session.NewMemory()
				run := sessiontest.NewResuming(sessiontest.RunSettled(result), asking(result, "a", "b"))
				p, m := on(t, shared, run)
				s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
				if err != nil {
					t.Fatal(err)
				}
				how := session.AskWait
				if tt.queue {
					how = session.AskQueue
				}
				if _, err := s.Start(t.Context(), prompt(how)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				tt.end(s, p)
				synctest.Wait()
				_ = s.Close(t.Context()) // it fails in a dead process
				open, err := shared.OpenAsks(t.Context(), s.ID())
				if err != nil || (len(open) == 2) != tt.kept || !tt.kept && len(open) != 0 {
					t.Fatalf("%d open asks, %v", len(open), err)
				}
				_, m2 := on(t, shared, run)
				s2 := mustOpen(t, m2, s.ID())
				if !tt.kept {
					if got := states(wholeLog(t, shared, s.ID())); got != "a cancelled, b cancelled" {
						t.Errorf("calls are %s", got)
					}
					return
				}
				answer(t, s2, "a", approvals.AllowOnce)
				answerOutside(t, shared, s.ID(), "b", approvals.AllowOnce)
				synctest.Wait()
				recs := wholeLog(t, shared, s.ID())
				checkLog(t, recs)
				if got := states(recs); got != "a completed, b completed" {
					t.Errorf("calls are %s", got)
				}
			})
		})
	}
}

// TestOpenAsksAreShownAgain says who sees an ask of a dead owner, and where.
func TestOpenAsksAreShownAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := session.NewMemory()
		run := sessiontest.NewResuming(sessiontest.RunSettled(result), asking(result, "a", "b"))
		p, m := on(t, shared, run)
		s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
		if err != nil {
			t.Fatal(err)
		}
		startAsking(t, s)
		p.Kill()
		_, m2 := on(t, shared, run)
		s2 := mustOpen(t, m2, s.ID())
		stored := len(wholeLog(t, shared, s.ID()))
		for name, after := range map[string]session.Seq{"load": 0, "resume": session.Seq(stored)} {
			sub := s2.Subscribe(after)
			for i := int(after); i < stored; i++ {
				if r, err := sub.Next(t.Context()); err != nil || r.Seq != session.Seq(i+1) {
					t.Fatalf("%s: record %d is %+v, %v", name, i+1, r, err)
				}
			}
			for _, call := range []string{"a", "b"} {
				r, err := sub.Next(t.Context())
				if asked, ok := r.Event.(session.Asked); err != nil || !ok || r.Seq != 0 || asked.Request.CallID != call || asked.Request.ID == "" {
					t.Fatalf("%s: %+v, %v, want the ask of %s again", name, r, err, call)
				}
			}
			sub.Close()
		}
		if n := len(wholeLog(t, shared, s.ID())); n != stored {
			t.Errorf("%d records became %d", stored, n)
		}
		answer(t, s2, "a", approvals.RejectOnce)
		sub := s2.Subscribe(session.Seq(stored))
		defer sub.Close()
		var got []string
		for range 3 {
			r, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%T %d", r.Event, r.Seq))
		}
		want := []string{fmt.Sprintf("session.Answered %d", stored+1), fmt.Sprintf("session.CallEnded %d", stored+2), "session.Asked 0"}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestPromptEndsOpenAsks says what a new prompt does with what is left.
func TestPromptEndsOpenAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := session.NewMemory()
		release := make(chan struct{})
		slow := func(string) string { <-release; return "ran" }
		_, m := on(t, shared, sessiontest.NewResuming(sessiontest.RunSettled(slow), asking(result, "a", "b"), sessiontest.Script{}))
		s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
		if err != nil {
			t.Fatal(err)
		}
		play(t, s, prompt(session.AskQueue))
		if _, err := s.Continue(t.Context(), prompt(session.AskQueue)); !errors.Is(err, session.ErrPersonNeeded) {
			t.Errorf("continue with open asks: %v", err)
		}
		late := askOf(t, shared, s.ID(), "b")
		answer(t, s, "a", approvals.AllowOnce)
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Start(short, prompt(session.AskWait)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a prompt while an approved call runs: %v", err)
		}
		time.AfterFunc(time.Minute, func() { close(release) })
		play(t, s, prompt(session.AskWait))
		recs := wholeLog(t, shared, s.ID())
		checkLog(t, recs)
		if got := states(recs); got != "a completed, b cancelled" {
			t.Errorf("calls are %s", got)
		}
		stored, err := s.Answer(t.Context(), late, approvals.Answer{Choice: approvals.AllowOnce, By: "late"})
		if !errors.Is(err, session.ErrConflict) || stored.Answer == nil || stored.Answer.Choice != approvals.Unanswered {
			t.Errorf("a late answer: %+v, %v", stored, err)
		}
	})
}

func TestContinue(t *testing.T) {
	shared := session.NewMemory()
	var saw []session.TurnStarted
	look := func(_ context.Context, turn *session.Turn) (session.StopReason, error) {
		saw = only[session.TurnStarted](turn.Records())
		return "", nil
	}
	run := sessiontest.NewResuming(sessiontest.RunSettled(result), asking(result, "a"), sessiontest.Script{look})
	_, m := on(t, shared, run)
	s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
	if err != nil {
		t.Fatal(err)
	}
	play(t, s, prompt(session.AskQueue))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	answerOutside(t, shared, s.ID(), "a", approvals.AllowWorkspace)
	_, m2 := on(t, shared, sessiontest.NewResuming(sessiontest.RunSettled(result), sessiontest.Script{look}))
	s2 := mustOpen(t, m2, s.ID())
	if _, err := s2.Continue(t.Context(), prompt(session.AskQueue)); err != nil {
		t.Fatal(err)
	}
	if err := s2.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(saw) != 2 || !saw[1].Continues || len(saw[1].Prompt) != 0 {
		t.Errorf("turns started with %+v", saw)
	}
	recs := wholeLog(t, shared, s.ID())
	if states(recs) != "a completed" {
		t.Errorf("calls are %s", states(recs))
	}
	if gs, err := shared.Grants(t.Context(), "/"); err != nil || len(gs) != 1 || gs[0].By != "outside" {
		t.Errorf("the workspace's grants: %+v, %v", gs, err)
	}
}

// TestAsksExpire says when an ask that nobody answers ends.
func TestAsksExpire(t *testing.T) {
	for name, tt := range map[string]struct {
		on    session.OnAsk
		close bool
		open  time.Duration // when the session is opened again
		want  string
	}{
		"queued in a live session":  {session.AskQueue, false, 0, "a cancelled"},
		"queued and opened late":    {session.AskQueue, true, 25 * time.Hour, "a cancelled"},
		"queued and opened before":  {session.AskQueue, true, 23 * time.Hour, ""},
		"waited for, opened late":   {session.AskWait, true, 25 * time.Hour, "a cancelled"},
		"waited for, opened before": {session.AskWait, true, 23 * time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := session.NewMemory()
				run := sessiontest.NewResuming(sessiontest.RunSettled(result), asking(result, "a"))
				_, m := on(t, shared, run)
				s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Start(t.Context(), prompt(tt.on)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if tt.close {
					if err := s.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(tt.open)
					_, m2 := on(t, shared, run)
					mustOpen(t, m2, s.ID())
				} else {
					time.Sleep(24*time.Hour + time.Second)
				}
				synctest.Wait()
				recs := wholeLog(t, shared, s.ID())
				if got := states(recs); got != tt.want {
					t.Errorf("calls are %q, want %q", got, tt.want)
				}
				if a := only[session.Answered](recs); len(a) == 1 != (tt.want != "") || len(a) == 1 && a[0].Answer.Choice != approvals.Unanswered {
					t.Errorf("answers: %+v", a)
				}
			})
		})
	}
}

// TestAnswersOfAnotherProcess reach a turn that waits, one by one.
func TestAnswersOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := session.NewMemory()
		_, m := on(t, shared, sessiontest.NewResuming(nil, asking(result, "a", "b")))
		s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
		if err != nil {
			t.Fatal(err)
		}
		startAsking(t, s)
		answerOutside(t, shared, s.ID(), "b", approvals.AllowSession)
		synctest.Wait()
		recs := wholeLog(t, shared, s.ID())
		if a := only[session.Answered](recs); len(a) != 1 || a[0].CallID != "b" || len(only[session.Granted](recs)) != 1 {
			t.Errorf("before the other answer the log has %+v", a)
		}
		answerOutside(t, shared, s.ID(), "a", approvals.RejectOnce)
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		recs = wholeLog(t, shared, s.ID())
		checkLog(t, recs)
		if got := states(recs); got != "a refused, b completed" {
			t.Errorf("calls are %s", got)
		}
	})
}

// TestLostLeaseKeepsAsks: another process has the session, so its asks are
// no longer this one's to end.
func TestLostLeaseKeepsAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := session.NewMemory()
		run := sessiontest.NewResuming(sessiontest.RunSettled(result), asking(result, "a"))
		p, m := on(t, shared, run)
		s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
		if err != nil {
			t.Fatal(err)
		}
		startAsking(t, s)
		p.Stall()
		_, m2 := on(t, shared, run)
		s2 := mustOpen(t, m2, s.ID())
		s.Cancel(errors.New("a person cancels in the stopped process"))
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		answer(t, s2, "a", approvals.AllowOnce)
		synctest.Wait()
		recs := wholeLog(t, shared, s.ID())
		checkLog(t, recs)
		if got := states(recs); got != "a completed" {
			t.Errorf("calls are %s", got)
		}
	})
}

func TestRunnerThatCannotResume(t *testing.T) {
	for name, resume := range map[string]session.NewRunner{
		"no Resumer": sessiontest.NewRunner(),
		"error":      sessiontest.NewResuming(func(context.Context, *session.Turn, []session.Settled) error { return errors.New("no") }),
		"panic":      sessiontest.NewResuming(func(context.Context, *session.Turn, []session.Settled) error { panic("boom") }),
	} {
		t.Run(name, func(t *testing.T) {
			shared := session.NewMemory()
			_, m := on(t, shared, sessiontest.NewRunner(asking(result, "a", "b")))
			s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
			if err != nil {
				t.Fatal(err)
			}
			play(t, s, prompt(session.AskQueue))
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			answerOutside(t, shared, s.ID(), "a", approvals.AllowOnce)
			_, m2 := on(t, shared, resume)
			s2 := mustOpen(t, m2, s.ID())
			if err := s2.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := states(wholeLog(t, shared, s.ID())); got != "a cancelled" {
				t.Errorf("calls are %s", got)
			}
			if _, err := s2.Start(t.Context(), prompt(session.AskFail)); err != nil {
				t.Fatal(err)
			}
			if err := s2.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// dying is a process that is killed by its nth question.
type dying struct {
	*sessiontest.Process
	puts int
}

func (d *dying) PutAsk(ctx context.Context, l session.Lease, r approvals.Request) error {
	if d.puts--; d.puts == 0 {
		d.Kill()
	}
	return d.Process.PutAsk(ctx, l, r)
}

// TestKilledWhileAsking: some questions can be answered already, others are
// only in the log.
func TestKilledWhileAsking(t *testing.T) {
	for killed := 1; killed <= 3; killed++ {
		t.Run(fmt.Sprint(killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := session.NewMemory()
				run := sessiontest.NewResuming(sessiontest.RunSettled(result), asking(result, "a", "b", "c"))
				p := &dying{sessiontest.NewProcess(shared), killed}
				m := session.NewManager(t.Context(), session.Options{Store: p, NewRunner: run})
				s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Start(t.Context(), prompt(session.AskWait)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				_ = m.Close(t.Context()) // its process is dead
				open, err := shared.OpenAsks(t.Context(), s.ID())
				if err != nil || len(open) != killed-1 {
					t.Fatalf("%d open asks, %v", len(open), err)
				}
				want := map[string]string{"a": "completed", "b": "completed", "c": "completed"}
				for _, ask := range open {
					answerOutside(t, shared, s.ID(), ask.Request.CallID, approvals.AllowWorkspace)
				}
				_, m2 := on(t, shared, run)
				s2 := mustOpen(t, m2, s.ID())
				again, err := s2.OpenAsks(t.Context())
				if err != nil || len(again) != 3-len(open) {
					t.Fatalf("%d asks are open again, %v", len(again), err)
				}
				for _, ask := range again {
					answer(t, s2, ask.Request.CallID, approvals.AllowOnce)
				}
				synctest.Wait()
				recs := wholeLog(t, shared, s.ID())
				checkLog(t, recs)
				for _, end := range only[session.CallEnded](recs) {
					if want[end.CallID] != string(end.State) {
						t.Errorf("call %s is %s", end.CallID, end.State)
					}
					delete(want, end.CallID)
				}
				if gs, err := shared.Grants(t.Context(), "/"); len(want) > 0 || err != nil || len(gs) != len(open) {
					t.Errorf("no end of %v, %d grants of %d answers, %v", want, len(gs), len(open), err)
				}
			})
		})
	}
}
