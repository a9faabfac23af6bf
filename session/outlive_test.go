package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

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
