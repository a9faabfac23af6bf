package session

import (
	"slices"
	"strings"
	"time"

	"github.com/gth-server/gth-server/approvals"
)

// state is what a session's log adds up to. It changes only by fold, so a
// session that is read back from the store stands where it stood. Its size
// follows what is open, not the length of the log.
type state struct {
	rung     approvals.Rung
	title    string
	grants   []approvals.Grant // of the session
	refusals []approvals.Grant
	asks     map[string]openAsk  // open asks by id
	calls    map[string]openCall // calls without an end by id
	called   int                 // number of announced calls
	turn     string              // the open turn, empty between turns
	usage    Usage               // of the open or last turn
	head     string              // of the chain of decisions
}

// openAsk is an ask that nobody has answered.
type openAsk struct {
	turn string // the turn that asked
	req  approvals.Request
}

// openCall is a call that was announced and has no end.
type openCall struct {
	turn      string
	number    int    // in the order of announcement
	ask       string // id of its last ask
	approved  bool   // that ask was approved
	executing bool
}

func newState(rung approvals.Rung) state {
	return state{rung: rung, asks: map[string]openAsk{}, calls: map[string]openCall{}}
}

// fold adds one stored event to st. Slices are replaced, never changed in
// place, so that a copy of st taken earlier stays as it was.
func fold(st *state, ev Event) {
	switch e := ev.(type) {
	case TurnStarted:
		if st.title == "" {
			st.title = titleOf(e.Prompt)
		}
		st.turn, st.usage = e.ID, Usage{}
	case TurnEnded:
		st.turn = ""
	case RungChanged:
		// On the way to a looser rung there is none of these.
		st.grants = slices.DeleteFunc(slices.Clone(st.grants), func(g approvals.Grant) bool { return looser(g.Rung, e.To) })
		st.rung = e.To
	case TitleChanged:
		st.title = e.Title
	case Step:
		st.usage = st.usage.plus(e.Usage)
	case CallAnnounced:
		st.called++
		st.calls[e.Call.ID] = openCall{turn: st.turn, number: st.called}
	case Decided:
		if e.Link != nil {
			st.head = e.Link.Head
		}
	case Asked:
		st.asks[e.Request.ID] = openAsk{turn: st.turn, req: e.Request}
		st.change(e.Request.CallID, func(c *openCall) { c.ask, c.approved = e.Request.ID, false })
	case Answered:
		delete(st.asks, e.AskID)
		st.change(e.CallID, func(c *openCall) {
			c.approved = c.ask == e.AskID && e.Decision.Action == approvals.Approve
		})
		if e.Link != nil {
			st.head = e.Link.Head
		}
	case CallExecuting:
		st.change(e.CallID, func(c *openCall) { c.executing = true })
	case CallEnded:
		delete(st.calls, e.CallID)
	case Granted:
		if e.Refusal {
			st.refusals = remember(st.refusals, e.Grant)
		} else {
			st.grants = remember(st.grants, e.Grant)
		}
	}
}

// change changes a call, if it has no end yet.
func (st *state) change(id string, f func(*openCall)) {
	if c, ok := st.calls[id]; ok {
		f(&c)
		st.calls[id] = c
	}
}

// remember adds g, or puts it in the place of the grant of the same id.
func remember(have []approvals.Grant, g approvals.Grant) []approvals.Grant {
	have = slices.DeleteFunc(slices.Clone(have), func(h approvals.Grant) bool { return h.ID == g.ID })
	return append(have, g)
}

// looser reports whether a lets a session do more without asking than b.
// The order of the ladder is used for this one question, what to forget.
func looser(a, b approvals.Rung) bool {
	ladder := approvals.Rungs()
	return slices.Index(ladder, a) > slices.Index(ladder, b)
}

// inForce leaves out what has expired at now.
func inForce(gs []approvals.Grant, now time.Time) []approvals.Grant {
	var out []approvals.Grant
	for _, g := range gs {
		if g.Expires.IsZero() || now.Before(g.Expires) {
			out = append(out, g)
		}
	}
	return out
}

func (u Usage) plus(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Output: u.Output + v.Output,
		Cached: u.Cached + v.Cached, Reasoning: u.Reasoning + v.Reasoning,
	}
}

// titleLength bounds a title that comes from a prompt, in characters.
const titleLength = 80

// titleOf names a session by the first line of text in its first prompt.
func titleOf(prompt []Block) string {
	for _, b := range prompt {
		for line := range strings.Lines(b.Text) {
			words := strings.Fields(strings.ToValidUTF8(line, "\uFFFD"))
			if len(words) == 0 {
				continue
			}
			title := []rune(strings.Join(words, " "))
			if len(title) > titleLength {
				title = append(title[:titleLength-1], '…')
			}
			return string(title)
		}
	}
	return ""
}
