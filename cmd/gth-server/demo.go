package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
	"github.com/gth-server/gth-server/session"
)

//go:embed demo/session.yaml demo/config.jsonc
var demoFiles embed.FS

type demoCmd struct {
	Rung given `help:"Rung of the session instead of the demo's own: manual, write, assisted, auto or bypass." placeholder:"RUNG" short:"r"`
	JSON bool  `help:"Print every record as a JSON line instead."`
	Keep bool  `help:"Keep the temporary workspace and say where it is."`
}

// Run plays the demo.
func (c *demoCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	if _, err := exec.LookPath("bash"); err != nil {
		return usage(fmt.Errorf("demo: %w: it needs bash 4.4 or later", err))
	}
	stage, err := newDemoStage()
	if err != nil {
		return fmt.Errorf("demo: cannot set up its workspace: %w", err)
	}
	if c.Keep {
		defer fmt.Fprintf(std.err, "demo: kept %s\n", stage.dir)
	} else {
		defer os.RemoveAll(stage.dir)
	}
	global := *g
	global.Config, global.DataDir = given(stage.config), given(filepath.Join(stage.dir, "data"))
	flags := modelFlags{Model: given("scripted:" + stage.script), Rung: c.Rung}
	// The demo is the same for everybody: settings of the environment stay out.
	inner := std
	inner.env = func(name string) string {
		if strings.HasPrefix(name, "GTH_") {
			return ""
		}
		return std.env(name)
	}
	inner.environ = stage.environ(std.environ)
	app, err := newApp(ctx, inner, &global, flags, "run", stage.work, inMemory)
	if err != nil {
		return err
	}
	defer app.close()
	out, ctx := newSink(ctx, std.out)
	std.out = out
	paint := terminal.Painter{On: colour(std, std.outTTY)}
	ask := &demoAnswers{ctx: ctx, out: std.out, paint: paint}
	if std.inTTY && std.outTTY {
		ask.person = std.asker(std.out, std.outTTY)
	}
	watch := watchers{&progress{out: std.out, paint: paint, verb: true}, ask}
	if c.JSON {
		ask.out = io.Discard
		watch = watchers{jsonLines{std.out}, ask}
	} else {
		c.intro(std, stage, app, ask.person != nil)
	}
	sum, err := app.turn(ctx, turnSpec{
		surface: "demo",
		prompt:  session.Prompt{Blocks: []session.Block{{Type: "text", Text: "Mend the greeting and run the test."}}, By: "demo", OnAsk: session.AskWait, Typed: ask.person != nil},
		watch:   watch,
		attach:  func(s *session.Session) { ask.session = s },
	})
	if failed := out.failure(); failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	if !c.JSON {
		c.outro(std, stage, sum)
	}
	if code := sum.exitCode(false, nil); code != exitDone {
		return &exitError{code: code, err: errors.New(orElse(sum.Error, "demo ended early: "+string(sum.Reason)))}
	}
	return nil
}

func (c *demoCmd) intro(std stdio, stage *demoStage, app *app, person bool) {
	fmt.Fprintf(std.out, "A scripted model works in %s at rung %s.\n", stage.work, app.rung)
	fmt.Fprintf(std.out, "rm and curl are harmless stand-ins there: they only note how they were called.\n")
	if !person {
		fmt.Fprintf(std.out, "There is no terminal to answer at, so the demo answers each question itself: allow once.\n")
	}
	fmt.Fprintln(std.out)
}

func (c *demoCmd) outro(std stdio, stage *demoStage, sum *summary) {
	fmt.Fprintf(std.out, "\n%s\n\nDecisions:\n", sum.Answer)
	for _, call := range sum.Calls {
		stage := string(call.Stage)
		if call.State == session.CallRefused && call.Exit != nil {
			stage = "guard"
		}
		fmt.Fprintf(std.out, "  %-9s %-15s %s\n", call.State, stage, terminal.Escape(clip(call.Title, 80)))
	}
	calls, err := os.ReadFile(stage.marker)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintln(std.out, "\nThe stand-ins were never called.")
	case err == nil:
		fmt.Fprintf(std.out, "\nThe stand-ins were called so, and nothing else was deleted or fetched:\n")
		for _, l := range terminal.Block(string(calls), 100, 10) {
			fmt.Fprintln(std.out, l)
		}
	}
}

// demoStage is the temporary directory in which the demo plays.
type demoStage struct {
	dir, work, bin, config, script, marker string
}

func newDemoStage() (*demoStage, error) {
	dir, err := os.MkdirTemp("", "gth-server-demo-")
	if err != nil {
		return nil, err
	}
	s := &demoStage{
		dir: dir, work: filepath.Join(dir, "workspace"), bin: filepath.Join(dir, "bin"),
		config: filepath.Join(dir, "config.jsonc"), script: filepath.Join(dir, "session.yaml"), marker: filepath.Join(dir, "called"),
	}
	if err := s.build(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *demoStage) build() error {
	files := map[string]string{
		filepath.Join(s.work, "greeting.txt"):     "Helo, world\n",
		filepath.Join(s.work, "test.sh"):          "grep -q '^Hello' greeting.txt && echo 'ok: the greeting is right'\n",
		filepath.Join(s.work, "build", "out.txt"): "old output\n",
	}
	for name, path := range map[string]string{"config.jsonc": s.config, "session.yaml": s.script} {
		text, err := demoFiles.ReadFile("demo/" + name)
		if err != nil {
			return err
		}
		files[path] = string(text)
	}
	for path, text := range files {
		if err := writeFile(path, text, 0o600); err != nil {
			return err
		}
	}
	for _, name := range []string{"rm", "curl"} {
		standIn := fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >> %s\necho \"(stand-in for %s: nothing happened)\"\n", name, shellQuote(s.marker), name)
		if err := writeFile(filepath.Join(s.bin, name), standIn, 0o700); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), mode)
}

// environ puts the stand-ins before every other program.
func (s *demoStage) environ(environ []string) []string {
	out := []string{}
	path := os.Getenv("PATH")
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "PATH=") {
			out = append(out, kv)
		}
	}
	return append(out, "PATH="+s.bin+string(os.PathListSeparator)+path)
}

// demoAnswers answers the demo's questions: by the person at the terminal,
// or by itself, saying so.
type demoAnswers struct {
	ctx     context.Context
	session *session.Session
	person  *terminal.Asker
	out     io.Writer
	paint   terminal.Painter
}

func (d *demoAnswers) record(rec session.Record) {
	asked, ok := rec.Event.(session.Asked)
	if !ok {
		return
	}
	answer := approvals.Answer{Choice: approvals.AllowOnce, By: "demo", At: time.Now()}
	if d.person != nil {
		answer = d.person.Ask(d.ctx, asked.Request)
	} else {
		fmt.Fprintf(d.out, "  %s %s\n  the demo answers itself: allow once\n", d.paint.Warn("asked:"), terminal.Escape(asked.Request.Why))
	}
	if _, err := d.session.Answer(d.ctx, asked.Request.ID, answer); err != nil && d.ctx.Err() == nil {
		fmt.Fprintf(d.out, "  the answer did not arrive: %v\n", err)
	}
}
