package shell

import (
	"context"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newEngine(t testing.TB) *Engine {
	t.Helper()
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestRunSimple(t *testing.T) {
	e := newEngine(t)
	res, err := e.Run(t.Context(), Request{Script: "echo hi\necho err >&2\nexit 3", Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	if res.Output != "hi\nerr\n" || res.ExitCode != 3 || res.Truncated {
		t.Errorf("got %+v", res)
	}
}

type checker struct {
	cmd   func(argv []string) (bool, string)
	redir func(path string, write bool) (bool, string)
}

func (c checker) Command(argv []string) (bool, string)         { return c.cmd(argv) }
func (c checker) Redirect(p string, write bool) (bool, string) { return c.redir(p, write) }

func TestGuardByHand(t *testing.T) {
	e := newEngine(t)
	n := NewNames()
	var seen [][]string
	res, err := e.Run(t.Context(), Request{
		Names: n, Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"},
		Script: "X=echo; " + n.Function + " $X 'a  b' \"c\nd\"; " + n.Function + "; echo rc=$?; " + n.Function + " false || echo rc=$?; X=rm;" + n.Function + " $X -rf /; echo after",
		Check: checker{cmd: func(argv []string) (bool, string) {
			seen = append(seen, argv)
			return argv[0] != "rm", "no rm"
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%q %+v", seen, res)
}
