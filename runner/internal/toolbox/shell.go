package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cloudwego/eino/schema"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/tools/shell"
	"github.com/gth-server/gth-server/session"
)

// shellArgs are the arguments of run_shell_command. The command is read by
// the gate alone; here it is only a title.
type shellArgs struct {
	Command       string `json:"command"`
	Justification string `json:"justification,omitempty"`
}

func (o Options) shell() *Tool {
	return &Tool{
		Name: ShellName, Kind: session.KindExecute,
		desc: "Runs a command with bash in the working directory and returns what it prints and its exit code. There is no terminal and no standard input, and a time limit applies. Each call is a new shell: directory and variables do not carry over.",
		params: map[string]*schema.ParameterInfo{
			"command":       text("The command. Write it plainly: what can be read is approved more easily."),
			"justification": optional(schema.String, "Only when you repeat a command that was rejected: your answer to the objection."),
		},
		prepare: func(raw json.RawMessage) (Prepared, error) {
			var a shellArgs
			if err := json.Unmarshal(raw, &a); err != nil {
				return Prepared{}, err
			}
			if strings.TrimSpace(a.Command) == "" {
				return Prepared{}, errors.New("the command is empty")
			}
			return Prepared{Title: a.Command, Run: o.runShell}, nil
		},
	}
}

// runShell runs the print of the judged tree.
func (o Options) runShell(ctx context.Context, j Job) Outcome {
	req, err := ShellRequest(j.Reading, j.Posture)
	if err != nil {
		return Outcome{State: session.CallRefused, Result: err.Error()}
	}
	live := &liveOutput{budget: liveBudget, show: func(s string) {
		j.Show(session.CallOutput{CallID: j.CallID, Text: s})
	}}
	req.Dir, req.Env, req.SpillDir = o.Cwd, o.Env, o.SpillDir
	req.Timeout, req.MaxOutput, req.OnOutput = o.Timeout, o.MaxOutput, live.add
	res, err := o.Engine.Run(ctx, req)
	live.flush()
	if err != nil {
		return Failed("The command did not run: " + err.Error())
	}
	return shellOutcome(res)
}

// shellOutcome words a result for the model, with the same text for people.
func shellOutcome(res shell.Result) Outcome {
	out := Outcome{State: session.CallCompleted, Exit: &res.ExitCode}
	note := fmt.Sprintf("Exit code: %d", res.ExitCode)
	switch {
	case res.Refused:
		out.State = session.CallRefused
		note = res.Refusal + "\nExit code: 126. What had not run by then did not run."
	case res.TimedOut:
		out.State = session.CallFailed
		note = fmt.Sprintf("Stopped after %s: the time limit was reached. Use a faster command or run it in parts.", res.Duration.Round(100*time.Millisecond))
	case res.Cancelled:
		out.State = session.CallCancelled
		note = "Stopped: the user cancelled."
	case res.ExitCode != 0:
		out.State = session.CallFailed
	}
	body := strings.ToValidUTF8(res.Output, "\uFFFD")
	if body != "" && !strings.HasSuffix(body, "\n") {
		body += "\n"
	}
	out.Result = body + note
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

// guard judges real values for the shell engine.
type guard struct {
	reading *approvals.Reading
	posture approvals.Posture
	names   approvals.GuardNames
}

func (g guard) Command(dir string, argv []string) (bool, string) {
	return g.reading.CheckCommand(dir, argv, g.posture)
}

func (g guard) Redirect(dir, path string, write bool) (bool, string) {
	return g.reading.CheckRedirect(dir, path, write, g.posture)
}

func (g guard) Script(dir, text string) (guarded string, ok bool, why string) {
	return g.reading.CheckScript(dir, text, g.names, g.posture)
}

// ShellRequest prints the judged script for the engine. It is an error
// when there is no judged script or it cannot run.
func ShellRequest(r *approvals.Reading, p approvals.Posture) (shell.Request, error) {
	script := r.Script()
	if script == nil {
		return shell.Request{}, errors.New("the command could not be read as shell text, so it does not run: write it differently")
	}
	names := shell.NewNames()
	text, err := script.Print(names, p)
	if err != nil {
		return shell.Request{}, fmt.Errorf("the command cannot run: %w", err)
	}
	return shell.Request{Script: text, Names: names, Check: guard{r, p, names}, ExtGlob: script.ExtGlob()}, nil
}
