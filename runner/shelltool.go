package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cloudwego/eino/schema"

	"github.com/gth-server/gth-server/runner/internal/tools/shell"
	"github.com/gth-server/gth-server/session"
)

// shellArgs are the arguments of run_shell_command. The command is read by
// the gate alone; here it is only a title.
type shellArgs struct {
	Command       string `json:"command"`
	Justification string `json:"justification,omitempty"`
}

func (r *Runner) shellTool() *tool {
	return &tool{
		name: shellTool, kind: session.KindExecute,
		desc: "Runs a command with bash in the working directory and returns what it prints and its exit code. There is no terminal and no standard input, and a time limit applies. Each call is a new shell: directory and variables do not carry over.",
		params: map[string]*schema.ParameterInfo{
			"command":       text("The command. Write it plainly: what can be read is approved more easily."),
			"justification": optional(schema.String, "Only when you repeat a command that was rejected: your answer to the objection."),
		},
		prepare: func(raw json.RawMessage) (prepared, error) {
			var a shellArgs
			if err := json.Unmarshal(raw, &a); err != nil {
				return prepared{}, err
			}
			if strings.TrimSpace(a.Command) == "" {
				return prepared{}, errors.New("the command is empty")
			}
			return prepared{title: a.Command, run: r.runShell}, nil
		},
	}
}

// runShell runs the print of the judged tree.
func (r *Runner) runShell(ctx context.Context, j job) outcome {
	req, err := shellRequest(j.reading, j.posture)
	if err != nil {
		return outcome{state: session.CallRefused, result: err.Error()}
	}
	live := &liveOutput{budget: liveBudget, show: func(s string) {
		j.show(session.CallOutput{CallID: j.callID, Text: s})
	}}
	req.Dir, req.Env, req.SpillDir = r.o.Place.Cwd, r.o.Env, r.o.SpillDir
	req.Timeout, req.MaxOutput, req.OnOutput = r.o.ShellTimeout, r.o.MaxOutput, live.add
	res, err := r.engine.Run(ctx, req)
	live.flush()
	if err != nil {
		return failed("The command did not run: " + err.Error())
	}
	return shellOutcome(res)
}

// shellOutcome words a result for the model, with the same text for people.
func shellOutcome(res shell.Result) outcome {
	out := outcome{state: session.CallCompleted, exit: &res.ExitCode}
	note := fmt.Sprintf("Exit code: %d", res.ExitCode)
	switch {
	case res.Refused:
		out.state = session.CallRefused
		note = res.Refusal + "\nExit code: 126. What had not run by then did not run."
	case res.TimedOut:
		out.state = session.CallFailed
		note = fmt.Sprintf("Stopped after %s: the time limit was reached. Use a faster command or run it in parts.", res.Duration.Round(100*time.Millisecond))
	case res.Cancelled:
		out.state = session.CallCancelled
		note = "Stopped: the user cancelled."
	case res.ExitCode != 0:
		out.state = session.CallFailed
	}
	body := strings.ToValidUTF8(res.Output, "\uFFFD")
	if body != "" && !strings.HasSuffix(body, "\n") {
		body += "\n"
	}
	out.result = body + note
	return out
}

const (
	liveBudget   = 256 << 10              // bytes of one call that are shown while it runs
	liveInterval = 100 * time.Millisecond // between two pieces
	livePiece    = 8 << 10                // a piece this long is shown at once
)

// liveOutput joins the pieces of a running command's output, so that a
// command which prints fast does not flood those who watch. It is used by
// one goroutine at a time.
type liveOutput struct {
	show    func(string)
	budget  int
	pending []byte
	last    time.Time
}

func (l *liveOutput) add(chunk string) {
	if l.budget <= 0 {
		return
	}
	if len(chunk) > l.budget {
		chunk = chunk[:l.budget]
	}
	l.budget -= len(chunk)
	l.pending = append(l.pending, chunk...)
	if now := time.Now(); len(l.pending) >= livePiece || now.Sub(l.last) >= liveInterval {
		l.last = now
		l.flush()
	}
}

func (l *liveOutput) flush() {
	if len(l.pending) == 0 {
		return
	}
	l.show(strings.ToValidUTF8(string(l.pending), "\uFFFD"))
	l.pending = l.pending[:0]
}
