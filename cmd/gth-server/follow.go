package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
	"github.com/gth-server/gth-server/session"
)

// summary is what a turn came to, and the JSON of run --output json.
type summary struct {
	Session session.ID         `json:"session"`
	Turn    string             `json:"turn"`
	Reason  session.StopReason `json:"reason"`
	Exit    int                `json:"exit"`
	Answer  string             `json:"answer"`
	Error   string             `json:"error,omitempty"`
	Kind    string             `json:"errorKind,omitempty"`
	Usage   session.Usage      `json:"usage"`
	Head    string             `json:"head,omitempty"` // of the chain of decisions
	Calls   []*callSummary     `json:"calls"`
	Asks    []askSummary       `json:"asks"`
	Millis  int64              `json:"durationMs"`
}

type callSummary struct {
	ID     string               `json:"id"`
	Tool   string               `json:"tool"`
	Title  string               `json:"title"`
	Action approvals.Action     `json:"action"`
	Stage  approvals.Stage      `json:"stage"`
	Rule   *approvals.RuleMatch `json:"rule"`
	Floor  *approvals.Floor     `json:"floor"`
	State  session.CallState    `json:"state"`
	Exit   *int                 `json:"exitCode"`

	verdict approvals.Verdict
}

type askSummary struct {
	ID      string          `json:"id"`
	CallID  string          `json:"callId"`
	Command string          `json:"command"`
	Stage   approvals.Stage `json:"stage"`
	Why     string          `json:"why"`
	Typed   bool            `json:"typed,omitempty"`
}

// refused counts the calls that policy or a person refused.
func (s *summary) refused() int {
	n := 0
	for _, c := range s.Calls {
		if c.State == session.CallRefused {
			n++
		}
	}
	return n
}

// watcher hears of what happens in a turn, in order; progress lines, JSON
// lines and the demo's questions are watchers.
type watcher interface{ record(session.Record) }

// follow reads sub until turn has ended and returns what it came to.
func follow(ctx context.Context, sub *session.Subscription, turn string, w watcher) (*summary, error) {
	s := &summary{Turn: turn, Calls: []*callSummary{}, Asks: []askSummary{}}
	calls := map[string]*callSummary{}
	for {
		rec, err := sub.Next(ctx)
		if err != nil {
			return s, err
		}
		if rec.Turn != "" && rec.Turn != turn {
			continue
		}
		s.take(rec, calls)
		if w != nil {
			w.record(rec)
		}
		if end, ok := rec.Event.(session.TurnEnded); ok && end.ID == turn {
			return s, nil
		}
	}
}

func (s *summary) take(rec session.Record, calls map[string]*callSummary) {
	switch ev := rec.Event.(type) {
	case session.Text:
		s.Answer = ev.Text
	case session.CallAnnounced:
		c := &callSummary{ID: ev.Call.ID, Tool: ev.Call.Tool, Title: ev.Title}
		calls[c.ID] = c
		s.Calls = append(s.Calls, c)
	case session.Decided:
		if c := calls[ev.CallID]; c != nil {
			c.verdict, c.Action, c.Stage = ev.Verdict, ev.Verdict.Action, ev.Verdict.Stage
			c.Rule, c.Floor = ev.Verdict.Rule, ev.Verdict.Floor
			if ev.Decision != nil {
				c.Action = ev.Decision.Action
			}
		}
	case session.Asked:
		command := ev.Request.Subject.Command
		if command == "" {
			command = ev.Request.Tool + " " + string(ev.Request.Arguments)
		}
		s.Asks = append(s.Asks, askSummary{
			ID: ev.Request.ID, CallID: ev.Request.CallID, Command: command,
			Stage: ev.Request.Stage, Why: ev.Request.Why, Typed: ev.Request.Typed,
		})
	case session.CallEnded:
		if c := calls[ev.CallID]; c != nil {
			c.State, c.Exit = ev.State, ev.ExitCode
		}
	case session.TurnEnded:
		s.Reason, s.Error, s.Kind, s.Usage, s.Head = ev.Reason, ev.Error, ev.ErrorKind, ev.Usage, ev.Head
	}
}

// progress prints what happens as lines for a person.
type progress struct {
	out   io.Writer
	paint terminal.Painter
	verb  bool // command output and model text too

	headings map[string]string // of the calls, by id
	current  string            // id of the call whose lines are being printed
}

func (p *progress) record(rec session.Record) {
	switch ev := rec.Event.(type) {
	case session.TextDelta, session.ReasoningDelta, session.CallOutput:
	case session.Text:
		if p.verb && ev.Text != "" {
			p.block("model", ev.Text, 12)
		}
	case session.CallAnnounced:
		p.announced(ev)
	case session.Decided:
		p.about(ev.CallID)
		fmt.Fprintf(p.out, "  %s\n", p.verdict(ev))
	case session.CallEnded:
		p.about(ev.CallID)
		p.ended(ev)
	case session.RungChanged:
		fmt.Fprintf(p.out, "rung: %s → %s\n", ev.From, ev.To)
	}
}

