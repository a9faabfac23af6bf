package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// newFaulty returns a session on a store that fails on demand.
func newFaulty(t *testing.T, scripts ...sessiontest.Script) (*faulty, *session.Session) {
	t.Helper()
	st := &faulty{Store: session.NewMemory()}
	m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner(scripts...)})
	s, err := m.Create(t.Context(), session.Spec{Cwd: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return st, s
}

// checkLog fails unless every turn of the log has one start and, last, one
// end, and the numbers have no gaps.
func checkLog(t *testing.T, recs []session.Record) {
	t.Helper()
	open, ended := "", map[string]bool{}
	for i, r := range recs {
		if r.Seq != session.Seq(i+1) {
			t.Errorf("record %d has number %d", i+1, r.Seq)
		}
		if r.Turn != "" && ended[r.Turn] {
			t.Errorf("record %d, %T, follows the end of its turn", r.Seq, r.Event)
		}
		switch e := r.Event.(type) {
		case session.TurnStarted:
			if open != "" {
				t.Errorf("record %d starts a turn in another", r.Seq)
			}
			open = e.ID
		case session.TurnEnded:
			if e.ID != open || r.Turn != open {
				t.Errorf("record %d ends turn %q of %q while %q is open", r.Seq, e.ID, r.Turn, open)
			}
			open, ended[e.ID] = "", true
		}
	}
	if open != "" {
		t.Errorf("turn %s has no end", open)
	}
}

func TestStoreRefusesStart(t *testing.T) {
	for name, lossy := range map[string]bool{"refused": false, "stored and refused": true} {
		t.Run(name, func(t *testing.T) {
			st, s := newFaulty(t, nil)
			st.set(func(f *faulty) { f.refuse, f.lossy = holds[session.TurnStarted], lossy })
			_, err := s.Start(t.Context(), prompt(session.AskWait))
			var te *session.TurnError
			if !errors.Is(err, errDisk) || !errors.As(err, &te) || te.Kind != session.KindStore || !strings.Contains(err.Error(), "check the data directory") {
				t.Errorf("start: %v", err)
			}
			if err := s.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			st.set(func(f *faulty) { f.refuse = nil })
			play(t, s, prompt(session.AskWait))
			recs := wholeLog(t, st, s.ID())
			checkLog(t, recs)
			if n := len(only[session.TurnEnded](recs)); lossy && n != 2 || !lossy && n != 1 {
				t.Errorf("%d ends in the log: %+v", n, recs)
			}
		})
	}
}

func TestStoreRefusesRecords(t *testing.T) {
	for name, lossy := range map[string]bool{"refused": false, "stored and refused": true} {
		t.Run(name, func(t *testing.T) {
			var cause error
			st, s := newFaulty(t, step(func(ctx context.Context, turn *session.Turn) (session.StopReason, error) {
				if err := turn.Append(ctx, session.TitleChanged{Title: "x"}); !errors.Is(err, errDisk) {
					t.Errorf("append: %v", err)
				}
				<-ctx.Done()
				cause = context.Cause(ctx)
				return session.StopEndTurn, nil // a runner that hides the failure
			}))
			st.set(func(f *faulty) { f.refuse, f.lossy = holds[session.TitleChanged], lossy })
			end := endOf(t, play(t, s, prompt(session.AskWait)))
			if end.Reason != session.StopFailed || end.ErrorKind != "store" || !strings.Contains(end.Error, errDisk.Error()) {
				t.Errorf("the turn ended with %+v", end)
			}
			if !errors.Is(cause, errDisk) {
				t.Errorf("the turn was cancelled for %v", cause)
			}
			checkLog(t, wholeLog(t, st, s.ID()))
		})
	}
}

func TestStoreRefusesTheEnd(t *testing.T) {
	for name, lossy := range map[string]bool{"refused": false, "stored and refused": true} {
		t.Run(name, func(t *testing.T) {
			st, s := newFaulty(t, sessiontest.Script{sessiontest.Fail(session.KindModel, "502")}, nil)
			st.set(func(f *faulty) { f.refuse, f.lossy = holds[session.TurnEnded], lossy })
			sub := s.Subscribe(0)
			recs := play(t, s, prompt(session.AskWait))
			end := endOf(t, recs)
			if recs[len(recs)-1].Seq != 0 || end.Reason != session.StopFailed || end.ErrorKind != "model" {
				t.Errorf("the live end is %+v", recs[len(recs)-1])
			}
			if _, err := s.Start(t.Context(), prompt(session.AskWait)); !lossy && !errors.Is(err, errDisk) {
				t.Errorf("a turn was started while the last one has no end: %v", err)
			}
			if err := s.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			st.set(func(f *faulty) { f.refuse = nil })
			play(t, s, prompt(session.AskWait))
			log := wholeLog(t, st, s.ID())
			checkLog(t, log)
			if first := only[session.TurnEnded](log)[0]; first.ID != end.ID || first.ErrorKind != "model" {
				t.Errorf("the stored end is %+v, the live one %+v", first, end)
			}
			// A reader gets every stored record in order, and live ends between.
			var seq session.Seq
			for int(seq) < len(log) {
				r, err := sub.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if r.Seq != 0 {
					if seq++; r.Seq != seq {
						t.Fatalf("record %d came in place of %d", r.Seq, seq)
					}
				}
			}
		})
	}
}

func TestLostLeaseEndsTheSession(t *testing.T) {
	st := session.NewMemory()
	gone := make(chan struct{})
	m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner(step(
		func(ctx context.Context, turn *session.Turn) (session.StopReason, error) {
			<-gone
			return "", turn.Append(ctx, session.TitleChanged{Title: "x"})
		},
	))})
	s, err := m.Create(t.Context(), session.Spec{Cwd: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	sub := s.Subscribe(0)
	id, err := s.Start(t.Context(), prompt(session.AskWait))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Release(t.Context(), session.Lease{Session: s.ID(), Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Acquire(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	close(gone)
	end := endOf(t, sessiontest.ReadTurn(t.Context(), t, sub, id))
	if end.ErrorKind != "store" || !strings.Contains(end.Error, "another process") {
		t.Errorf("the turn ended with %+v", end)
	}
	if _, err := s.Start(t.Context(), prompt(session.AskWait)); !errors.Is(err, session.ErrLost) {
		t.Errorf("start under a lost lease: %v", err)
	}
	if n := len(wholeLog(t, st, s.ID())); n != 1 {
		t.Errorf("the log grew to %d records", n)
	}
}

func TestStoreRefusesAsks(t *testing.T) {
	for name, lossy := range map[string]bool{"refused": false, "stored and refused": true} {
		t.Run(name, func(t *testing.T) {
			var got error
			st, s := newFaulty(t, step(func(ctx context.Context, turn *session.Turn) (session.StopReason, error) {
				_, got = turn.Ask(ctx, []approvals.Request{request("1"), request("2")})
				return "", got
			}))
			st.set(func(f *faulty) { f.refuse, f.lossy = holds[session.Asked], lossy })
			end := endOf(t, play(t, s, prompt(session.AskWait)))
			if !errors.Is(got, errDisk) || end.ErrorKind != "store" {
				t.Errorf("Ask: %v, and the turn ended with %+v", got, end)
			}
			if open, err := st.OpenAsks(t.Context(), ""); err != nil || len(open) != 0 {
				t.Errorf("%d asks stayed open, %v", len(open), err)
			}
			recs := wholeLog(t, st, s.ID())
			checkLog(t, recs)
			if a, b := len(only[session.Asked](recs)), len(only[session.Answered](recs)); a != b {
				t.Errorf("%d asked and %d answered", a, b)
			}
		})
	}
}

// TestAnswerSurvivesTheLog has a store that takes an answer and refuses its
// record: the answer counts, and the next call brings it into the log.
func TestAnswerSurvivesTheLog(t *testing.T) {
	for _, choice := range []approvals.Choice{approvals.AllowSession, approvals.AllowWorkspace, approvals.RejectSession} {
		t.Run(choice.String(), func(t *testing.T) {
			st, s := newFaulty(t, sessiontest.Script{sessiontest.Ask(nil, offering("1"))}, nil)
			sub := s.Subscribe(0)
			ask := startAsking(t, s)
			st.set(func(f *faulty) { f.refuse = holds[session.Answered] })
			if _, err := s.Answer(t.Context(), ask, approvals.Answer{Choice: choice, By: "test"}); !errors.Is(err, errDisk) {
				t.Errorf("answer: %v", err)
			}
			if err := s.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			st.set(func(f *faulty) { f.refuse = nil })
			stored, err := s.Answer(t.Context(), ask, approvals.Answer{Choice: approvals.RejectOnce})
			if !errors.Is(err, session.ErrConflict) || stored.Answer.Choice != choice {
				t.Errorf("answer again: %+v, %v", stored, err)
			}
			play(t, s, prompt(session.AskWait))
			sub.Close()
			recs := wholeLog(t, st, s.ID())
			checkLog(t, recs)
			answered := only[session.Answered](recs)
			kept, err := st.Grants(t.Context(), s.Spec().Cwd)
			if err != nil || len(answered) != 1 || answered[0].Answer.Choice != choice || len(only[session.Granted](recs))+len(kept) != 1 {
				t.Errorf("the log has %+v and %+v, the workspace %+v, %v", answered, only[session.Granted](recs), kept, err)
			}
		})
	}
}

func TestAnswerIsNotTakenWhenTheStoreRefuses(t *testing.T) {
	st, s := newFaulty(t, sessiontest.Script{sessiontest.Ask(nil, offering("1"))})
	ask := startAsking(t, s)
	st.set(func(f *faulty) { f.answers = errDisk })
	if _, err := s.Answer(t.Context(), ask, approvals.Answer{Choice: approvals.AllowOnce}); !errors.Is(err, errDisk) {
		t.Errorf("answer: %v", err)
	}
	st.set(func(f *faulty) { f.answers = nil })
	if _, err := s.Answer(t.Context(), ask, approvals.Answer{Choice: approvals.AllowOnce}); err != nil {
		t.Errorf("answer again: %v", err)
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkLog(t, wholeLog(t, st, s.ID()))
}
