package shell

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/gth-server/gth-server/approvals"
)

// Exit codes that Run reports where bash has none of its own.
const (
	ExitRefused   = 126 // the checker refused a command or redirect
	ExitTimedOut  = 124 // as timeout(1)
	ExitCancelled = 130 // as after an interrupt
)

const (
	defaultTimeout   = 120 * time.Second
	defaultMaxOutput = 100_000
	defaultKillGrace = 3 * time.Second
	exitGrace        = 800 * time.Millisecond // the same when the engine closes
	// maxScript keeps the argument of bash -c under the 128 KiB that Linux
	// allows for one argument, prelude included.
	maxScript = 120 << 10
	// drainDelay is how long Run waits for the output of processes that
	// outlive the script.
	drainDelay = 500 * time.Millisecond
	// lastWait is how long Run and Close wait after SIGKILL.
	lastWait = 2 * time.Second
)

// ErrClosed is returned by Run after Close.
var ErrClosed = errors.New("shell engine is closed: start a new one")

// Checker judges real values while a script runs. Its methods are called
// from several goroutines at once and must not block for long.
type Checker interface {
	// Command judges the words of a command; argv is never empty. dir is
	// the directory in which it is about to run, without symlinks, or ""
	// when bash does not know it.
	Command(dir string, argv []string) (ok bool, why string)
	// Redirect judges the target of a redirect.
	Redirect(dir, path string, write bool) (ok bool, why string)
}

// Request is one script to run.
type Request struct {
	Script string // the print of the judged script, made with Names
	Names  approvals.GuardNames
	Check  Checker // nil refuses everything that is guarded
	// ExtGlob tells that the script was read with extended globs.
	ExtGlob   bool
	Dir       string        // working directory, absolute
	Env       []string      // whole environment, see FilterEnv; nil is empty
	Timeout   time.Duration // 0 is 120 s
	MaxOutput int           // bytes kept in Result.Output, 0 is 100000
	SpillDir  string        // where longer output is kept; empty keeps none
	// OnOutput receives the output as it comes, up to MaxOutput bytes, from
	// one goroutine, never after Run returned. It must not block.
	OnOutput func(chunk string)
}

// Result is what became of a script.
type Result struct {
	ExitCode   int    // 128 + n after signal n; see the Exit constants
	Output     string // stdout and stderr in order, shortened in the middle
	TotalBytes int64  // size of the whole output
	Truncated  bool
	SpillPath  string // file with the whole output, at most 16 MiB
	TimedOut   bool
	Cancelled  bool
	Refused    bool
	Refusal    string // the checker's sentence
	Duration   time.Duration
}

// Options configure an Engine.
type Options struct {
	Bash      string        // path of bash; empty looks it up in PATH
	Logger    *slog.Logger  // nil discards
	KillGrace time.Duration // between SIGTERM and SIGKILL, 0 is 3 s
}

// Engine runs scripts. It is safe for concurrent use.
type Engine struct {
	bash  string
	log   *slog.Logger
	grace time.Duration
	probe func() error
	guard guardServer

	closing chan struct{}
	wg      sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	leftover []*job // ended, but processes of theirs run on

	hurry     chan struct{} // closed when Close may wait no longer
	hurryOnce sync.Once
}

// New finds bash. It is an error when there is none or when this system
// has no process groups; see docs/shell.md for what is needed.
func New(o Options) (*Engine, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	bash := o.Bash
	if bash == "" {
		bash = "bash"
	}
	path, err := exec.LookPath(bash)
	if err != nil {
		return nil, fmt.Errorf("shell engine: %w: install bash 4.4 or later, or name it in the configuration", err)
	}
	e := &Engine{bash: path, log: o.Logger, grace: o.KillGrace, closing: make(chan struct{}), hurry: make(chan struct{})}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.grace <= 0 {
		e.grace = defaultKillGrace
	}
	e.probe = sync.OnceValue(func() error { return checkBash(path) })
	return e, nil
}

// guardTag starts every name of the guards.
const guardTag = "__gth_"

