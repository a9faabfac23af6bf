//go:build linux || darwin

package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testEnv = []string{"PATH=/usr/bin:/bin"}

func newEngine(t testing.TB) *Engine {
	t.Helper()
	e, err := New(Options{KillGrace: 200 * time.Millisecond})
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

func run(t *testing.T, e *Engine, r Request) Result {
	t.Helper()
	r.Dir = t.TempDir()
	if r.Env == nil {
		r.Env = testEnv
	}
	res, err := e.Run(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// checker is a Checker of two functions.
type checker struct {
	cmd   func(argv []string) (bool, string)
	redir func(path string, write bool) (bool, string)
}

func (c checker) Command(_ string, argv []string) (bool, string)  { return c.cmd(argv) }
func (c checker) Redirect(_, p string, write bool) (bool, string) { return c.redir(p, write) }

func TestResults(t *testing.T) {
	e := newEngine(t)
	for _, c := range []struct {
		script string
		exit   int
		out    string
	}{
		{"echo hi\necho err >&2\nexit 3", 3, "hi\nerr\n"},
		{"", 0, ""},
		{"kill -9 $$", 137, ""},
		{"cat; echo $?", 0, "0\n"},
		{"nosuch", 127, "bash: line 1: nosuch: command not found\n"},
		{"echo $0", 0, "bash\n"},
		{"exec 2>&-; echo x >&2; echo y", 0, "y\n"},
	} {
		res := run(t, e, Request{Script: c.script})
		if res.ExitCode != c.exit || res.Output != c.out || res.Truncated || res.TotalBytes != int64(len(c.out)) {
			t.Errorf("%q: got %+v", c.script, res)
		}
	}
}

func TestBadRequests(t *testing.T) {
	e := newEngine(t)
	n := NewNames()
	for name, r := range map[string]Request{
		"NUL":           {Script: "echo \x00"},
		"too long":      {Script: strings.Repeat("x", maxScript+1)},
		"no directory":  {Script: "true", Dir: "/nonexistent/dir"},
		"missing names": {Script: n.Function + " ls", Names: struct{ Function, Redirect string }{Function: n.Function}},
	} {
		if _, err := e.Run(t.Context(), r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(Options{Bash: "/nonexistent/bash"}); err == nil {
		t.Error("an engine without bash")
	}
	fake := filepath.Join(t.TempDir(), "bash")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\nprintf '3 2'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	old, err := New(Options{Bash: fake})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Run(t.Context(), Request{Script: "true"}); err == nil || !strings.Contains(err.Error(), "4.4") {
		t.Errorf("an old bash: %v", err)
	}
}

func TestTimeoutKeepsOutputAndKillsTheGroup(t *testing.T) {
	e := newEngine(t)
	start := time.Now()
	res := run(t, e, Request{Script: "echo begun; (trap '' TERM; sleep 60) & trap '' TERM; sleep 60; sleep 60; echo never", Timeout: 200 * time.Millisecond})
	if !res.TimedOut || res.ExitCode != ExitTimedOut || res.Output != "begun\n" {
		t.Errorf("got %+v", res)
	}
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestCancelReturnsAtOnce(t *testing.T) {
	e, err := New(Options{KillGrace: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var pid int
	start := time.Now()
	res, err := e.Run(ctx, Request{
		Script: "trap '' TERM; echo $$; sleep 60; sleep 60", Env: testEnv, Dir: t.TempDir(),
		OnOutput: func(s string) {
			pid, _ = strconv.Atoi(strings.TrimSpace(s))
			start = time.Now()
			cancel()
		},
	})
	if d := time.Since(start); err != nil || !res.Cancelled || d > 200*time.Millisecond {
		t.Errorf("%+v %v after %v", res, err, d)
	}
	if syscall.Kill(pid, 0) != nil {
		t.Error("the kill did not go on behind the result")
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Error("a child outlived Close")
	}
	if _, err := e.Run(t.Context(), Request{Script: "true"}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCloseCancelsRuns(t *testing.T) {
	e, err := New(Options{KillGrace: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	done := make(chan Result, 1)
	go func() {
		res, _ := e.Run(context.Background(), Request{
			Script: "trap '' TERM; echo x; while :; do sleep 1; done", Env: testEnv,
			OnOutput: func(string) { close(begun) },
		})
		done <- res
	}()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
	if res := <-done; !res.Cancelled || time.Since(start) > 2*time.Second {
		t.Errorf("%+v after %v", res, time.Since(start))
	}
}

func TestLeftoversRunOnUntilClose(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	res, err := e.Run(t.Context(), Request{Script: "sleep 60 & echo $!", Env: testEnv})
	if err != nil || res.ExitCode != 0 || time.Since(start) > 5*time.Second {
		t.Fatalf("%+v %v", res, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(res.Output))
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pid, 0) != nil {
		t.Error("a background job died with its script")
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("a background job outlived Close")
	}
}

// alive reports whether a process runs; one that only waits for its parent
// does not count.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return os.IsNotExist(err) && !procTells() && syscall.Kill(pid, 0) == nil
	}
	return !strings.Contains(string(b), ") Z ")
}

func TestOutputBudget(t *testing.T) {
	e := newEngine(t)
	spill := filepath.Join(t.TempDir(), "spill")
	streamed := 0
	res := run(t, e, Request{
		Script: "head -c 10485760 /dev/zero | tr '\\0' x; echo; echo END", MaxOutput: 1000, SpillDir: spill,
		OnOutput: func(s string) { streamed += len(s) },
	})
	if !res.Truncated || res.TotalBytes != 10485760+5 || len(res.Output) > 1300 || !strings.HasSuffix(res.Output, "x\nEND\n") || streamed > 1000 {
		t.Errorf("total %d, kept %d, streamed %d: %q", res.TotalBytes, len(res.Output), streamed, res.Output)
	}
	info, err := os.Stat(res.SpillPath)
	if err != nil || info.Size() != res.TotalBytes || info.Mode().Perm() != 0o600 || !strings.Contains(res.Output, res.SpillPath) {
		t.Errorf("spill %v %v", info, err)
	}
	if res = run(t, e, Request{Script: "head -c 500 /dev/zero", MaxOutput: 1000, SpillDir: spill}); res.Truncated || res.SpillPath != "" {
		t.Errorf("short output: %+v", res)
	}
	if res = run(t, e, Request{Script: "yes", Timeout: 300 * time.Millisecond, MaxOutput: 1000, SpillDir: spill}); !res.TimedOut || len(res.Output) > 1300 {
		t.Errorf("endless output: %+v", res)
	}
	if info, err := os.Stat(res.SpillPath); err != nil || info.Size() > maxSpill {
		t.Errorf("spill of endless output: %v %v", info, err)
	}
	if res = run(t, e, Request{Script: "head -c 5000 /dev/zero | tr '\\0' x", MaxOutput: 1000}); !res.Truncated || !strings.Contains(res.Output, "not kept") {
		t.Errorf("without a directory: %+v", res)
	}
}

func TestOutputIsCutBetweenRunes(t *testing.T) {
	for size := 1; size < 40; size++ {
		for _, chunk := range []int{1, 2, 3, 7, 100} {
			var streamed strings.Builder
			c := newCollector(Request{MaxOutput: size, OnOutput: func(s string) {
				if !utf8.ValidString(s) {
					t.Errorf("chunk %q", s)
				}
				streamed.WriteString(s)
			}})
			text := strings.Repeat("aé€😀", 12)
			for p := range slices.Chunk([]byte(text), chunk) {
				c.Write(p)
			}
			var res Result
			c.seal(&res)
			head, tail, cut := strings.Cut(res.Output, "\n[…")
			_, tail, _ = strings.Cut(tail, "…]\n")
			if !cut || !utf8.ValidString(res.Output) || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) || len(head)+len(tail) > size {
				t.Errorf("size %d chunk %d: %q", size, chunk, res.Output)
			}
			if !strings.HasPrefix(text, streamed.String()) || streamed.Len() > size {
				t.Errorf("size %d chunk %d: streamed %q", size, chunk, streamed.String())
			}
		}
	}
}

func TestEnvironment(t *testing.T) {
	in := []string{
		"PATH=/bin", "OPENAI_API_KEY=x", "aws_secret_access_key=x", "A_SECRET=x", "X_TOKEN=x", "GITHUB_TOKEN=keep", "GH_TOKEN=keep",
		"DB_PASSWORD=x", "DATABASE_URL=x", "GTH_TOKEN=x", "GTH_RUN_TOKEN=x", "OTEL_EXPORTER_OTLP_HEADERS=x", "AWS_ACCESS_KEY_ID=x",
		"GOOGLE_APPLICATION_CREDENTIALS=x", "BASH_ENV=/tmp/x", "LD_PRELOAD=/tmp/x", "DYLD_INSERT_LIBRARIES=x", "SHELLOPTS=xtrace",
		"BASH_FUNC_builtin%%=() { :; }", "MY_KEY=x", "POSIXLY_CORRECT=1", "noequals", "TOKENS=keep",
	}
	want := []string{"PATH=/bin", "GITHUB_TOKEN=keep", "GH_TOKEN=keep", "TOKENS=keep"}
	if got := FilterEnv(in, []string{"my_key"}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := FilterEnv([]string{"GITHUB_TOKEN=x"}, []string{"GITHUB_TOKEN"}); len(got) != 0 {
		t.Errorf("a configured secret passed: %q", got)
	}
	rc := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(rc, []byte("echo rc ran\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t)
	res := run(t, e, Request{Script: "echo x; env", Env: []string{"PATH=/usr/bin:/bin", "BASH_ENV=" + rc, "BASH_FUNC_echo%%=() { builtin echo func; }", "SHELLOPTS=xtrace"}})
	if !strings.HasPrefix(res.Output, "x\n") || strings.Contains(res.Output, "BASH_FUNC") {
		t.Errorf("got %q", res.Output)
	}
}

func TestGuardsAnswerSeveralAtOnce(t *testing.T) {
	e := newEngine(t)
	n := NewNames()
	var mu sync.Mutex
	var seen []string
	res := run(t, e, Request{
		Script: "for i in 1 2 3 4 5 6 7 8; do " + n.Function + " echo $i & done; wait; " + n.Function + " echo a | " + n.Function + " cat | (" + n.Function + " cat)",
		Names:  n,
		Check: checker{cmd: func(argv []string) (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, strings.Join(argv, " "))
			return true, ""
		}},
	})
	lines := strings.Fields(res.Output)
	slices.Sort(lines)
	if got := strings.Join(lines, " "); got != "1 2 3 4 5 6 7 8 a" || len(seen) != 11 {
		t.Errorf("got %q, seen %q", got, seen)
	}
}

func TestGuardFailsClosed(t *testing.T) {
	e := newEngine(t)
	n := NewNames()
	for name, check := range map[string]Checker{
		"no checker":     nil,
		"panic":          checker{cmd: func([]string) (bool, string) { panic("oops") }},
		"no without why": checker{cmd: func([]string) (bool, string) { return false, "" }},
	} {
		res := run(t, e, Request{Script: n.Function + " echo ran; echo after", Names: n, Check: check})
		if !res.Refused || res.ExitCode != ExitRefused || res.Refusal == "" || !strings.HasPrefix(res.Output, "refused: ") {
			t.Errorf("%s: %+v", name, res)
		}
		if !strings.HasSuffix(res.Output, "refused: "+res.Refusal+"\n") {
			t.Errorf("%s: the reason is not in the output: %q", name, res.Output)
		}
	}
	yes := checker{cmd: func([]string) (bool, string) { return true, "" }}
	huge := run(t, e, Request{Script: "x=$(head -c 5000000 /dev/zero | tr '\\0' x); " + n.Function + " echo \"$x\"", Names: n, Check: yes})
	if !huge.Refused {
		t.Errorf("an oversized question: %+v", huge)
	}
}

// TestStrangersCannotAnswer talks to the guards' listener as a program does
// that found the port.
func TestStrangersCannotAnswer(t *testing.T) {
	e := newEngine(t)
	n := NewNames()
	res := run(t, e, Request{
		Names: n,
		// The function prints its own text, from which the port is known.
		Script: "port=$(declare -f " + n.Function + "_ask | grep -o '127.0.0.1/[0-9]*'); " +
			"for i in 1 2 3; do { printf 'ok\\nok\\n' >&7; } 7<>/dev/tcp/$port; done; " +
			"{ printf '%s\\0' wrong run 1 rm >&7; read -r -u 7 a 2>/dev/null; echo \"[$a]\"; } 7<>/dev/tcp/$port; " +
			"ls -l /proc/self/fd | grep -c socket; env | grep -c _key; " + n.Function + " rm x",
		Check: checker{cmd: func(argv []string) (bool, string) { return argv[0] != "rm", "no rm" }},
	})
	if res.Output != "[]\n0\n0\nrefused: no rm\n" {
		t.Errorf("got %q", res.Output)
	}
}

func BenchmarkPlainBash(b *testing.B) {
	for b.Loop() {
		cmd := exec.Command("bash", "--noprofile", "--norc", "-c", "echo hi")
		cmd.Env = testEnv
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "hi\n" {
			b.Fatal(err)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	e := newEngine(b)
	for b.Loop() {
		if res, err := e.Run(b.Context(), Request{Script: "echo hi", Env: testEnv}); err != nil || res.Output != "hi\n" {
			b.Fatal(err)
		}
	}
}

func BenchmarkRunGuarded(b *testing.B) {
	e := newEngine(b)
	n := NewNames()
	check := checker{cmd: func([]string) (bool, string) { return true, "" }}
	for b.Loop() {
		if res, err := e.Run(b.Context(), Request{Script: n.Function + " echo hi", Names: n, Check: check, Env: testEnv}); err != nil || res.Output != "hi\n" {
			b.Fatal(err)
		}
	}
}
