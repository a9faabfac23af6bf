package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
	"github.com/gth-server/gth-server/session"
)

type runCmd struct {
	modelFlags
	Prompt []string `arg:"" optional:"" help:"What to do, as one argument; - reads it from standard input."`
	File   given    `short:"f" help:"Read the prompt from FILE; - is standard input." placeholder:"FILE"`
	Cwd    given    `help:"Work in DIR." placeholder:"DIR" default:"."`
	Output string   `help:"Standard output: text (the answer), json (one summary) or jsonl (every record)." enum:"text,json,jsonl" default:"text"`
	OnAsk  string   `help:"When a call needs a person: fail ends the run with exit 10, deny refuses the call and goes on, queue keeps the question and ends with exit 10." enum:"fail,deny,queue" default:"fail" name:"on-ask"`
	Resume given    `help:"Go on with this session instead of a new one; without a prompt, behind the answers to its questions." placeholder:"SESSION"`
	Strict *bool    `help:"Exit 12 when a call was refused by policy. On by default when CI is set." negatable:""`
	Quiet  bool     `short:"q" help:"No progress on standard error."`
}

// Run plays one prompt without a person.
func (c *runCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	text, err := c.prompt(ctx, std)
	if err != nil {
		return err
	}
	app, err := newApp(ctx, std, g, c.modelFlags, "run", string(c.Cwd), onDisk)
	if err != nil {
		return err
	}
	defer app.close()
	out, ctx := newSink(ctx, std.out)
	std.out = out
	sum, err := app.turn(ctx, turnSpec{
		surface: "run",
		resume:  session.ID(c.Resume),
		prompt:  session.Prompt{Blocks: blocks(text), By: "run", OnAsk: c.onAsk()},
		watch:   c.watch(std),
	})
	if failed := out.failure(); failed != nil {
		return failed
	}
	if sum == nil {
		return err
	}
	sum.Exit = sum.exitCode(c.strict(std), err)
	if failed := c.print(std, sum); failed != nil {
		return failed
	}
	return c.explain(std, sum, err)
}

func (c *runCmd) prompt(ctx context.Context, std stdio) (text string, err error) {
	given := strings.Join(c.Prompt, " ")
	switch {
	case len(c.Prompt) > 1:
		return "", usage(fmt.Errorf("run takes the prompt as one argument: quote it: gth-server run %s", shellQuote(given)))
	case c.File != "" && given != "":
		return "", usage(errors.New("run takes a prompt or -f FILE, not both"))
	case c.File == "-" || c.File == "" && given == "-":
		text, err = await(ctx, func() (string, error) { return readPrompt(std.in) })
	case c.File != "":
		text, err = promptFile(ctx, string(c.File))
	default:
		text = given
	}
	if err != nil || text == "" && c.Resume != "" {
		return "", err
	}
	return text, checkPrompt(text)
}

func blocks(text string) []session.Block {
	if text == "" {
		return nil
	}
	return []session.Block{{Type: "text", Text: text}}
}

func (c *runCmd) onAsk() session.OnAsk {
	switch c.OnAsk {
	case "queue":
		return session.AskQueue
	case "deny":
		return session.AskDeny
	}
	return session.AskFail
}

func (c *runCmd) strict(std stdio) bool {
	if c.Strict != nil {
		return *c.Strict
	}
	return std.env("CI") != ""
}

func (c *runCmd) watch(std stdio) watcher {
	var ws watchers
	if c.Output == "jsonl" {
		ws = append(ws, jsonLines{std.out})
	}
	if !c.Quiet {
		ws = append(ws, &progress{out: std.err, paint: terminal.Painter{On: colour(std, std.errTTY)}})
	}
	return ws
}

func (c *runCmd) print(std stdio, sum *summary) error {
	switch c.Output {
	case "json":
		return writeJSON(std.out, sum)
	case "text":
		if sum.Answer == "" {
			return nil
		}
		text := strings.TrimRight(sum.Answer, "\n")
		if std.outTTY {
			text = terminal.Text(text)
		}
		_, err := fmt.Fprintln(std.out, text)
		return err
	}
	return nil
}

