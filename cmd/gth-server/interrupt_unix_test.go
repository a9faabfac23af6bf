//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// child is the program, running in a place of its own.
type child struct {
	*exec.Cmd
	t        *testing.T
	dir      string
	out, err bytes.Buffer
}

// newProcess prepares the program; files are written to its directory.
func newProcess(t *testing.T, files map[string]string, args ...string) *child {
	t.Helper()
	p := &child{t: t, dir: t.TempDir(), Cmd: exec.Command(program(t), args...)}
	for _, dir := range []string{"home", "tmp", "work"} {
		if err := os.Mkdir(filepath.Join(p.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.Dir, p.Stdout, p.Stderr = p.path(""), &p.out, &p.err
	p.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(p.dir, "home"), "TMPDIR=" + filepath.Join(p.dir, "tmp")}
	t.Cleanup(func() {
		if p.Process != nil && p.ProcessState == nil {
			_ = p.Process.Kill()
		}
	})
	return p
}

func (p *child) path(name string) string { return filepath.Join(p.dir, "work", name) }

func (p *child) start() {
	p.t.Helper()
	if err := p.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// await waits until the file is there.
func (p *child) await(name string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(p.path(name)); err == nil {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s never came\n%s", name, p.err.String())
		}
	}
}

// ends waits for the end, checks its code and that nothing is left: no
// temporary file, and no process that still holds the pipe.
func (p *child) ends(want int) {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.Wait() }()
	select {
	case <-done:
	case <-time.After(patience):
		_ = p.Process.Signal(syscall.SIGQUIT)
		<-done
		p.t.Fatalf("still running\n%s", p.err.String())
	}
	if code := p.ProcessState.ExitCode(); code != want {
		p.t.Errorf("exit code %d, want %d (%s)\n%s", code, want, p.ProcessState, p.err.String())
	}
	left, err := os.ReadDir(filepath.Join(p.dir, "tmp"))
	if err != nil || len(left) > 0 {
		p.t.Errorf("temporary files are left: %v, %v", left, err)
	}
	if p.stillHeld() {
		p.t.Error("a process of a tool is left")
	}
}

// held is a shell command that does not end by itself nor when it is asked
// to, and holds a pipe by which that can be seen.
const held = `trap '' TERM INT HUP; exec 9<>alive; touch up; sleep 60; sleep 60`

// stillHeld reports whether a process has the pipe open: without a reader
// it cannot be opened for writing.
func (p *child) stillHeld() bool {
	f, err := os.OpenFile(p.path("alive"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

func (p *child) pipe() {
	if err := syscall.Mkfifo(p.path("alive"), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

const (
	toolScript  = "turns:\n  - steps:\n      - calls: [{tool: run_shell_command, args: {command: \"" + held + "\"}}]\n      - text: done\n"
	slowScript  = "turns:\n  - steps:\n      - {text: a b c d e f g h, pace: 20s}\n"
	scriptModel = "scripted:script.yaml"
)

// TestSignals: whenever a signal comes, the program ends soon with the code
// for it, and leaves neither files nor processes behind.
func TestSignals(t *testing.T) {
	const interrupt, terminate, hangup = syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP
	tests := []struct {
		name    string
		script  string
		args    []string
		up      bool // wait until the command runs
		signals []syscall.Signal
		want    int
	}{
		{"model stream, interrupt", slowScript, []string{"run", "-m", scriptModel, "x"}, false, []syscall.Signal{interrupt}, 130},
		{"model stream, terminate", slowScript, []string{"run", "-m", scriptModel, "x"}, false, []syscall.Signal{terminate}, 143},
		{"tool, interrupt", toolScript, []string{"run", "-r", "bypass", "-m", scriptModel, "x"}, true, []syscall.Signal{interrupt}, 130},
		{"tool, terminate", toolScript, []string{"run", "-r", "bypass", "-m", scriptModel, "x"}, true, []syscall.Signal{terminate}, 143},
		{"tool, the terminal goes", toolScript, []string{"run", "-r", "bypass", "-m", scriptModel, "x"}, true, []syscall.Signal{hangup}, 129},
		{"tool, twice", toolScript, []string{"run", "-r", "bypass", "-m", scriptModel, "x"}, true, []syscall.Signal{interrupt, interrupt}, 130},
		{"exec, interrupt", "", []string{"exec", "-r", "bypass", "--", held}, true, []syscall.Signal{interrupt}, 130},
		{"exec, terminate", "", []string{"exec", "-r", "bypass", "--", held}, true, []syscall.Signal{terminate}, 143},
		{"exec, twice", "", []string{"exec", "-r", "bypass", "--", held}, true, []syscall.Signal{interrupt, terminate}, 130},
		{"prompt on standard input", slowScript, []string{"run", "-m", scriptModel, "-"}, false, []syscall.Signal{interrupt}, 130},
		{"prompt in a pipe that nobody opens", slowScript, []string{"run", "-m", scriptModel, "-f", "alive"}, false, []syscall.Signal{interrupt}, 130},
		{"batch that waits for a line", "", []string{"check", "--batch"}, false, []syscall.Signal{interrupt}, 130},
		{"editor that says nothing", slowScript, []string{"acp", "-m", scriptModel}, false, []syscall.Signal{terminate}, 143},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if slices.Contains(tt.signals, hangup) && signal.Ignored(hangup) {
				t.Skip("hangups are ignored where this test runs, as under nohup, and a program keeps that")
			}
			p := newProcess(t, map[string]string{"script.yaml": tt.script}, tt.args...)
			p.pipe()
			in, err := p.StdinPipe() // open, and nothing comes
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			p.start()
			if tt.up {
				p.await("up")
			} else {
				time.Sleep(500 * time.Millisecond) // into the middle of the wait
			}
			for _, s := range tt.signals {
				if err := p.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond) // or the second one may be the first
			}
			p.ends(tt.want)
		})
	}
	t.Logf("%d moments", len(tests))
}

// TestInterruptedSummary: a summary is printed also of what was cut off.
func TestInterruptedSummary(t *testing.T) {
	p := newProcess(t, map[string]string{"script.yaml": toolScript}, "run", "-q", "-r", "bypass", "--output", "json", "-m", scriptModel, "x")
	p.pipe()
	p.start()
	p.await("up")
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ends(143)
	for _, want := range []string{`"reason":"cancelled"`, `"exit":143`, `"state":"cancelled"`} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("no %s in %s", want, p.out.String())
		}
	}
}

// TestReaderGone: when nobody reads standard output any more, the program
// ends quietly with 141, and so does what it runs. A standard error that
// nobody reads changes nothing.
func TestReaderGone(t *testing.T) {
	script := "turns:\n  - steps:\n      - calls: [{tool: run_shell_command, args: {command: 'echo a'}}]\n      - text: done\n"
	tests := []struct {
		name string
		args []string
		code int // with standard error gone instead
	}{
		{"check", []string{"check", "--", "ls"}, 10},
		{"check json", []string{"check", "--json", "--", "ls"}, 10},
		{"version", []string{"version"}, 0},
		{"help", []string{"--help"}, 0},
		{"config", []string{"config", "show"}, 0},
		{"schema", []string{"config", "schema"}, 0},
		{"run", []string{"run", "-r", "bypass", "-m", scriptModel, "x"}, 0},
		{"run jsonl", []string{"run", "-r", "bypass", "-m", scriptModel, "--output", "jsonl", "x"}, 0},
		{"exec", []string{"exec", "-r", "bypass", "--", "echo a; exec 9<>alive; sleep 60"}, -1},
		{"demo", []string{"demo"}, 0},
		{"usage", []string{"run", "--nope"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Close()
			defer w.Close()
			files := map[string]string{"script.yaml": script}
			if tt.name != "usage" {
				p := newProcess(t, files, tt.args...)
				p.pipe()
				p.Stdout = w
				p.start()
				p.ends(exitNoReader)
				if strings.Contains(p.err.String(), "gth-server:") {
					t.Errorf("it complains: %s", p.err.String())
				}
			}
			if tt.code >= 0 {
				p := newProcess(t, files, tt.args...)
				p.Stderr = w
				p.start()
				p.ends(tt.code)
			}
		})
	}
}

// TestFullDisk: output that cannot be written is an error, never a success.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this system has no /dev/full")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{
		{"check", "--", "ls"},
		{"version", "--json"},
		{"--help"},
		{"config", "show"},
		{"demo"},
		{"demo", "--json"},
		{"exec", "-r", "bypass", "--", "echo a"},
		{"run", "-q", "-m", scriptModel, "x"},
		{"run", "-q", "-m", scriptModel, "--output", "json", "x"},
		{"run", "-q", "-m", scriptModel, "--output", "jsonl", "x"},
	} {
		p := newProcess(t, map[string]string{"script.yaml": "turns:\n  - - text: hi\n"}, args...)
		p.Stdout = full
		p.start()
		p.ends(exitInternal)
		if !strings.Contains(p.err.String(), "standard output cannot be written") {
			t.Errorf("%v: %s", args, p.err.String())
		}
	}
}
