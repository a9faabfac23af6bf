package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
	"github.com/gth-server/gth-server/session/config"
)

type checkCmd struct {
	Rung    string   `help:"Rung to decide at." placeholder:"RUNG" short:"r"`
	Cwd     string   `help:"Decide as if DIR were the workspace." placeholder:"DIR" default:"."`
	JSON    bool     `help:"Print JSON."`
	Batch   bool     `help:"Read JSON lines {id, command | tool+arguments(+server), rung?, approvals?, cwd?} from standard input, and print one JSON line for each."`
	Command []string `arg:"" optional:"" passthrough:"" help:"The command, after --: one word is shell text, several are the words of a command."`
}

// shellTool is the tool whose subject is shell text.
const shellTool = "run_shell_command"

// checkResult is the decision as docs/cli.md describes it. Fields without a
// value are null, never absent.
type checkResult struct {
	ID         string               `json:"id"`
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
	cwd, err := workdir(c.Cwd)
	if err != nil {
		return err
	}
	policy, err := approvals.Compile(cfg.Rules())
	if err != nil {
		return usage(err)
	}
	b := &checker{
		place:   placeOf(cwd, nil, cfg.File, cfg.DataDir),
		posture: approvals.Posture{Rung: cfg.Rung, Policy: policy},
	}
	words := dropSeparator(c.Command)
	if c.Batch {
		if len(words) > 0 {
			return usage(errors.New("check --batch reads its commands from standard input: leave the command out"))
		}
		return b.batch(ctx, std)
	}
	if len(words) == 0 {
		return usage(errors.New("check needs a command: gth-server check -- 'COMMAND' or gth-server check -- PROGRAM WORD…"))
	}
	res := b.call(shellCall(shellText(words)), b.posture, b.place)
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

func dropSeparator(words []string) []string {
	if len(words) > 0 && words[0] == "--" {
		return words[1:]
	}
	return words
}

// shellText makes shell text of the words of a command line: one word is
// text already, several are quoted so that the shell reads them unchanged.
func shellText(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellQuote(w)
	}
	return strings.Join(quoted, " ")
}

func shellQuote(w string) string {
	plain := w != ""
	for _, r := range w {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+:,./_-", r) {
			plain = false
			break
		}
	}
	if plain {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

func shellCall(text string) approvals.Call {
	args, _ := json.Marshal(map[string]string{"command": text}) // a string map always encodes
	return approvals.Call{Tool: shellTool, Arguments: args}
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
		Action: v.Action, Stage: v.Stage, Rule: v.Rule, Floor: v.Floor,
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
	if r.Grant != nil {
		line("grant", *r.Grant)
	}
	_, err := io.WriteString(std.out, b.String())
	return err
}

// batchLine is one line of check --batch.
type batchLine struct {
	ID        string          `json:"id"`
	Command   *string         `json:"command"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Server    string          `json:"server"`
	Rung      string          `json:"rung"`
	Approvals json.RawMessage `json:"approvals"`
	Cwd       string          `json:"cwd"`
}

// batchError answers a line that cannot be read.
type batchError struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// maxBatchLine bounds one line; a longer one is an error for that line only.
const maxBatchLine = 16 << 20

// batch answers every line; a bad one gets an error line and the exit code
// of a usage error at the end.
func (b *checker) batch(ctx context.Context, std stdio) error {
	in, out := bufio.NewReaderSize(std.in, 64<<10), bufio.NewWriter(std.out)
	bad := 0
	for n := 1; ctx.Err() == nil; n++ {
		line, err := readLine(in, maxBatchLine)
		if err == io.EOF {
			break
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var res checkResult
		var id string
		if err == nil {
			res, id, err = b.line(line)
		}
		if err != nil {
			bad++
			err = writeJSON(out, batchError{ID: id, Error: fmt.Sprintf("line %d: %v", n, err)})
		} else {
			err = writeJSON(out, res)
		}
		if err == nil && in.Buffered() == 0 {
			err = out.Flush()
		}
		if err != nil {
			return fmt.Errorf("check --batch: cannot write the answer of line %d: %w", n, err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("check --batch: cannot write: %w", err)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if bad > 0 {
		return usage(fmt.Errorf("check --batch: %d lines could not be read: see their error lines", bad))
	}
	return nil
}

// readLine returns the next line without its end, skipping what is over
// limit bytes. io.EOF means that there is none.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if !long && len(line)+len(part) > limit {
			long, line = true, nil
		}
		if !long {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && err != io.EOF:
			return nil, err
		case long:
			return nil, fmt.Errorf("longer than %d bytes", limit)
		case err == io.EOF && len(line) == 0:
			return nil, io.EOF
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

func (b *checker) line(raw []byte) (checkResult, string, error) {
	var l batchLine
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		// The id is worth having even when the rest is wrong.
		var only struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(raw, &only)
		return checkResult{}, only.ID, err
	}
	if dec.More() {
		return checkResult{}, l.ID, errors.New("more than one JSON value on a line")
	}
	call, err := l.call()
	if err != nil {
		return checkResult{}, l.ID, err
	}
	posture, place, err := b.stand(l)
	if err != nil {
		return checkResult{}, l.ID, err
	}
	res := b.call(call, posture, place)
	res.ID = l.ID
	return res, l.ID, nil
}

func (l batchLine) call() (approvals.Call, error) {
	switch {
	case l.Command != nil && l.Tool != "":
		return approvals.Call{}, errors.New("command and tool are both given: use one")
	case l.Command != nil:
		return shellCall(*l.Command), nil
	case l.Tool == "":
		return approvals.Call{}, errors.New("neither command nor tool is given")
	}
	args, err := approvals.CanonicalArguments(l.Arguments)
	if err != nil {
		return approvals.Call{}, err
	}
	call := approvals.Call{Tool: l.Tool, Arguments: args}
	if l.Server != "" {
		call.Server, call.Name, call.Tool = l.Server, l.Tool, "mcp__"+l.Server+"__"+l.Tool
	}
	return call, nil
}

// stand applies the line's rung, rules and working directory to those of
// the command line.
func (b *checker) stand(l batchLine) (approvals.Posture, approvals.Place, error) {
	posture, place := b.posture, b.place
	if len(l.Approvals) > 0 && string(l.Approvals) != "null" {
		a, err := config.ParseApprovals(l.Approvals)
		if err != nil {
			return posture, place, err
		}
		if posture.Policy, err = approvals.Compile(approvals.Rules{Deny: a.Deny, Escalate: a.Escalate, Allow: a.Allow}); err != nil {
			return posture, place, err
		}
		if a.Mode != nil {
			posture.Rung = *a.Mode
		}
	}
	if l.Rung != "" {
		var err error
		if posture.Rung, err = approvals.ParseRung(l.Rung); err != nil {
			return posture, place, err
		}
	}
	if l.Cwd != "" {
		if !filepath.IsAbs(l.Cwd) {
			return posture, place, fmt.Errorf("cwd %q is relative: give an absolute path", l.Cwd)
		}
		place.Cwd = filepath.Clean(l.Cwd)
		place.Roots = []string{place.Cwd}
	}
	return posture, place, nil
}
