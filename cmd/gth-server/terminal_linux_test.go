package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminalSession is the program with a pseudo-terminal for input and
// outputs.
type terminalSession struct {
	*child
	master *os.File
	slave  *os.File // until the program has it

	mu     sync.Mutex
	screen bytes.Buffer
	seen   int           // of screen, by expect
	closed chan struct{} // the program has let go of its terminal
}

func openTerminal(t *testing.T, files map[string]string, args ...string) *terminalSession {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this system has no pseudo-terminals: %v", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &terminalSession{child: newProcess(t, files, args...), master: master, slave: slave, closed: make(chan struct{})}
	s.Stdin, s.Stdout, s.Stderr = slave, slave, slave
	s.Env = append(s.Env, "TERM=xterm")
	s.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	t.Cleanup(func() {
		_ = slave.Close()
		_ = master.Close()
	})
	return s
}

func (s *terminalSession) start() {
	s.t.Helper()
	s.child.start()
	_ = s.slave.Close()
	go s.watch()
}

// watch keeps what appears on the screen until nobody has the terminal open.
func (s *terminalSession) watch() {
	defer close(s.closed)
	buf := make([]byte, 4096)
	for {
		n, err := s.master.Read(buf)
		s.mu.Lock()
		s.screen.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *terminalSession) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String()
}

// expect waits until text appears behind what was expected before.
func (s *terminalSession) expect(text string) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		all := s.text()
		if i := strings.Index(all[s.seen:], text); i >= 0 {
			s.seen += i + len(text)
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%q never appeared:\n%q", text, all)
		}
	}
}

func (s *terminalSession) typed(keys string) {
	s.t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// TestExecAtTerminal: each answer at a terminal, and what was no answer.
func TestExecAtTerminal(t *testing.T) {
	tests := []struct {
		name, before, keys string
		code               int
		ran                bool
	}{
		{"once", "", "o\n", 0, true},
		{"no", "", "n\n", 12, false},
		{"return is no", "", "\n", 12, false},
		{"yes is none of the answers", "", "yes\n", 12, false},
		{"a session that is not there cannot be allowed", "", "s\n", 12, false},
		{"nor a workspace", "", "w\n", 12, false},
		{"end of input", "", "\x04", 12, false},
		{"interrupt", "", "\x03", 130, false},
		{"typed before the question", "o\no\no\n", "n\n", 12, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := openTerminal(t, nil, "exec", "--", "touch ran")
			if tt.before != "" {
				s.typed(tt.before)
			}
			s.start()
			s.expect("Answer [o/N]: ")
			s.typed(tt.keys)
			s.ends(tt.code)
			if _, err := os.Stat(s.path("ran")); (err == nil) != tt.ran {
				t.Errorf("the command ran: %v, want %v\n%q", err == nil, tt.ran, s.text())
			}
		})
	}
}

// TestInterruptKeyEndsTheCommand: Ctrl-C ends the command's processes too,
// though they are not of the terminal's group.
func TestInterruptKeyEndsTheCommand(t *testing.T) {
	s := openTerminal(t, nil, "exec", "-r", "bypass", "--", held)
	s.pipe()
	s.start()
	s.await("up")
	s.typed("\x03")
	s.ends(130)
}

// TestDemoAtTerminal: a person answers the demo's questions, by each key
// that is offered.
func TestDemoAtTerminal(t *testing.T) {
	for key, want := range map[string]string{"o": "completed", "s": "completed", "w": "completed", "n": "refused", "d": "refused"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			s := openTerminal(t, nil, "demo")
			s.start()
			s.expect("rm -rf build")
			s.expect("Answer [o/s/w/N/d]: ")
			s.typed(key + "\n")
			s.expect("X=rm")
			s.expect("Answer [o/N")
			s.typed("o\n")
			s.expect("Decisions:")
			s.ends(0)
			<-s.closed
			if row := regexp.MustCompile(want + ` +rater +rm -rf build`); !row.MatchString(s.text()) {
				t.Errorf("no row %s in\n%s", row, s.text())
			}
		})
	}
}

