package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner"
	"github.com/gth-server/gth-server/telemetry"
)

type execCmd struct {
	Rung    given    `help:"Rung to decide at: manual, write, assisted, auto or bypass." placeholder:"RUNG" short:"r"`
	Cwd     given    `help:"Run in DIR." placeholder:"DIR" default:"."`
	Yes     bool     `short:"y" help:"Answer questions with yes, once; never for a call that was rated catastrophic or an attack."`
	Command []string `arg:"" optional:"" passthrough:"" help:"The command, after --: one word is shell text, several are the words of a command."`
}

// Run decides about one command as a session would, and runs it.
func (c *execCmd) Run(ctx context.Context, std stdio, g *Globals) (err error) {
	text, err := commandText("exec", c.Command)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(std, g, modelFlags{Rung: c.Rung}, "run")
	if err != nil {
		return err
	}
	cwd, err := workdir(string(c.Cwd))
	if err != nil {
		return err
	}
	policy, err := approvals.Compile(cfg.Rules())
	if err != nil {
		return usage(err)
	}
	log, closeLog, err := openLog(std, g, cfg)
	if err != nil {
		return err
	}
	defer closeLog()
	tel, err := telemetry.Setup(ctx, telemetry.Config{Version: version, Getenv: std.env, OnError: func(err error) {
		log.Warn("telemetry export failed", "err", err)
	}})
	if err != nil {
		return usage(err)
	}
	defer func() {
		down, cancel := std.closing(shutdownGrace)
		defer cancel()
		_ = tel.Shutdown(down) // the command's own exit code matters more
	}()
	posture := approvals.Posture{Rung: cfg.Rung, Policy: policy}
	reading := approvals.Read(shellCall(text), placeOf(cwd, nil, cfg))
	verdict := runner.NewGate(nil, tel.Tracer).Decide(ctx, reading, posture)
	if err := c.settle(ctx, std, verdict); err != nil {
		return err
	}
	out, ctx := newSink(ctx, std.out)
	code, err := runner.Exec(ctx, runner.ExecOptions{
		Reading: reading, Posture: posture, Dir: cwd, Env: runner.ToolEnv(std.environ, secretNames(cfg)),
		Timeout: time.Duration(cfg.Shell.TimeoutMs) * time.Millisecond, Output: out, Notes: std.err, Tracer: tel.Tracer,
	})
	if failed := out.failure(); failed != nil {
		return failed
	}
	return c.outcome(code, err)
}

// outcome turns what came of the command into how exec ends.
func (c *execCmd) outcome(code int, err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return usage(fmt.Errorf("exec: %w", err))
	case err != nil:
		return fmt.Errorf("exec: %w", err)
	case code != exitDone:
		return &exitError{code: code}
	}
	return nil
}

// settle returns nil when the command may run.
func (c *execCmd) settle(ctx context.Context, std stdio, v approvals.Verdict) error {
	refused := func(what string) error {
		return &exitError{code: exitRefused, err: fmt.Errorf("exec: the command was %s at stage %s: %s", what, v.Stage, whyOf(v))}
	}
	if v.Action == approvals.Approve {
		return nil
	}
	if v.Action == approvals.Reject || v.Request == nil {
		return refused("refused")
	}
	req := *v.Request
	var answer approvals.Answer
	switch {
	case c.Yes && v.Action == approvals.Ask && req.Outcome != approvals.Catastrophic && req.Outcome != approvals.Attack:
		answer = approvals.Answer{Choice: approvals.AllowOnce, By: "--yes", At: time.Now()}
	case std.inTTY && std.errTTY:
		req.AllowSession, req.AllowWorkspace, req.RejectSession = nil, nil, nil // there is no session to keep them
		answer = std.asker(std.err, std.errTTY).Ask(ctx, req)
	case v.Action == approvals.Halt:
		return &exitError{code: exitAttack, err: fmt.Errorf("exec: halted: the command was rated an attack: %s", req.Reason)}
	default:
		return &exitError{code: exitPerson, err: fmt.Errorf("exec: a person is needed at stage %s: %s: run it at a terminal, answer with --yes, or add an approvals.allow entry", v.Stage, strings.TrimSuffix(req.Why, "."))}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	switch d := approvals.Settle(&req, answer); d.Action {
	case approvals.Approve:
		return nil
	case approvals.Halt:
		return &exitError{code: exitAttack, err: errors.New("exec: halted: the confirmation was not typed")}
	}
	return refused("rejected by you")
}
