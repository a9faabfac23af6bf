package session

import (
	"slices"
	"time"

	"github.com/gth-server/gth-server/approvals"
)

// state is what a session's log adds up to. It changes only by fold, so a
// session that is read back from the store stands where it stood.
type state struct {
	rung     approvals.Rung
	title    string
	grants   []approvals.Grant // of the session
	refusals []approvals.Grant
	asks     map[string]string // open asks: id to turn
	turn     string            // the open turn, empty between turns
	usage    Usage             // of the open or last turn
}

func newState(rung approvals.Rung) state {
	return state{rung: rung, asks: map[string]string{}}
}

// fold adds one stored event to st. Slices are replaced, never changed in
// place, so that a copy of st taken earlier stays as it was.
func fold(st *state, ev Event) {
	switch e := ev.(type) {
	case TurnStarted:
		st.turn, st.usage = e.ID, Usage{}
	case TurnEnded:
		st.turn = ""
	case RungChanged:
		if looser(e.From, e.To) {
			st.grants = slices.DeleteFunc(slices.Clone(st.grants), func(g approvals.Grant) bool { return looser(g.Rung, e.To) })
		}
		st.rung = e.To
	case TitleChanged:
		st.title = e.Title
	case Step:
		st.usage = st.usage.plus(e.Usage)
	case Asked:
		st.asks[e.Request.ID] = st.turn
	case Answered:
		delete(st.asks, e.AskID)
	case Granted:
		if e.Refusal {
			st.refusals = remember(st.refusals, e.Grant)
		} else {
			st.grants = remember(st.grants, e.Grant)
		}
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
