package session_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

func TestCreateChecksItsSpec(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		spec session.Spec
		want string
	}{
		{"no cwd", session.Spec{}, "cwd is empty: give the absolute path"},
		{"relative", session.Spec{Cwd: "work"}, `cwd "work" is relative: give the absolute path`},
		{"missing", session.Spec{Cwd: filepath.Join(dir, "none")}, "does not exist: create it"},
		{"below a file", session.Spec{Cwd: filepath.Join(file, "x")}, "cannot be read: check"},
		{"file", session.Spec{Cwd: file}, "is no directory: give a directory"},
		{"relative root", session.Spec{Cwd: dir, Roots: []string{dir, "x"}}, `workspace root "x" is relative`},
		{"missing root", session.Spec{Cwd: dir, Roots: []string{filepath.Join(dir, "none")}}, "does not exist"},
		{"rung", session.Spec{Cwd: dir, Rung: 9}, "rung 9 is unknown: use manual"},
		{"id", session.Spec{Cwd: dir, ID: "x"}, "UUID of version 7"},
		{"id of version 4", session.Spec{Cwd: dir, ID: session.ID(uuid.NewString())}, "UUID of version 7"},
		{"id in upper case", session.Spec{Cwd: dir, ID: session.ID(strings.ToUpper(uuid.Must(uuid.NewV7()).String()))}, "in lower case"},
	}
	st := session.NewMemory()
	m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner()})
	for _, tt := range tests {
		s, err := m.Create(t.Context(), tt.spec)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v, want an error with %q", tt.name, s, err, tt.want)
		}
	}
	if list, _, err := st.List(t.Context(), session.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("refused sessions are stored: %v, %v", list, err)
	}
}

func TestCreateAndGet(t *testing.T) {
	st := session.NewMemory()
	m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner()})
	dir := t.TempDir()
	s, err := m.Create(t.Context(), session.Spec{Cwd: dir, Roots: []string{dir}, Surface: "test", Rung: approvals.Write})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Get(s.ID()); err != nil || got != s {
		t.Errorf("get: %v, %v", got, err)
	}
	if _, err := m.Get("x"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("get an unknown session: %v", err)
	}
	meta, err := st.Meta(t.Context(), s.ID())
	if err != nil || meta.Cwd != dir || meta.Surface != "test" || meta.Rung != approvals.Write || meta.CreatedAt.IsZero() {
		t.Errorf("stored as %+v, %v", meta, err)
	}
	if _, err := m.Create(t.Context(), session.Spec{ID: s.ID(), Cwd: dir}); !errors.Is(err, session.ErrConflict) {
		t.Errorf("create the id again: %v", err)
	}
	spec := s.Spec()
	spec.Roots[0] = "changed"
	if got := s.Spec().Roots[0]; got != dir {
		t.Errorf("the session's roots changed with the caller's: %s", got)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := m.Get(s.ID()); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("get a closed session: %v", err)
	}
	if l, err := st.Acquire(t.Context(), s.ID()); err != nil || l.Epoch < 2 {
		t.Errorf("the lease of a closed session: %+v, %v", l, err)
	}
}

func TestCreateLeavesNothingWithoutRunner(t *testing.T) {
	broken := errors.New("no such profile")
	for name, make := range map[string]session.NewRunner{
		"error": func(context.Context, session.Spec) (session.Runner, error) { return nil, broken },
		"none":  func(context.Context, session.Spec) (session.Runner, error) { return nil, nil },
		"panic": func(context.Context, session.Spec) (session.Runner, error) { panic("boom") },
	} {
		st := session.NewMemory()
		m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: make})
		_, err := m.Create(t.Context(), session.Spec{Cwd: t.TempDir()})
		if err == nil || name == "error" && !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		if list, _, err := st.List(t.Context(), session.Filter{}); err != nil || len(list) != 0 {
			t.Errorf("%s: the session is stored: %v, %v", name, list, err)
		}
	}
}

