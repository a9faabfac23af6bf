package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gth-server/gth-server/runner/runnertest"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built is the real program, built once for all tests of this package.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// program returns the path of the program, built from this tree.
func program(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "gth-server-test-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "gth-server")
		out, err := exec.Command("go", "build", "-o", built.path, ".").CombinedOutput()
		if err != nil {
			built.err = err
			t.Logf("%s", out)
		}
	})
	if built.err != nil {
		t.Fatalf("the program does not build: %v", built.err)
	}
	return built.path
}

// TestScript runs the command line as a person would: one file of
// testdata/script is one story. gth-server is the real program; rm, curl
// and mkfs are stand-ins that only note how they were called, in $CALLED;
// $MODEL is the base URL of a fake model that plays what its prompt says.
func TestScript(t *testing.T) {
	bin := filepath.Dir(program(t))
	stories, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(stories) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	t.Logf("%d stories", len(stories))
	model := runnertest.NewServer(t)
	strict := runnertest.NewServer(t)
	strict.RequireKey = "sesame"
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			stand := filepath.Join(e.WorkDir, ".bin")
			called := filepath.Join(e.WorkDir, ".called")
			if err := standIns(stand, called, "rm", "curl", "mkfs", "shutdown"); err != nil {
				return err
			}
			e.Setenv("PATH", strings.Join([]string{stand, bin, os.Getenv("PATH")}, string(os.PathListSeparator)))
			e.Setenv("CALLED", called)
			e.Setenv("PROGRAM", program(t))
			e.Setenv("MODEL", model.URL)
			e.Setenv("STRICT_MODEL", strict.URL)
			e.Setenv("HOME", filepath.Join(e.WorkDir, ".home"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, ".config"))
			e.Setenv("XDG_DATA_HOME", filepath.Join(e.WorkDir, ".data"))
			for _, name := range []string{"GTH_MODEL", "GTH_BASE_URL", "GTH_CONFIG", "GTH_RUNG", "GTH_DATA_DIR", "OPENAI_API_KEY", "CI", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
				e.Setenv(name, "")
			}
			return os.MkdirAll(filepath.Join(e.WorkDir, ".home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "gth-ids": queuedIDs, "gth-grant": firstGrant},
	})
}

// exits runs a command and compares its exit code: exits 10 gth-server …
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if exit, ok := err.(*exec.ExitError); ok {
		code = strconv.Itoa(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// queuedIDs puts the ids that a queued run names into SESSION and ASK.
func queuedIDs(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile(`session (\S+) ask (\S+)`).FindStringSubmatch(ts.ReadFile(args[0]))
	if m == nil {
		ts.Fatalf("no ids in %s", args[0])
	}
	ts.Setenv("SESSION", m[1])
	ts.Setenv("ASK", m[2])
}

// firstGrant puts the id of the workspace's first grant into GRANT.
func firstGrant(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(ts.Exec("gth-server", "grants", "list", "--json"))
	m := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("no grant in %s", ts.ReadFile("stdout"))
	}
	ts.Setenv("GRANT", m[1])
}

// standIns writes harmless programs that append their name and words to
// the file called.
func standIns(dir, called string, names ...string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		text := "#!/bin/sh\necho \"" + name + " $*\" >> " + shellQuote(called) + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// TestUnknownCommand shows the shape of a usage error without a process.
func TestUnknownCommand(t *testing.T) {
	var out, errs strings.Builder
	std := stdio{in: strings.NewReader(""), out: &out, err: &errs, env: func(string) string { return "" }}
	if code := run(context.Background(), std, []string{"chekc"}); code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	if !strings.Contains(errs.String(), "--help") || out.Len() > 0 {
		t.Errorf("stdout %q, stderr %q: want only a hint on stderr", out.String(), errs.String())
	}
}
