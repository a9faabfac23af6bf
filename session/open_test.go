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