func TestSessionsShareNothing(t *testing.T) {
	m := sessiontest.Manager(t, sessiontest.Script{sessiontest.Ask(nil, offering("1"))})
	dir := t.TempDir()
	one, err := m.Create(t.Context(), session.Spec{Cwd: dir})
	if err != nil {
		t.Fatal(err)
	}
	two, err := m.Create(t.Context(), session.Spec{Cwd: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := one.SetRung(t.Context(), approvals.Auto, "test"); err != nil {
		t.Fatal(err)
	}
	ask := startAsking(t, one)
	if _, err := two.Answer(t.Context(), ask, approvals.Answer{Choice: approvals.AllowOnce}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("another session's ask was answered: %v", err)
	}
	if two.Rung() != approvals.Manual {
		t.Errorf("the rung went over: %v", two.Rung())
	}
	one.Cancel(errors.New("enough"))
	if err := one.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	sub := two.Subscribe(0)
	if err := two.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := sub.Next(t.Context()); !errors.Is(err, session.ErrClosed) {
		t.Errorf("a session without turns has the record %+v, %v", r, err)
	}
}

func TestManagerCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stubborn := sessiontest.Script{func(ctx context.Context, _ *session.Turn) (session.StopReason, error) {
			<-ctx.Done()
			<-release
			return session.StopCancelled, nil
		}}
		runner := sessiontest.New(stubborn)
		m := session.NewManager(t.Context(), session.Options{
			Store:     session.NewMemory(),
			NewRunner: func(context.Context, session.Spec) (session.Runner, error) { return runner, nil },
		})
		s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
		if err != nil {
			t.Fatal(err)
		}
		quick, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
		if err != nil {
			t.Fatal(err)
		}
		sub := s.Subscribe(0)
		id, err := s.Start(t.Context(), prompt(session.AskWait))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Close(ctx); err == nil || !strings.Contains(err.Error(), "1 of 2 had not ended") {
			t.Errorf("close with a stubborn turn: %v", err)
		}
		if _, err := quick.Start(t.Context(), prompt(session.AskWait)); !errors.Is(err, session.ErrClosed) {
			t.Errorf("start in a closed session: %v", err)
		}
		if _, err := m.Create(t.Context(), session.Spec{Cwd: "/"}); !errors.Is(err, session.ErrClosed) {
			t.Errorf("create after close: %v", err)
		}
		if err := s.SetRung(t.Context(), approvals.Auto, "t"); !errors.Is(err, session.ErrClosed) {
			t.Errorf("set the rung of a closing session: %v", err)
		}
		close(release)
		if err := m.Close(t.Context()); err != nil {
			t.Errorf("close again: %v", err)
		}
		if runner.Closed() != 2 {
			t.Errorf("the runner was closed %d times for 2 sessions", runner.Closed())
		}
		if end := endOf(t, sessiontest.ReadTurn(t.Context(), t, sub, id)); end.Reason != session.StopCancelled {
			t.Errorf("the turn ended with %+v", end)
		}
		if _, err := sub.Next(t.Context()); !errors.Is(err, session.ErrClosed) {
			t.Errorf("after the last record: %v", err)
		}
	})
}

func TestManagerCloseDuringCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan struct{})
		st := session.NewMemory()
		m := session.NewManager(t.Context(), session.Options{Store: st, NewRunner: func(ctx context.Context, _ session.Spec) (session.Runner, error) {
			close(entered)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}})
		made := make(chan error, 1)
		go func() {
			_, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
			made <- err
		}()
		<-entered
		if err := m.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-made; !errors.Is(err, session.ErrClosed) {
			t.Errorf("create: %v", err)
		}
		if list, _, err := st.List(t.Context(), session.Filter{}); err != nil || len(list) != 0 {
			t.Errorf("half a session is stored: %v, %v", list, err)
		}
	})
}

func TestParentContextEndsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("signal")
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 1)
		m := session.NewManager(ctx, session.Options{Store: session.NewMemory(), NewRunner: sessiontest.NewRunner(sessiontest.Script{
			func(ctx context.Context, _ *session.Turn) (session.StopReason, error) {
				<-ctx.Done()
				got <- context.Cause(ctx)
				return "", context.Cause(ctx)
			},
		})})
		s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(t.Context(), prompt(session.AskWait)); err != nil {
			t.Fatal(err)
		}
		cancel(cause)
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-got; !errors.Is(err, cause) || !errors.Is(err, session.ErrOwnerLost) {
			t.Errorf("the turn was cancelled for %v", err)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCloseReportsTheRunner(t *testing.T) {
	for name, run := range map[string]session.Runner{"error": badCloser{errors.New("child is left")}, "panic": badCloser{nil}} {
		st := session.NewMemory()
		m := session.NewManager(t.Context(), session.Options{Store: st, NewRunner: func(context.Context, session.Spec) (session.Runner, error) { return run, nil }})
		s, err := m.Create(t.Context(), session.Spec{Cwd: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Close(t.Context()); err == nil {
				t.Errorf("%s: Close hides what the runner's Close said", name)
			}
		}
		if _, err := st.Acquire(t.Context(), s.ID()); err != nil {
			t.Errorf("%s: the lease was kept: %v", name, err)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Errorf("%s: close a manager without sessions: %v", name, err)
		}
	}
}

type badCloser struct{ err error }

func (badCloser) Run(context.Context, *session.Turn) (session.StopReason, error) {
	return session.StopEndTurn, nil
}

func (b badCloser) Close(context.Context) error {
	if b.err == nil {
		panic("boom")
	}
	return b.err
}
