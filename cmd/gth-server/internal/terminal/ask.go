package terminal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gth-server/gth-server/approvals"
)

// TypedConfirmation is what a person must type to run a call that was
// rated an attack.
const TypedConfirmation = "run anyway"

// Asker asks a person at a terminal. Its methods are safe for concurrent
// use; questions come one at a time.
type Asker struct {
	Out   io.Writer
	Paint Painter
	Width int
	By    string // recorded with the answer
	// Forget drops what was typed before the question was shown, which
	// cannot be an answer to it. It may be nil.
	Forget func()

	mu    sync.Mutex
	lines *lineReader
}

// NewAsker returns an Asker that reads answers from in.
func NewAsker(in io.Reader, out io.Writer, paint Painter, width int) *Asker {
	return &Asker{Out: out, Paint: paint, Width: width, By: "terminal", lines: &lineReader{in: bufio.NewReader(in)}}
}

// Ask shows req and returns the answer. End of input counts as no. When ctx
// ends first the answer is Unanswered.
func (a *Asker) Ask(ctx context.Context, req approvals.Request) approvals.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.show(req)
	if a.Forget != nil {
		a.Forget()
	}
	if req.Typed {
		fmt.Fprintf(a.Out, "Type %q to run exactly this once; anything else stops: ", TypedConfirmation)
	} else {
		fmt.Fprint(a.Out, a.menu(req))
	}
	line, ok := a.lines.next(ctx)
	ans := approvals.Answer{By: a.By, At: time.Now()}
	if !ok {
		fmt.Fprintln(a.Out) // nobody ended the line
	}
	if !ok && ctx.Err() != nil {
		ans.Choice = approvals.Unanswered
		return ans
	}
	if req.Typed {
		ans.Typed = line
		if strings.EqualFold(strings.TrimSpace(line), TypedConfirmation) {
			ans.Choice = approvals.AllowOnce
		}
		return ans
	}
	known := false
	if ans.Choice, known = choose(req, line); !known {
		fmt.Fprintln(a.Out, "That is none of the answers, so it counts as no.")
	}
	return ans
}

func (a *Asker) show(req approvals.Request) {
	heading, paint := "The gate asks", a.Paint.Warn
	switch req.Outcome {
	case approvals.Catastrophic:
		heading, paint = "CANNOT BE UNDONE", a.Paint.Bad
	case approvals.Attack:
		heading, paint = "LOOKS LIKE AN ATTACK: what it does may be irreversible", a.Paint.Bad
	}
	fmt.Fprintf(a.Out, "\n%s: %s\n", paint(a.Paint.Bold(heading)), Header(req))
	body := req.Subject.Command
	if body == "" {
		body = string(req.Arguments)
	}
	for _, l := range Block(body, a.Width, 0) {
		fmt.Fprintln(a.Out, l)
	}
	fmt.Fprintf(a.Out, "why: %s\n", Escape(req.Why))
	if req.Reason != "" {
		fmt.Fprintf(a.Out, "rated %s: %s\n", req.Outcome, Escape(req.Reason))
	}
	if req.Unrated != "" {
		fmt.Fprintf(a.Out, "not assessed: %s\n", Escape(req.Unrated))
	}
	for _, n := range req.Notes {
		fmt.Fprintf(a.Out, "note: %s\n", Escape(n))
	}
}

// Header says in one line what req wants to do.
func Header(req approvals.Request) string {
	switch req.Subject.Kind {
	case approvals.SubjectShell:
		return "run a shell command with " + Escape(req.Tool)
	case approvals.SubjectMCP:
		if req.Subject.Server != "" {
			return fmt.Sprintf("call %s on MCP server %s with %s", Escape(req.Subject.Name), Escape(req.Subject.Server), Escape(req.Tool))
		}
	}
	return "use tool " + Escape(req.Tool)
}

func (a *Asker) menu(req approvals.Request) string {
	var b strings.Builder
	keys := []string{"o"}
	offer := func(key, what string, o *approvals.Offer) {
		if o != nil {
			fmt.Fprintf(&b, "  [%s] %s: %s\n", key, what, Escape(o.Preview))
			keys = append(keys, key)
		}
	}
	b.WriteString("  [o] allow once\n")
	offer("s", "allow for this session", req.AllowSession)
	offer("w", "allow in this workspace", req.AllowWorkspace)
	b.WriteString("  [N] reject once\n")
	keys = append(keys, "N")
	offer("d", "reject for this session", req.RejectSession)
	fmt.Fprintf(&b, "Answer [%s]: ", strings.Join(keys, "/"))
	return b.String()
}

// choose maps a line to an answer; a key that was not offered refuses, and
// is not known.
func choose(req approvals.Request, line string) (c approvals.Choice, known bool) {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "o":
		return approvals.AllowOnce, true
	case "s":
		if req.AllowSession != nil {
			return approvals.AllowSession, true
		}
	case "w":
		if req.AllowWorkspace != nil {
			return approvals.AllowWorkspace, true
		}
	case "d":
		if req.RejectSession != nil {
			return approvals.RejectSession, true
		}
	case "", "n":
		return approvals.RejectOnce, true
	}
	return approvals.RejectOnce, false
}

// lineReader reads a line when one is asked for, in a goroutine, because a
// read of a terminal cannot be given up: when a context ends, that
// goroutine stays in its read until the input ends or the process does, and
// its line is dropped. It is not safe for concurrent use.
type lineReader struct {
	in      *bufio.Reader
	pending chan string // of a read that was given up
}

func (r *lineReader) next(ctx context.Context) (string, bool) {
	if r.pending != nil {
		select {
		case <-r.pending:
		case <-ctx.Done():
			return "", false
		}
	}
	r.pending = make(chan string, 1)
	go func(ch chan<- string) {
		defer close(ch)
		if line, err := r.in.ReadString('\n'); err == nil {
			ch <- line
		}
	}(r.pending)
	select {
	case line, ok := <-r.pending:
		r.pending = nil
		return line, ok
	case <-ctx.Done():
		return "", false
	}
}
