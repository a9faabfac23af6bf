package session_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// step makes a script of one function.
func step(f func(context.Context, *session.Turn) (session.StopReason, error)) sessiontest.Script {
	return sessiontest.Script{f}
}

func TestHowTurnsEnd(t *testing.T) {
	base := errors.New("base")
	tests := []struct {
		name   string
		script sessiontest.Script
		want   session.TurnEnded
		text   string
	}{
		{"end of script", nil, session.TurnEnded{Reason: session.StopEndTurn}, ""},
		{"reason", sessiontest.Script{sessiontest.Stop(session.StopMaxSteps)}, session.TurnEnded{Reason: session.StopMaxSteps}, ""},
		{"turn error", sessiontest.Script{sessiontest.Fail(session.KindModel, "502")}, session.TurnEnded{Reason: session.StopFailed, ErrorKind: "model"}, "502"},
		{"wrapped turn error", step(func(context.Context, *session.Turn) (session.StopReason, error) {
			return "", fmt.Errorf("outer: %w", &session.TurnError{Kind: session.KindAuth, Err: base, Hint: "set a key"})
		}), session.TurnEnded{Reason: session.StopFailed, ErrorKind: "auth"}, "outer: base: set a key"},
		{"plain error", step(func(context.Context, *session.Turn) (session.StopReason, error) {
			return session.StopEndTurn, base
		}), session.TurnEnded{Reason: session.StopFailed, ErrorKind: "internal"}, "base"},
		{"a person is needed", step(func(context.Context, *session.Turn) (session.StopReason, error) {
			return "", fmt.Errorf("step: %w", session.ErrPersonNeeded)
		}), session.TurnEnded{Reason: session.StopAsked}, ""},
		{"panic", sessiontest.Script{sessiontest.Panic("boom")}, session.TurnEnded{Reason: session.StopFailed, ErrorKind: "internal"}, "panicked: boom"},
		{"nil panic", sessiontest.Script{sessiontest.Panic(nil)}, session.TurnEnded{Reason: session.StopFailed, ErrorKind: "internal"}, "panicked"},
		{"goexit", step(func(context.Context, *session.Turn) (session.StopReason, error) {
			runtime.Goexit()
			return session.StopEndTurn, nil
		}), session.TurnEnded{Reason: session.StopFailed, ErrorKind: "internal"}, "left its goroutine"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := sessiontest.Open(t, tt.script)
			recs := play(t, s, prompt(session.AskWait))
			end := endOf(t, recs)
			if end.Reason != tt.want.Reason || end.ErrorKind != tt.want.ErrorKind || !strings.Contains(end.Error, tt.text) || (end.Error == "") != (tt.text == "") {
				t.Errorf("the turn ended with %+v, want %+v and a text with %q", end, tt.want, tt.text)
			}
			if last := recs[len(recs)-1]; last.Seq != 2 || last.Turn != end.ID {
				t.Errorf("the end is record %d of turn %q", last.Seq, last.Turn)
			}
			if again := endOf(t, play(t, s, prompt(session.AskWait))); again.Reason == "" {
				t.Error("the next turn did not run")
			}
		})
	}
}

type mute struct{}

func (mute) Run(context.Context, *session.Turn) (session.StopReason, error) { return "", nil }
func (mute) Close(context.Context) error                                    { return nil }

