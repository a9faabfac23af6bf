package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
	"github.com/gth-server/gth-server/session"
)

type asksCmd struct {
	List   asksListCmd   `cmd:"" help:"List the questions that wait for an answer."`
	Answer asksAnswerCmd `cmd:"" help:"Answer a question; the session goes on where it is open, or when it is next opened."`
}

type asksListCmd struct {
	Session string `help:"Only questions of this session." placeholder:"ID"`
	JSON    bool   `help:"Print one JSON document."`
}

const asksHint = "gth-server asks list shows what waits"

// Run lists open questions, oldest first.
func (c *asksListCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	return withStore(ctx, std, g, func(store session.Store) error {
		open, err := store.OpenAsks(ctx, session.ID(c.Session))
		if err != nil {
			return err
		}
		if c.JSON {
			requests := []approvals.Request{}
			for _, a := range open {
				requests = append(requests, a.Request)
			}
			return writeJSON(std.out, map[string]any{"asks": requests})
		}
		for _, a := range open {
			req := a.Request
			fmt.Fprintf(std.out, "%s  session %s  asked %s  stage %s\n", req.ID, req.Session, stamp(req.Created), req.Stage)
			fmt.Fprintf(std.out, "  %s\n", terminal.Header(req))
			for _, l := range terminal.Block(commandOf(req), 1<<20, 0) {
				fmt.Fprintln(std.out, l)
			}
			fmt.Fprintf(std.out, "  why: %s\n  answers: %s\n", terminal.Escape(req.Why), strings.Join(offered(req), ", "))
		}
		return nil
	})
}

// commandOf is what a request would run, whole.
func commandOf(req approvals.Request) string {
	if req.Subject.Command != "" {
		return req.Subject.Command
	}
	return req.Tool + " " + string(req.Arguments)
}

// offered lists the answers that req takes.
func offered(req approvals.Request) []string {
	if req.Typed {
		return []string{"--typed '" + terminal.TypedConfirmation + "'", approvals.RejectOnce.String()}
	}
	out := []string{approvals.AllowOnce.String()}
	if req.AllowWorkspace != nil {
		out = append(out, approvals.AllowWorkspace.String())
	}
	if req.AllowSession != nil {
		out = append(out, approvals.AllowSession.String())
	}
	out = append(out, approvals.RejectOnce.String())
	if req.RejectSession != nil {
		out = append(out, approvals.RejectSession.String())
	}
	return out
}

type asksAnswerCmd struct {
	ID     string `arg:"" help:"Id of the question."`
	Choice string `arg:"" optional:"" help:"allow-once, allow-workspace, allow-session, reject-once or reject-session; asked at the terminal without one."`
	Reason string `help:"Words for the model, with a rejection." placeholder:"TEXT"`
	Typed  string `help:"The typed confirmation of a call that was rated an attack." placeholder:"TEXT"`
	JSON   bool   `help:"Print the stored result as JSON."`
}

// Run answers one question. The first answer counts; a later one says so.
func (c *asksAnswerCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	return withStore(ctx, std, g, func(store session.Store) error {
		ask, err := store.GetAsk(ctx, c.ID)
		if err != nil {
			return unknown(err, asksHint)
		}
		answer, err := c.answer(ctx, std, ask.Request)
		if err != nil {
			return err
		}
		stored, err := session.Answer(ctx, store, c.ID, answer)
		late := errors.Is(err, session.ErrConflict)
		if err != nil && !late {
			return unknown(err, asksHint)
		}
		if c.JSON {
			err = writeJSON(std.out, stored)
		} else {
			err = c.say(std, stored, late)
		}
		if late {
			return errors.Join(err, &exitError{code: exitInternal, err: fmt.Errorf("asks answer: %s was answered before; the first answer counts", c.ID)})
		}
		return err
	})
}

func (c *asksAnswerCmd) answer(ctx context.Context, std stdio, req approvals.Request) (approvals.Answer, error) {
	a := approvals.Answer{By: "asks", At: time.Now().UTC(), Reason: c.Reason, Typed: c.Typed}
	switch {
	case c.Typed != "":
		if strings.EqualFold(strings.TrimSpace(c.Typed), terminal.TypedConfirmation) {
			a.Choice = approvals.AllowOnce
		}
	case c.Choice != "":
		if err := a.Choice.UnmarshalText([]byte(c.Choice)); err != nil || a.Choice == approvals.Unanswered {
			return a, usage(fmt.Errorf("answer %q is none of: %s", c.Choice, strings.Join(offered(req), ", ")))
		}
		if !takes(req, a.Choice) {
			return a, usage(fmt.Errorf("answer %s is not offered for this question: use one of %s", c.Choice, strings.Join(offered(req), ", ")))
		}
	case std.inTTY && std.errTTY:
		person := std.asker(std.err, std.errTTY)
		a = person.Ask(ctx, req)
		if a.Choice == approvals.Unanswered {
			return a, context.Cause(ctx)
		}
	default:
		return a, usage(fmt.Errorf("asks answer needs an answer: one of %s", strings.Join(offered(req), ", ")))
	}
	return a, nil
}

func takes(req approvals.Request, choice approvals.Choice) bool {
	for _, o := range offered(req) {
		if o == choice.String() {
			return true
		}
	}
	return false
}

func (c *asksAnswerCmd) say(std stdio, stored session.StoredAsk, late bool) error {
	word := "answered"
	if late {
		word = "was answered already"
	}
	became := "refused"
	if d := stored.Decision; d != nil && d.Action == approvals.Approve {
		became = "allowed (" + d.Scope.String() + ")"
	}
	_, err := fmt.Fprintf(std.out, "%s %s: %s\n", c.ID, word, became)
	return err
}