// NewNames returns guard names that no text can know beforehand.
func NewNames() approvals.GuardNames {
	tag := guardTag + randomHex(8)
	return approvals.GuardNames{Function: tag + "_run", Redirect: tag + "_to"}
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// checkBash makes sure that bash has what the guards need.
func checkBash(path string) error {
	cmd := exec.Command(path, "--noprofile", "--norc", "-c", `printf '%d %d' "${BASH_VERSINFO[0]}" "${BASH_VERSINFO[1]}"`)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("shell engine: asking %s for its version: %w", path, err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "%d %d", &major, &minor); err != nil {
		return fmt.Errorf("shell engine: %s does not tell a version: use bash 4.4 or later", path)
	}
	if major < 4 || major == 4 && minor < 4 {
		return fmt.Errorf("shell engine: %s is version %d.%d: use bash 4.4 or later", path, major, minor)
	}
	return nil
}

// Run runs r.Script and returns when it ended, timed out, was refused or
// ctx is done. The error is for scripts that could not be started; what a
// started script did is in the result.
func (e *Engine) Run(ctx context.Context, r Request) (Result, error) {
	if err := e.begin(); err != nil {
		return Result{}, err
	}
	defer e.wg.Done()
	if err := ctx.Err(); err != nil {
		return Result{ExitCode: ExitCancelled, Cancelled: true}, nil
	}
	if err := e.probe(); err != nil {
		return Result{}, err
	}
	text, guarded, err := script(r)
	if err != nil {
		return Result{}, err
	}
	j := newJob(e, newCollector(r))
	env := hardenEnv(r.Env)
	if guarded {
		ticket, port, err := e.guard.register(r.Check, j)
		if err != nil {
			return Result{}, err
		}
		defer e.guard.forget(ticket)
		env = append(env, keyVariable(r.Names)+"="+ticket)
		text = prelude(r.Names, port) + text
	}
	args := []string{"bash", "--noprofile", "--norc"}
	if r.ExtGlob {
		args = append(args, "-O", "extglob")
	}
	args = append(args, "-c", text)
	if err := j.start(e.bash, args, env, r.Dir); err != nil {
		return Result{}, err
	}
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return j.wait(ctx, timeout), nil
}

// script wraps the print for bash and tells whether it needs the guards.
func script(r Request) (text string, guarded bool, err error) {
	switch {
	case strings.IndexByte(r.Script, 0) >= 0:
		return "", false, errors.New("shell script contains a NUL byte: remove it")
	case len(r.Script) > maxScript:
		return "", false, fmt.Errorf("shell script of %d bytes is too long: split it, or put it in a file", len(r.Script))
	}
	body := r.Script
	if strings.TrimSpace(body) == "" {
		body = ":"
	}
	for _, name := range []string{r.Names.Function, r.Names.Redirect} {
		guarded = guarded || name != "" && strings.Contains(body, name)
	}
	if guarded && (r.Names.Function == "" || r.Names.Redirect == "") {
		return "", false, errors.New("shell script is guarded but a guard name is missing: make both with NewNames")
	}
	return locks + "{ " + body + "\n}", guarded, nil
}

// begin registers a Run; it fails once Close was called.
func (e *Engine) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.wg.Add(1)
	return nil
}

// Close cancels every Run, kills what scripts left running and waits for
// all goroutines and children. When ctx ends first, what is left is killed
// without grace; the error is that of ctx if even then something stays.
// Close may be called more than once.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	left := e.leftover
	e.leftover = nil
	e.mu.Unlock()
	if first {
		close(e.closing)
		for _, j := range left {
			e.wg.Go(j.terminate)
		}
	}
	done := make(chan struct{})
	go func() {
		e.wg.Wait()
		e.guard.close()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	e.hurryOnce.Do(func() { close(e.hurry) })
	select {
	case <-done:
		return nil
	case <-time.After(lastWait):
		return fmt.Errorf("closing the shell engine: a process does not end: %w", context.Cause(ctx))
	}
}

// keep remembers a job whose script ended but left processes running, so
// that Close can end them.
func (e *Engine) keep(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.wg.Go(j.terminate)
		return
	}
	alive := e.leftover[:0]
	for _, l := range e.leftover {
		if l.lingers() {
			alive = append(alive, l)
		}
	}
	e.leftover = append(alive, j)
}
