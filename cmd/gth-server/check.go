package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
)

type checkCmd struct {
	Rung    given    `help:"Rung to decide at: manual, write, assisted, auto or bypass." placeholder:"RUNG" short:"r"`
	Cwd     given    `help:"Decide as if DIR were the workspace." placeholder:"DIR" default:"."`
	JSON    bool     `help:"Print JSON."`
	Batch   bool     `help:"Read JSON lines {id, command | tool+arguments(+server), rung?, approvals?, cwd?} from standard input, and print one JSON line for each."`
	Command []string `arg:"" optional:"" passthrough:"" help:"The command, after --: one word is shell text, several are the words of a command."`
}

// checkResult is the decision as docs/cli.md describes it. Fields without a
// value are null, never absent.
type checkResult struct {
	ID json.RawMessage `json:"id"` // as it was given

	Action     approvals.Action     `json:"action"`
	Stage      approvals.Stage      `json:"stage"`
	Rule       *approvals.RuleMatch `json:"rule"`
	Floor      *approvals.Floor     `json:"floor"`
	Preflights []string             `json:"preflights"`
	Analysis   approvals.Analysis   `json:"analysis"`
	Grant      *string              `json:"grant"`
	Deny       *string              `json:"deny"`

	why string
}

// Run prints what the gate would decide and ends with the code for it.
func (c *checkCmd) Run(ctx context.Context, std stdio, g *Globals) error {
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
	b := &checker{
		place:   placeOf(cwd, nil, cfg),
		posture: approvals.Posture{Rung: cfg.Rung, Policy: policy},
	}
	if c.Batch {
		if len(c.Command) > 0 {
			return usage(errors.New("check --batch reads its commands from standard input: leave the command out"))
		}
		return b.batch(ctx, std)
	}
	text, err := commandText("check", c.Command)
	if err != nil {
		return err
	}
	res := b.call(shellCall(text), b.posture, b.place)
	if c.JSON {
		err = writeJSON(std.out, res)
	} else {
		err = res.print(std)
	}
	if err != nil {
		return err
	}
	if code := checkExit(res.Action); code != exitDone {
		return &exitError{code: code}
	}
	return nil
}

func checkExit(a approvals.Action) int {
	switch a {
	case approvals.Approve:
		return exitDone
	case approvals.Reject:
		return exitRefused
	case approvals.Halt:
		return exitAttack
	}
	return exitPerson
}

// checker decides calls without running them.
type checker struct {
	place   approvals.Place
	posture approvals.Posture
}

func (b *checker) call(call approvals.Call, posture approvals.Posture, place approvals.Place) checkResult {
	r := approvals.Read(call, place)
	v := approvals.Evaluate(r, posture, nil)
	res := checkResult{
		ID: json.RawMessage(`""`), Action: v.Action, Stage: v.Stage, Rule: v.Rule, Floor: v.Floor,
		Preflights: v.Preflights, Analysis: r.Analysis(), why: whyOf(v),
	}
	if res.Preflights == nil {
		res.Preflights = []string{}
	}
	res.Grant, res.Deny = optional(r.GrantPreview()), optional(r.DenyPreview())
	return res
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (r checkResult) print(std stdio) error {
	p := terminal.Painter{On: colour(std, std.outTTY)}
	word := map[approvals.Action]string{
		approvals.Approve: p.Good("approve"), approvals.Reject: p.Bad("reject"), approvals.Halt: p.Bad("halt"),
		approvals.Ask: p.Warn("ask"), approvals.Rate: p.Warn("rate"),
	}[r.Action]
	var b strings.Builder
	fmt.Fprintf(&b, "%s at stage %s\n", word, p.Bold(string(r.Stage)))
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %-11s %s\n", label, terminal.Escape(value))
		}
	}
	line("why", r.why)
	line("programs", strings.Join(r.Analysis.Programs, " "))
	line("wrappers", strings.Join(r.Analysis.Wrappers, " "))
	line("writes", strings.Join(r.Analysis.Writes, " "))
	line("reads", strings.Join(r.Analysis.Reads, " "))
	line("hosts", strings.Join(r.Analysis.Hosts, " "))
	for _, m := range r.Analysis.Unresolved {
		line("unresolved", m)
	}
	if r.Grant != nil && checkExit(r.Action) == exitPerson {
		line("grant", *r.Grant)
	}
	_, err := io.WriteString(std.out, b.String())
	return err
}
