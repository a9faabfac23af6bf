package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// offering is a request with all three sticky answers.
func offering(call string) approvals.Request {
	r := request(call)
	offer := func() *approvals.Offer {
		return &approvals.Offer{Entry: approvals.Entry{Type: "tool", Matcher: "exact", Pattern: "make_" + call}}
	}
	r.AllowSession, r.AllowWorkspace, r.RejectSession = offer(), offer(), offer()
	return r
}

// startAsking starts a turn and returns the id of its first ask.
func startAsking(t *testing.T, s *session.Session) string {
	t.Helper()
	sub := s.Subscribe(0)
	defer sub.Close()
	id, err := s.Start(t.Context(), prompt(session.AskWait))
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := r.Event.(session.Asked); ok && r.Turn == id {
			return a.Request.ID
		}
	}
}

func only[T session.Event](recs []session.Record) (out []T) {
	for _, r := range recs {
		if e, ok := r.Event.(T); ok {
			out = append(out, e)
		}
	}
	return out
}

// wholeLog reads what a session has stored.
func wholeLog(t *testing.T, st session.Store, id session.ID) []session.Record {
	t.Helper()
	recs, err := st.After(t.Context(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

// asker is a session whose turns ask reqs, on a store of its own.
type asker struct {
	st      session.Store
	s       *session.Session
	settled []session.Settled // read it after the turn
	err     error
}

func newAsker(t *testing.T, reqs ...approvals.Request) *asker {
	t.Helper()
	a := &asker{st: session.NewMemory()}
	m := sessiontest.ManagerWith(t, session.Options{Store: a.st, NewRunner: sessiontest.NewRunner(sessiontest.Script{
		func(ctx context.Context, turn *session.Turn) (session.StopReason, error) {
			a.settled, a.err = turn.Ask(ctx, reqs)
			return "", a.err
		},
	})})
	s, err := m.Create(t.Context(), session.Spec{Cwd: t.TempDir(), Rung: approvals.Write})
	if err != nil {
		t.Fatal(err)
	}
	a.s = s
	return a
}

func TestAskWaitsForAll(t *testing.T) {
	a := newAsker(t, request("1"), request("2"), request("3"))
	a.s.Subscribe(0).Close()
	startAsking(t, a.s)
	open, err := a.st.OpenAsks(t.Context(), a.s.ID())
	if err != nil || len(open) != 3 {
		t.Fatalf("open asks: %v, %v", open, err)
	}
	for i := range open { // the last first
		req := open[len(open)-1-i].Request
		u, err := uuid.Parse(req.ID)
		if err != nil || u.Version() != 7 || req.Session != string(a.s.ID()) || req.Created.IsZero() || !req.Expires.IsZero() {
			t.Errorf("the ask is stamped %+v", req)
		}
		choice := approvals.AllowOnce
		if req.CallID == "2" {
			choice = approvals.RejectOnce
		}
		if _, err := a.s.Answer(t.Context(), req.ID, approvals.Answer{Choice: choice, By: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.err != nil || len(a.settled) != 3 {
		t.Fatalf("%d settled, %v", len(a.settled), a.err)
	}
	for i, s := range a.settled {
		want := approvals.Approve
		if i == 1 {
			want = approvals.Reject
		}
		if s.Request.CallID != fmt.Sprint(i+1) || s.Decision.Action != want || s.Answer.By != "test" || s.Answer.At.IsZero() {
			t.Errorf("settled %d: %+v", i, s)
		}
	}
	recs := wholeLog(t, a.st, a.s.ID())
	if asked, answered := only[session.Asked](recs), only[session.Answered](recs); len(asked) != 3 || len(answered) != 3 || answered[0].CallID != "3" {
		t.Errorf("%d asked and %+v", len(asked), answered)
	}
}

func TestAskModes(t *testing.T) {
	typed := request("2")
	typed.Typed = true
	tests := []struct {
		on     session.OnAsk
		err    error
		reason session.StopReason
		state  session.AskState
		open   int
	}{
		{session.AskFail, session.ErrPersonNeeded, session.StopAsked, session.AskAnswered, 0},
		{session.AskQueue, session.ErrPersonNeeded, session.StopAsked, session.AskOpen, 2},
		{session.AskDeny, nil, session.StopEndTurn, session.AskAnswered, 0},
		{session.OnAsk(99), session.ErrPersonNeeded, session.StopAsked, session.AskAnswered, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.on), func(t *testing.T) {
			a := newAsker(t, request("1"), typed)
			recs := play(t, a.s, prompt(tt.on))
			if !errors.Is(a.err, tt.err) || endOf(t, recs).Reason != tt.reason {
				t.Fatalf("Ask: %v, and the turn ended with %+v", a.err, endOf(t, recs))
			}
			open, err := a.st.OpenAsks(t.Context(), a.s.ID())
			if err != nil || len(open) != tt.open {
				t.Errorf("%d asks are open, want %d; %v", len(open), tt.open, err)
			}
			asked, answered := only[session.Asked](recs), only[session.Answered](recs)
			if len(asked) != 2 || len(answered) != 2-tt.open {
				t.Fatalf("%d asked, %d answered", len(asked), len(answered))
			}
			for _, q := range asked {
				if stored, err := a.st.GetAsk(t.Context(), q.Request.ID); err != nil || stored.State != tt.state {
					t.Errorf("the ask is %+v, %v", stored, err)
				}
			}
			for _, ans := range answered {
				if ans.Decision.Action == approvals.Approve || (ans.Answer.Choice == approvals.Unanswered) == (tt.on == session.AskDeny) {
					t.Errorf("answered %+v", ans)
				}
			}
			if tt.on == session.AskDeny && (len(a.settled) != 2 || a.settled[0].Decision.Message == "" || a.settled[1].Decision.Action != approvals.Halt) {
				t.Errorf("settled %+v", a.settled)
			}
		})
	}
}

func TestQueuedAskIsAnsweredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t, offering("1"), offering("2"))
		recs := play(t, a.s, prompt(session.AskQueue))
		asked := only[session.Asked](recs)
		if want := asked[0].Request.Created.Add(24 * time.Hour); !asked[0].Request.Expires.Equal(want) {
			t.Errorf("the ask expires at %v, want %v", asked[0].Request.Expires, want)
		}
		if _, err := a.s.Answer(t.Context(), asked[0].Request.ID, approvals.Answer{Choice: approvals.AllowSession}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		stored, err := a.s.Answer(t.Context(), asked[1].Request.ID, approvals.Answer{Choice: approvals.AllowOnce})
		if !errors.Is(err, session.ErrConflict) || stored.State != session.AskExpired {
			t.Errorf("an answer after the expiry: %+v, %v", stored, err)
		}
		recs = wholeLog(t, a.st, a.s.ID())[len(recs):]
		answered := only[session.Answered](recs)
		if len(answered) != 2 || answered[1].Answer.Choice != approvals.Unanswered || answered[1].Decision.Action != approvals.Reject || len(only[session.Granted](recs)) != 1 {
			t.Errorf("after the turn: %+v", recs)
		}
		for _, r := range recs {
			if r.Turn != "" {
				t.Errorf("record %d belongs to turn %s, which has ended", r.Seq, r.Turn)
			}
		}
	})
}

func TestCancelSettlesOpenAsks(t *testing.T) {
	cause := errors.New("the client went away")
	a := newAsker(t, offering("1"), request("2"))
	first := startAsking(t, a.s)
	if _, err := a.s.Answer(t.Context(), first, approvals.Answer{Choice: approvals.AllowOnce, By: "test"}); err != nil {
		t.Fatal(err)
	}
	a.s.Cancel(cause)
	if err := a.s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(a.err, cause) {
		t.Errorf("Ask returned %v, want the cause", a.err)
	}
	recs := wholeLog(t, a.st, a.s.ID())
	answered := only[session.Answered](recs)
	if len(answered) != 2 || answered[0].Answer.Choice != approvals.AllowOnce || answered[1].Answer.Choice != approvals.Unanswered {
		t.Errorf("answered %+v", answered)
	}
	if end := endOf(t, recs); end.Reason != session.StopCancelled {
		t.Errorf("the turn ended with %+v", end)
	}
	if _, err := a.s.Answer(t.Context(), answered[1].AskID, approvals.Answer{Choice: approvals.AllowOnce}); !errors.Is(err, session.ErrConflict) {
		t.Errorf("an answer after the cancellation: %v", err)
	}
}

// TestAbandonedAsk has a runner that asks in a goroutine and returns.
func TestAbandonedAsk(t *testing.T) {
	asked := make(chan struct{})
	done := make(chan error, 1)
	st := session.NewMemory()
	m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner(step(
		func(ctx context.Context, turn *session.Turn) (session.StopReason, error) {
			go func() {
				_, err := turn.Ask(ctx, []approvals.Request{request("1")})
				done <- err
			}()
			<-asked
			return session.StopEndTurn, nil
		},
	))})
	s, err := m.Create(t.Context(), session.Spec{Cwd: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	startAsking(t, s)
	close(asked)
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the abandoned ask was answered")
	}
	recs := wholeLog(t, st, s.ID())
	if len(only[session.Answered](recs)) != 1 {
		t.Errorf("the ask was left open: %+v", recs)
	}
	endOf(t, recs)
}

func TestAnswerFromTheStore(t *testing.T) {
	a := newAsker(t, request("1"))
	id := startAsking(t, a.s)
	ans := approvals.Answer{Choice: approvals.AllowOnce, By: "elsewhere", At: time.Now()}
	if _, err := a.st.AnswerAsk(t.Context(), id, ans, approvals.Decision{Action: approvals.Approve}); err != nil {
		t.Fatal(err)
	}
	if err := a.s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	answered := only[session.Answered](wholeLog(t, a.st, a.s.ID()))
	if a.err != nil || len(a.settled) != 1 || len(answered) != 1 || answered[0].Answer.By != "elsewhere" {
		t.Errorf("%+v, %v, %+v", a.settled, a.err, answered)
	}
}

func TestAskLimit(t *testing.T) {
	reqs := make([]approvals.Request, 65)
	for i := range reqs {
		reqs[i] = request(fmt.Sprint(i))
	}
	a := newAsker(t, reqs...)
	end := endOf(t, play(t, a.s, prompt(session.AskWait)))
	if end.Reason != session.StopFailed || end.ErrorKind != "limit" {
		t.Errorf("65 asks ended the turn with %+v", end)
	}
	if open, err := a.st.OpenAsks(t.Context(), ""); err != nil || len(open) != 0 {
		t.Errorf("%d asks are stored, %v", len(open), err)
	}
}

func TestAnswerRefusesStrangers(t *testing.T) {
	a := newAsker(t, request("1"))
	if _, err := a.s.Answer(t.Context(), "x", approvals.Answer{}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("an unknown ask: %v", err)
	}
	id := startAsking(t, a.s)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.s.Answer(cancelled, id, approvals.Answer{Choice: approvals.AllowOnce}); !errors.Is(err, context.Canceled) {
		t.Errorf("under a cancelled context: %v", err)
	}
	// What was not offered refuses.
	stored, err := a.s.Answer(t.Context(), id, approvals.Answer{Choice: approvals.AllowSession})
	if err != nil || stored.Decision.Action != approvals.Reject || stored.Decision.Grant != nil {
		t.Errorf("an answer that was not offered: %+v, %v", stored, err)
	}
}

func TestCancelSettlesQueuedAsks(t *testing.T) {
	st := session.NewMemory()
	m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner(sessiontest.Script{
		func(ctx context.Context, turn *session.Turn) (session.StopReason, error) {
			_, err := turn.Ask(ctx, []approvals.Request{request("1")})
			if !errors.Is(err, session.ErrPersonNeeded) {
				return "", err
			}
			return "", nil
		},
		sessiontest.Block(),
	})})
	s, err := m.Create(t.Context(), session.Spec{Cwd: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	sub := s.Subscribe(0)
	defer sub.Close()
	id, err := s.Start(t.Context(), prompt(session.AskQueue))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := sub.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.Cancel(errors.New("enough"))
	recs := sessiontest.ReadTurn(t.Context(), t, sub, id)
	open, err := st.OpenAsks(t.Context(), "")
	if err != nil || len(open) != 0 || len(only[session.Answered](recs)) != 1 || endOf(t, recs).Reason != session.StopCancelled {
		t.Errorf("%d asks are open, %v, after %+v", len(open), err, recs)
	}
}