// explain says on standard error why the run did not simply end, and what
// to do about it. An err that cut the turn off explains itself.
func (c *runCmd) explain(std stdio, sum *summary, err error) error {
	if err != nil {
		return err
	}
	switch sum.Exit {
	case exitDone:
		return nil
	case exitPerson:
		for _, a := range sum.Asks {
			fmt.Fprintf(std.err, "gth-server: a person is needed at stage %s: %s\n", a.Stage, terminal.Escape(a.Why))
			for _, l := range terminal.Block(a.Command, 1<<20, 0) {
				fmt.Fprintln(std.err, l)
			}
		}
		err = errors.New("run ended because nobody can answer: add an approvals.allow entry for the command, use --on-ask deny or queue, or work in an editor")
		if c.OnAsk == "queue" {
			err = c.queued(std, sum)
		}
	case exitAttack:
		err = errors.New("run halted: a call was rated an attack; read it above before you run this prompt again")
	case exitRefused:
		err = fmt.Errorf("run ended, but policy refused %d of its calls (--strict)", sum.refused())
	case exitLimit:
		err = fmt.Errorf("run stopped at a limit (%s): %s", sum.Reason, orElse(sum.Error, "raise limits or model.maxTokens in the configuration, or give it less to do"))
	default:
		err = errors.New(orElse(sum.Error, "run failed"))
	}
	return &exitError{code: sum.Exit, err: err}
}

// queued says how the questions that the run left open are answered.
func (c *runCmd) queued(std stdio, sum *summary) error {
	for _, a := range sum.Asks {
		fmt.Fprintf(std.err, "gth-server: queued: session %s ask %s\n", sum.Session, a.ID)
	}
	return fmt.Errorf("run waits for %d answers: gth-server asks answer ID, then gth-server run --resume %s", len(sum.Asks), sum.Session)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// colour follows the terminal and the NO_COLOR convention.
func colour(std stdio, tty bool) bool {
	return tty && std.env("NO_COLOR") == "" && std.env("TERM") != "dumb"
}

// turnSpec is one turn in a session of its own, or in a stored one.
type turnSpec struct {
	surface string
	resume  session.ID // empty makes a session
	prompt  session.Prompt
	watch   watcher
	// attach is given the session before its turn starts.
	attach func(*session.Session)
}

// turn plays one turn. When ctx ends first, its cause is returned beside
// what the turn came to until then.
func (a *app) turn(ctx context.Context, spec turnSpec) (*summary, error) {
	begin := time.Now()
	s, err := a.session(ctx, spec)
	if err != nil {
		return nil, err
	}
	if spec.attach != nil {
		spec.attach(s)
	}
	sub := s.Subscribe(0)
	defer sub.Close()
	start := s.Start
	if spec.resume != "" && len(spec.prompt.Blocks) == 0 {
		start = s.Continue
	}
	id, err := start(ctx, spec.prompt)
	if errors.Is(err, session.ErrPersonNeeded) {
		return nil, &exitError{code: exitPerson, err: fmt.Errorf("session %s waits for an answer: %w: see gth-server asks list --session %s", s.ID(), err, s.ID())}
	}
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.Cancel(context.Cause(ctx)) })
	defer stop()
	// The turn's own end is awaited even when ctx is done: cancelling is
	// quick, and the log then says what had run.
	sum, err := follow(context.WithoutCancel(ctx), sub, id, spec.watch)
	if err != nil {
		return nil, ended(ctx, err)
	}
	sum.Session, sum.Millis = s.ID(), time.Since(begin).Milliseconds()
	if cause := context.Cause(ctx); cause != nil && sum.Reason == session.StopCancelled {
		return sum, cause
	}
	return sum, nil
}

// session makes the session of a turn or opens the stored one.
func (a *app) session(ctx context.Context, spec turnSpec) (*session.Session, error) {
	if spec.resume == "" {
		return a.manager.Create(ctx, session.Spec{Cwd: a.cwd, Surface: spec.surface, Rung: a.rung})
	}
	s, err := a.manager.Open(ctx, spec.resume)
	return s, unknown(err, sessionsHint)
}