// TestEditorCommandAtTerminal: whoever starts acp by hand learns what it
// is, and can leave.
func TestEditorCommandAtTerminal(t *testing.T) {
	s := openTerminal(t, map[string]string{"script.yaml": "turns:\n  - - text: hi\n"}, "acp", "-m", scriptModel)
	s.start()
	s.expect("gth-server demo")
	s.typed("\x04")
	s.ends(0)
}

// TestHostileTextAtTerminal: nothing that a model, a provider or a command
// line says acts on the terminal; colours are ours alone.
func TestHostileTextAtTerminal(t *testing.T) {
	const hostile = `\e[2J\e]0;title\a\u202e\u009b31m\r`
	script := "turns:\n  - steps:\n      - text: \"before " + hostile + "\"\n        calls:\n" +
		"          - {tool: \"no" + hostile + "\", args: {a: b}}\n" +
		"          - {tool: run_shell_command, args: {command: \"echo " + hostile + "\"}}\n" +
		"          - {tool: read_file, args: {path: \"a" + hostile + "\"}}\n" +
		"      - text: \"after " + hostile + "\"\n"
	failing := "turns:\n  - steps:\n      - error: {status: 400, message: \"" + hostile + "\"}\n"
	real := "\x1b[2J\x1b]0;title\a\u202e\u009b31m\r"
	tests := []struct {
		name   string
		script string
		args   []string
		keys   string
		code   int
	}{
		{"run", script, []string{"run", "--on-ask", "deny", "-m", scriptModel, "x"}, "", 0},
		{"failing run", failing, []string{"run", "-m", scriptModel, "x"}, "", 3},
		{"person needed", script, []string{"run", "-m", scriptModel, "x"}, "", 10},
		{"check", "", []string{"check", "--", "echo " + real}, "", 10},
		{"exec", "", []string{"exec", "--", "echo " + real}, "n\n", 12},
		{"usage", "", []string{"run", "--model", real, "x"}, "", 2},
		{"unknown command", "", []string{real}, "", 2},
		{"directory", "", []string{"check", "--cwd", real, "--", "ls"}, "", 2},
		{"prompt", "", []string{"run", "a", real}, "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := openTerminal(t, map[string]string{"script.yaml": tt.script}, tt.args...)
			s.start()
			if tt.keys != "" {
				s.expect("Answer [")
				s.typed(tt.keys)
			}
			s.ends(tt.code)
			<-s.closed
			for _, bad := range []string{"\x1b[2J", "\x1b]", "\u202e", "\u009b", "\a", "\r\r"} {
				if strings.Contains(s.text(), bad) {
					t.Errorf("%q reaches the terminal:\n%q", bad, s.text())
				}
			}
		})
	}
}

// TestColours appear at a terminal that wants them, and nowhere else.
func TestColours(t *testing.T) {
	tests := []struct {
		name string
		env  string
		want bool
	}{
		{"terminal", "", true},
		{"NO_COLOR", "NO_COLOR=1", false},
		{"empty NO_COLOR", "NO_COLOR=", true},
		{"dumb", "TERM=dumb", false},
	}
	for _, tt := range tests {
		s := openTerminal(t, nil, "check", "--", "rm -rf /")
		if tt.env != "" {
			s.Env = append(s.Env, tt.env)
		}
		s.start()
		s.ends(exitRefused)
		<-s.closed
		if got := strings.Contains(s.text(), "\x1b["); got != tt.want {
			t.Errorf("%s: colours %v, want %v", tt.name, got, tt.want)
		}
	}
	out, _ := exec.Command(program(t), "check", "--", "rm -rf /").Output() // its code is known
	if len(out) == 0 || bytes.Contains(out, []byte("\x1b[")) {
		t.Errorf("colours in a pipe: %q", out)
	}
}
