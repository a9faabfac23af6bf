package shell

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// job is one started script and the processes that descend from it.
type job struct {
	engine *Engine
	out    *collector

	refused chan struct{} // closed by the first refusal
	exited  chan struct{} // closed when bash was waited for
	eof     chan struct{} // closed when nobody can write output any more

	mu      sync.Mutex
	cmd     *exec.Cmd
	pipe    *os.File
	begun   time.Time
	members map[int]uint64 // what ran on when the script ended, with start times
	over    bool           // no question is answered with yes any more
	refusal string
}

func newJob(e *Engine, out *collector) *job {
	return &job{
		engine: e, out: out,
		refused: make(chan struct{}), exited: make(chan struct{}), eof: make(chan struct{}),
	}
}

// start runs bash in a session of its own, with one pipe for both outputs
// so that their order is kept.
func (j *job) start(bash string, args, env []string, dir string) error {
	j.mu.Lock() // a refusal may come before Start returns
	defer j.mu.Unlock()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("shell engine: opening the standard input: %w", err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("shell engine: making the output pipe: %w", err)
	}
	defer w.Close()
	j.pipe, j.begun = r, time.Now()
	j.cmd = &exec.Cmd{
		Path: bash, Args: args, Env: env, Dir: dir,
		Stdin: null, Stdout: w, Stderr: w, SysProcAttr: ownSession(),
	}
	if err := j.cmd.Start(); err != nil {
		r.Close()
		return fmt.Errorf("shell engine: starting %s in %s: %w", bash, dir, err)
	}
	j.engine.wg.Go(j.drain)
	j.engine.wg.Go(func() {
		j.cmd.Wait() // the state is read by exitCode
		close(j.exited)
	})
	return nil
}

func (j *job) drain() {
	defer close(j.eof)
	defer j.pipe.Close()
	io.CopyBuffer(struct{ io.Writer }{j.out}, struct{ io.Reader }{j.pipe}, make([]byte, 32<<10))
}

// wait returns the result of the script once it ended in one of its ways.
func (j *job) wait(ctx context.Context, timeout time.Duration) Result {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var res Result
	select {
	case <-j.exited:
	case <-j.refused:
	case <-timer.C:
		res.TimedOut = true
	case <-ctx.Done():
		res.Cancelled = true
	case <-j.engine.closing:
		res.Cancelled = true
	}
	j.finish(&res)
	return res
}

func (j *job) finish(res *Result) {
	refusal, refused := j.end()
	grace := time.Duration(0)
	switch {
	case refused:
		*res = Result{Refused: true, Refusal: refusal}
		j.engine.wg.Go(j.terminate)
	case res.Cancelled:
		j.engine.wg.Go(j.terminate)
	case res.TimedOut:
		grace = j.engine.grace
		j.engine.wg.Go(j.terminate)
	}
	if !res.Cancelled {
		waitFor(j.exited, grace+lastWait)
		waitFor(j.eof, drainDelay)
	}
	j.out.seal(res)
	j.mu.Lock()
	res.Duration = time.Since(j.begun)
	j.mu.Unlock()
	switch {
	case refused:
		res.ExitCode = ExitRefused
		res.Output = appendLine(res.Output, "refused: "+refusal)
	case res.Cancelled:
		res.ExitCode = ExitCancelled
	case res.TimedOut:
		res.ExitCode = ExitTimedOut
	default:
		res.ExitCode = exitCode(j.cmd.ProcessState)
		if j.snapshot() {
			j.engine.keep(j)
		}
	}
}

func waitFor(c <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
	case <-t.C:
	}
}

func appendLine(out, line string) string {
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	return out + line + "\n"
}

// stillAllowed reports whether the script may go on.
func (j *job) stillAllowed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.over
}

// refuse ends the script at once. The processes are dead or dying when it
// returns, before the asking guard can see that its connection ended.
func (j *job) refuse(why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return
	}
	if why == "" {
		why = "the checker gave no reason"
	}
	j.over, j.refusal = true, why
	if j.cmd != nil && j.cmd.Process != nil {
		killSession(j.cmd.Process.Pid)
	}
	close(j.refused)
}

// end lets no further question pass and returns the refusal, if there was
// one.
func (j *job) end() (refusal string, refused bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = true
	return j.refusal, j.refusal != ""
}

// snapshot remembers what runs on after the script ended, and reports
// whether anything does.
func (j *job) snapshot() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	pid := j.cmd.Process.Pid
	if sessionAlive(pid) {
		j.members = sessionMembers(pid)
		return true
	}
	return !isClosed(j.eof)
}

// lingers reports whether processes of an ended script still run.
func (j *job) lingers() bool {
	return !isClosed(j.eof) || sessionAlive(j.cmd.Process.Pid)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// terminate ends every process of the session: politely, then after the
// grace by force. It returns when they are gone or cannot be reached.
func (j *job) terminate() {
	pid := j.cmd.Process.Pid
	if isClosed(j.exited) && !stillOurs(pid, j.members) {
		j.closePipe()
		return
	}
	termSession(pid)
	grace := time.NewTimer(j.engine.grace)
	defer grace.Stop()
	closing := j.engine.closing
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
wait:
	for {
		select {
		case <-tick.C:
			if isClosed(j.exited) && !sessionAlive(pid) {
				break wait
			}
		case <-closing:
			closing = nil
			grace.Reset(min(exitGrace, j.engine.grace))
		case <-grace.C:
			break wait
		case <-j.engine.hurry:
			break wait
		}
	}
	killSession(pid)
	waitFor(j.exited, lastWait)
	waitFor(j.eof, drainDelay)
	j.closePipe()
}

// closePipe ends the drain even when a process out of reach holds the other
// end.
func (j *job) closePipe() { j.pipe.Close() }
