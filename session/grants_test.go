package session_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// decides tells what grants make of the call that offering(call) offers,
// at a rung where nothing else would approve or refuse it.
func decides(g *approvals.Grants, call string) approvals.Action {
	r := approvals.Read(approvals.Call{ID: "x", Tool: "make_" + call, Arguments: []byte(`{}`)}, approvals.Place{Cwd: "/work", Home: "/home/u", Roots: []string{"/work"}})
	return approvals.Evaluate(r, approvals.Posture{Rung: approvals.Manual, Grants: g}, nil).Action
}

func TestStickyAnswers(t *testing.T) {
	tests := []struct {
		choice             approvals.Choice
		own, other         approvals.Action
		session, workspace int
	}{
		{approvals.AllowOnce, approvals.Ask, approvals.Ask, 0, 0},
		{approvals.AllowSession, approvals.Approve, approvals.Ask, 1, 0},
		{approvals.AllowWorkspace, approvals.Approve, approvals.Approve, 0, 1},
		{approvals.RejectSession, approvals.Reject, approvals.Ask, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.choice.String(), func(t *testing.T) {
			real := t.TempDir()
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(real, link); err != nil {
				t.Fatal(err)
			}
			var own, other approvals.Action
			st := session.NewMemory()
			m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner(
				sessiontest.Script{
					sessiontest.Ask(func(_ context.Context, turn *session.Turn, _ []session.Settled) error {
						own = decides(turn.Grants(), "1")
						return nil
					}, offering("1")),
				},
			)})
			s, err := m.Create(t.Context(), session.Spec{Cwd: link, Rung: approvals.Write})
			if err != nil {
				t.Fatal(err)
			}
			ask := startAsking(t, s)
			stored, err := s.Answer(t.Context(), ask, approvals.Answer{Choice: tt.choice, By: "test"})
			if err != nil {
				t.Fatal(err)
			}
			// What the answer brought is stored when Answer returns.
			granted := only[session.Granted](wholeLog(t, st, s.ID()))
			kept, err := st.Grants(t.Context(), real)
			if err != nil || len(granted) != tt.session || len(kept) != tt.workspace {
				t.Fatalf("%d session and %d workspace grants, %v", len(granted), len(kept), err)
			}
			for _, g := range []*approvals.Grant{stored.Decision.Grant, stored.Decision.Refusal} {
				if g != nil && (g.ID == "" || g.At.IsZero() || g.By != "test" || g.Ask != ask || g.Rung != approvals.Manual || g.Cwd != "." || g.Scope != stored.Decision.Scope) {
					t.Errorf("the grant is %+v", g)
				}
			}
			if err := s.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			second := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner(step(
				func(_ context.Context, turn *session.Turn) (session.StopReason, error) {
					other = decides(turn.Grants(), "1")
					return session.StopEndTurn, nil
				},
			))})
			s2, err := second.Create(t.Context(), session.Spec{Cwd: real})
			if err != nil {
				t.Fatal(err)
			}
			play(t, s2, prompt(session.AskWait))
			if own != tt.own || other != tt.other {
				t.Errorf("the same call then: %v here and %v in another session, want %v and %v", own, other, tt.own, tt.other)
			}
		})
	}
}

func TestGrantsFollowTheRung(t *testing.T) {
	born := func(r approvals.Rung) approvals.Request {
		req := offering(r.String())
		req.Rung = r
		return req
	}
	var seen map[approvals.Rung]approvals.Action
	look := step(func(_ context.Context, turn *session.Turn) (session.StopReason, error) {
		g := turn.Grants()
		if again := turn.Grants(); again != g {
			t.Error("unchanged grants were compiled again")
		}
		seen = map[approvals.Rung]approvals.Action{}
		for _, r := range approvals.Rungs() {
			seen[r] = decides(g, r.String())
		}
		return session.StopEndTurn, nil
	})
	ask := sessiontest.Script{sessiontest.Ask(nil, born(approvals.Manual), born(approvals.Write), born(approvals.Auto), born(approvals.Bypass))}
	s := sessiontest.Open(t, ask, look)
	set := func(r approvals.Rung) {
		t.Helper()
		if err := s.SetRung(t.Context(), r, "test"); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, want ...approvals.Rung) {
		t.Helper()
		play(t, s, prompt(session.AskWait))
		for _, r := range approvals.Rungs() {
			action := approvals.Ask
			for _, w := range want {
				if w == r {
					action = approvals.Approve
				}
			}
			if seen[r] != action {
				t.Errorf("%s: the grant born at %v gives %v, want %v", when, r, seen[r], action)
			}
		}
	}
	set(approvals.Bypass)
	sub := s.Subscribe(0)
	id, err := s.Start(t.Context(), prompt(session.AskWait))
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 4; {
		r, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a, ok := r.Event.(session.Asked)
		if !ok {
			continue
		}
		n++
		stored, err := s.Answer(t.Context(), a.Request.ID, approvals.Answer{Choice: approvals.AllowSession})
		if err != nil || (stored.Decision.Grant == nil) != (a.Request.Rung == approvals.Bypass) {
			t.Errorf("born at %v: %+v, %v", a.Request.Rung, stored.Decision, err)
		}
	}
	sessiontest.ReadTurn(t.Context(), t, sub, id)
	expect("at bypass", approvals.Manual, approvals.Write, approvals.Auto)
	set(approvals.Auto)
	expect("at auto", approvals.Manual, approvals.Write, approvals.Auto)
	set(approvals.Assisted)
	expect("at assisted", approvals.Manual, approvals.Write)
	set(approvals.Bypass)
	expect("at bypass again", approvals.Manual, approvals.Write)
	set(approvals.Manual)
	expect("at manual", approvals.Manual)
}