func TestRunnerWithoutReason(t *testing.T) {
	m := sessiontest.ManagerWith(t, session.Options{Store: session.NewMemory(), NewRunner: func(context.Context, session.Spec) (session.Runner, error) { return mute{}, nil }})
	s, err := m.Create(t.Context(), session.Spec{Cwd: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if end := endOf(t, play(t, s, prompt(session.AskWait))); end.Reason != session.StopFailed || end.ErrorKind != "internal" {
		t.Errorf("the turn ended with %+v", end)
	}
}

func TestOneTurnAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sessiontest.Open(t, sessiontest.Script{sessiontest.Block()})
		sub := s.Subscribe(0)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
		id, err := s.Start(ctx, prompt(session.AskWait))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if _, err := s.Start(t.Context(), prompt(session.AskWait)); !errors.Is(err, session.ErrBusy) {
			t.Errorf("a second turn: %v, want ErrBusy", err)
		}
		s.Cancel(errors.New("stop"))
		s.Cancel(errors.New("stop again"))
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if end := endOf(t, sessiontest.ReadTurn(t.Context(), t, sub, id)); end.Reason != session.StopCancelled || end.Error != "" {
			t.Errorf("the turn ended with %+v", end)
		}
		s.Cancel(errors.New("nothing runs"))
		if _, err := s.Start(ctx, prompt(session.AskWait)); !errors.Is(err, context.Canceled) {
			t.Errorf("start under a cancelled context: %v", err)
		}
		if err := s.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

type key struct{}

func TestTurnKeepsValuesNotCancellation(t *testing.T) {
	var value any
	var alive error
	released := make(chan struct{})
	s := sessiontest.Open(t, step(func(ctx context.Context, _ *session.Turn) (session.StopReason, error) {
		<-released
		value, alive = ctx.Value(key{}), ctx.Err()
		return session.StopEndTurn, nil
	}))
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
	if _, err := s.Start(ctx, prompt(session.AskWait)); err != nil {
		t.Fatal(err)
	}
	cancel()
	close(released)
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if value != "trace" || alive != nil {
		t.Errorf("the turn's context has value %v and error %v", value, alive)
	}
}

// TestNextTurnAtOnce starts a turn from within the reader that saw the end
// of the one before, as clients do.
func TestNextTurnAtOnce(t *testing.T) {
	s := sessiontest.Open(t, nil)
	sub := s.Subscribe(0)
	defer sub.Close()
	for i := range 200 {
		id, err := s.Start(t.Context(), prompt(session.AskWait))
		if err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
		sessiontest.ReadTurn(t.Context(), t, sub, id)
	}
}

func TestTurnSeesAndAppends(t *testing.T) {
	var turn *session.Turn
	s := sessiontest.Open(t, step(func(ctx context.Context, tn *session.Turn) (session.StopReason, error) {
		turn = tn
		if err := tn.Append(ctx, session.Step{Number: 1, Message: []byte(`{}`), Usage: session.Usage{Input: 1, Output: 2}}, session.Text{Message: "m", Text: "hello"}); err != nil {
			return "", err
		}
		if err := tn.AppendSync(ctx, session.Step{Number: 2, Message: []byte(`{}`), Usage: session.Usage{Input: 10, Cached: 3}}); err != nil {
			return "", err
		}
		for _, ev := range []session.Event{
			session.TurnStarted{},
			session.TurnEnded{},
			session.RungChanged{},
			session.Asked{},
			session.Answered{},
			session.Granted{},
			session.TextDelta{},
			&session.Text{}, nil,
		} {
			if err := tn.Append(ctx, session.TitleChanged{Title: "no"}, ev); err == nil {
				t.Errorf("a %T was appended", ev)
			}
		}
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		if err := tn.Append(cancelled, session.TitleChanged{Title: "no"}); !errors.Is(err, context.Canceled) {
			t.Errorf("append under a cancelled context: %v", err)
		}
		tn.Show(session.Text{Text: "not live"})
		if n := len(tn.Records()); n != 4 && n != 10 {
			t.Errorf("the turn sees %d records, want 4, or 10 in the second turn", n)
		}
		if tn.Records()[0].Event.(session.TurnStarted).By != tn.Prompt().By || tn.Session().Rung != tn.Rung() {
			t.Errorf("the turn sees %+v and %+v", tn.Prompt(), tn.Session())
		}
		return session.StopEndTurn, nil
	}))
	recs := play(t, s, prompt(session.AskWait))
	if len(recs) != 5 {
		t.Fatalf("%d records: %+v", len(recs), recs)
	}
	for i, r := range recs {
		if r.Seq != session.Seq(i+1) || r.Turn != turn.ID() || r.At.IsZero() {
			t.Errorf("record %d: %+v", i+1, r)
		}
	}
	if d := cmp.Diff(session.Usage{Input: 11, Output: 2, Cached: 3}, endOf(t, recs).Usage); d != "" {
		t.Errorf("usage (-want +got):\n%s", d)
	}
	if err := turn.Append(t.Context(), session.Text{Text: "late"}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("append after the turn: %v", err)
	}
	sub := s.Subscribe(session.Seq(len(recs)))
	turn.Show(session.TextDelta{Text: "late"})
	if err := s.SetRung(t.Context(), approvals.Write, "test"); err != nil {
		t.Fatal(err)
	}
	if r, err := sub.Next(t.Context()); err != nil || r.Seq != 6 {
		t.Errorf("after the turn it showed %+v, %v", r, err)
	}
	sub.Close()
	if _, err := turn.Ask(t.Context(), []approvals.Request{request("late")}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("ask after the turn: %v", err)
	}
	if err := turn.Claim(t.Context(), "x", "d"); !errors.Is(err, session.ErrClosed) {
		t.Errorf("claim after the turn: %v", err)
	}
	if n := len(play(t, s, prompt(session.AskWait))); n != 11 {
		t.Errorf("two turns and a rung left %d records, want 11", n)
	}
}

func TestRungs(t *testing.T) {
	st := session.NewMemory()
	m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner(sessiontest.Script{sessiontest.Block()})})
	s, err := m.Create(t.Context(), session.Spec{Cwd: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	sub := s.Subscribe(0)
	if err := s.SetRung(t.Context(), 77, "test"); err == nil {
		t.Error("an unknown rung was set")
	}
	for _, r := range []approvals.Rung{approvals.Manual, approvals.Auto, approvals.Auto, approvals.Write} {
		if err := s.SetRung(t.Context(), r, "test"); err != nil {
			t.Fatal(err)
		}
		if s.Rung() != r {
			t.Errorf("rung %v after it was set to %v", s.Rung(), r)
		}
		if meta, err := st.Meta(t.Context(), s.ID()); err != nil || meta.Rung != r {
			t.Errorf("the index has rung %v, %v", meta.Rung, err)
		}
	}
	var got []session.Event
	for range 2 {
		r, err := sub.Next(t.Context())
		if err != nil || r.Turn != "" {
			t.Fatalf("%+v, %v", r, err)
		}
		got = append(got, r.Event)
	}
	want := []session.Event{
		session.RungChanged{From: approvals.Manual, To: approvals.Auto, By: "test"},
		session.RungChanged{From: approvals.Auto, To: approvals.Write, By: "test"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("records (-want +got):\n%s", d)
	}
	id, err := s.Start(t.Context(), prompt(session.AskWait))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetRung(t.Context(), approvals.Manual, "test"); err != nil {
		t.Fatal(err)
	}
	s.Cancel(nil)
	recs := sessiontest.ReadTurn(t.Context(), t, sub, id)
	if _, ok := recs[1].Event.(session.RungChanged); !ok || recs[1].Turn != id {
		t.Errorf("a rung set during a turn is %+v", recs[1])
	}
}