func (p *progress) announced(ev session.CallAnnounced) {
	heading := p.paint.Bold("→ " + terminal.Escape(ev.Call.Tool))
	if ev.Title != ev.Call.Tool {
		heading += " " + terminal.Escape(clip(ev.Title, 200))
	}
	if p.headings == nil {
		p.headings = map[string]string{}
	}
	p.headings[ev.Call.ID], p.current = heading, ev.Call.ID
	fmt.Fprintln(p.out, heading)
}

// about names a call again when lines of another one stand in between.
func (p *progress) about(id string) {
	if heading := p.headings[id]; heading != "" && id != p.current {
		p.current = id
		fmt.Fprintln(p.out, heading)
	}
}

// verdict says what was decided, at which stage and why, on one line.
func (p *progress) verdict(ev session.Decided) string {
	v := ev.Verdict
	word := map[approvals.Action]string{
		approvals.Approve: p.paint.Good("approved"), approvals.Reject: p.paint.Bad("refused"),
		approvals.Halt: p.paint.Bad("halted"), approvals.Ask: p.paint.Warn("asks a person"), approvals.Rate: p.paint.Warn("to be rated"),
	}[v.Action]
	line := fmt.Sprintf("%s at %s", word, p.paint.Bold(string(v.Stage)))
	if why := whyOf(v); why != "" {
		line += ": " + terminal.Escape(why)
	}
	if ev.Decision != nil {
		answer := "refused"
		if ev.Decision.Action == approvals.Approve {
			answer = "allowed (" + ev.Decision.Scope.String() + ")"
		}
		line += p.paint.Dim(" → answered: " + answer)
	}
	return line
}

// whyOf names what made the stage decide.
func whyOf(v approvals.Verdict) string {
	switch {
	case v.Floor != nil:
		return v.Floor.Family + ", " + v.Floor.Description
	case v.Rule != nil:
		return fmt.Sprintf("%s entry %s (%s)", v.Rule.List, v.Rule.Entry.Preview(), v.Rule.Source)
	case v.Request != nil:
		return v.Request.Why
	}
	for i := len(v.Stages) - 1; i >= 0; i-- {
		if v.Stages[i].Stage == v.Stage {
			return v.Stages[i].Detail
		}
	}
	return ""
}

func (p *progress) ended(ev session.CallEnded) {
	line := string(ev.State)
	switch ev.State {
	case session.CallCompleted:
		line = p.paint.Good(line)
	default:
		line = p.paint.Bad(line)
	}
	if ev.ExitCode != nil {
		line += fmt.Sprintf(" (exit %d)", *ev.ExitCode)
	}
	if ev.State == session.CallRefused && ev.ExitCode != nil {
		line += " by a guard, on the real words"
	}
	fmt.Fprintf(p.out, "  %s %s\n", line, p.paint.Dim(ev.Duration.Round(time.Millisecond).String()))
	if !p.verb && ev.State == session.CallFailed && ev.ExitCode == nil {
		first, _, _ := strings.Cut(ev.Result, "\n")
		fmt.Fprintf(p.out, "  %s\n", p.paint.Dim(terminal.Escape(clip(first, 200))))
	}
	if p.verb {
		text := ev.Display
		if text == "" {
			text = ev.Result
		}
		p.block("", text, 8)
	}
}

func (p *progress) block(label, text string, limit int) {
	if text == "" {
		return
	}
	if label != "" {
		fmt.Fprintf(p.out, "%s\n", p.paint.Dim(label))
	}
	for _, l := range terminal.Block(text, 100, limit) {
		fmt.Fprintln(p.out, p.paint.Dim(l))
	}
}

// clip shortens s to at most n bytes for a line of progress.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

// jsonLines prints every stored record as one JSON line.
type jsonLines struct{ out io.Writer }

func (j jsonLines) record(rec session.Record) {
	if rec.Seq == 0 {
		return
	}
	if b, err := session.EncodeRecord(rec); err == nil {
		_, _ = j.out.Write(append(b, '\n'))
	}
}

// watchers passes everything on to each.
type watchers []watcher

func (ws watchers) record(rec session.Record) {
	for _, w := range ws {
		w.record(rec)
	}
}

// exitCode is the code of docs/cli.md for how a turn ended; cut is what cut
// it off, if anything did.
func (s *summary) exitCode(strict bool, cut error) int {
	var sig signalError
	if errors.As(cut, &sig) {
		return sig.code()
	}
	switch s.Reason {
	case session.StopEndTurn:
		if strict && s.refused() > 0 {
			return exitRefused
		}
		return exitDone
	case session.StopRefusal:
		return exitAttack
	case session.StopAsked:
		return exitPerson
	case session.StopMaxSteps, session.StopMaxTokens:
		return exitLimit
	case session.StopCancelled:
		return exitInterrupted
	}
	switch session.ErrorKind(s.Kind) {
	case session.KindModel, session.KindAuth:
		return exitModel
	case session.KindLimit:
		return exitLimit
	}
	return exitInternal
}

// ended turns the error of a follow that was cut off into an exit error.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, session.ErrClosed) {
		return fmt.Errorf("session ended before its turn did: %w", err)
	}
	return err
}