func TestStricterRungBeforeTheAnswer(t *testing.T) {
	req := offering("1")
	req.Rung = approvals.Auto
	a := newAsker(t, req)
	id := startAsking(t, a.s)
	if err := a.s.SetRung(t.Context(), approvals.Manual, "test"); err != nil {
		t.Fatal(err)
	}
	stored, err := a.s.Answer(t.Context(), id, approvals.Answer{Choice: approvals.AllowSession})
	if err != nil || stored.Decision.Action != approvals.Approve || stored.Decision.Grant != nil || stored.Decision.Scope != approvals.ScopeOnce {
		t.Errorf("a session grant from auto at manual: %+v, %v", stored.Decision, err)
	}
	if g := only[session.Granted](wholeLog(t, a.st, a.s.ID())); len(g) != 0 {
		t.Errorf("it was stored: %+v", g)
	}
}

func TestWorkspaceGrantsAreReadEachTime(t *testing.T) {
	st := &faulty{Store: session.NewMemory()}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	grant := approvals.Grant{ID: "g", Entry: approvals.Entry{Type: "tool", Matcher: "exact", Pattern: "make_1"}, Scope: approvals.ScopeWorkspace}
	m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner(step(
		func(ctx context.Context, turn *session.Turn) (session.StopReason, error) {
			want := func(when string, a approvals.Action) {
				t.Helper()
				if got := decides(turn.Grants(), "1"); got != a {
					t.Errorf("%s: %v, want %v", when, got, a)
				}
			}
			want("at first", approvals.Ask)
			if err := st.PutGrant(ctx, dir, grant); err != nil {
				return "", err
			}
			want("after another session granted", approvals.Approve)
			st.set(func(f *faulty) { f.reads = errDisk })
			want("when the store cannot be read", approvals.Ask)
			st.set(func(f *faulty) { f.reads = nil })
			want("when it can again", approvals.Approve)
			if err := st.DeleteGrant(ctx, dir, "g"); err != nil {
				return "", err
			}
			want("after it was revoked", approvals.Ask)
			return session.StopEndTurn, nil
		},
	))})
	s, err := m.Create(t.Context(), session.Spec{Cwd: dir})
	if err != nil {
		t.Fatal(err)
	}
	if end := endOf(t, play(t, s, prompt(session.AskWait))); end.Reason != session.StopEndTurn {
		t.Errorf("the turn ended with %+v", end)
	}
}

// TestAnswerFromElsewhereBehindAStricterRung has another process settle an
// ask with the rung of before.
func TestAnswerFromElsewhereBehindAStricterRung(t *testing.T) {
	for born, want := range map[approvals.Rung]int{approvals.Manual: 1, approvals.Write: 1, approvals.Auto: 0, approvals.Bypass: 0} {
		a := newAsker(t, offering("1"))
		id := startAsking(t, a.s)
		g := approvals.Grant{ID: "g", Entry: offering("1").AllowSession.Entry, Scope: approvals.ScopeSession, Rung: born}
		d := approvals.Decision{Action: approvals.Approve, Scope: approvals.ScopeSession, Grant: &g}
		if _, err := a.st.AnswerAsk(t.Context(), id, approvals.Answer{Choice: approvals.AllowSession}, d); err != nil {
			t.Fatal(err)
		}
		if err := a.s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(only[session.Granted](wholeLog(t, a.st, a.s.ID()))); n != want || a.err != nil {
			t.Errorf("born at %v, in a session at write: %d grants, want %d; %v", born, n, want, a.err)
		}
	}
}

// TestGrantFromOutside: a workspace grant that another process's answer
// brings is stored when Answer returns, and stays revoked when its session
// opens.
func TestGrantFromOutside(t *testing.T) {
	shared, work := session.NewMemory(), t.TempDir()
	owner, m := on(t, shared, sessiontest.NewRunner(sessiontest.Script{sessiontest.Ask(nil, offering("1"))}))
	s, err := m.Create(t.Context(), session.Spec{Cwd: work, Rung: approvals.Write})
	if err != nil {
		t.Fatal(err)
	}
	startAsking(t, s)
	owner.Kill()
	real, err := filepath.EvalSymlinks(work)
	if err != nil {
		t.Fatal(err)
	}
	answerOutside(t, shared, s.ID(), "1", approvals.AllowWorkspace)
	kept, err := shared.Grants(t.Context(), real)
	if err != nil || len(kept) != 1 {
		t.Fatalf("%d grants, %v: want one before the session opens", len(kept), err)
	}
	if err := shared.DeleteGrant(t.Context(), real, kept[0].ID); err != nil {
		t.Fatal(err)
	}
	_, second := on(t, shared, sessiontest.NewRunner(sessiontest.Script{}))
	mustOpen(t, second, s.ID())
	if recs := wholeLog(t, shared, s.ID()); len(only[session.Answered](recs)) != 1 {
		t.Error("the opened session does not know its answer")
	}
	if kept, err = shared.Grants(t.Context(), real); err != nil || len(kept) != 0 {
		t.Errorf("%d grants, %v: a revoked one came back", len(kept), err)
	}
}
