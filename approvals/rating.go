package approvals

import (
	"fmt"
	"strings"
)

// The names of the preflights.
const (
	preflightEnvLeak   = "script-env-leak"
	preflightOpenWorld = "open-world"
)

// The causes for which a call has no rating, beside those of a rater.
const (
	failureTooLarge    = "too-large"
	failureUnparseable = "unparseable"
)

// needsRating asks for the rating on the first pass. It reports whether one
// is there now.
func (e *evaluation) needsRating(s Stage, tripwire bool) bool {
	if len(e.c.call.Arguments) > maxRatedArguments {
		e.rating = &Rating{Failure: failureTooLarge, Detail: fmt.Sprintf("the call has more than %d bytes", maxRatedArguments)}
	}
	if e.rating == nil {
		e.end(s, Rate, ScopeOnce, "")
		e.v.Rate = &RatingInput{Call: e.c.call, Subject: e.c.subject, Rung: e.p.Rung, Tripwire: tripwire, Notes: e.c.notes()}
		return false
	}
	rating := *e.rating
	if rating.Failure == "" && (rating.Outcome < Safe || rating.Outcome > Attack) {
		rating.Failure, rating.Detail = failureUnparseable, "the rater named no known outcome"
	}
	if rating.Failure != "" {
		rating.Outcome = Unrated
	}
	e.rating, e.v.Rating = &rating, &rating
	return true
}

// tripwire rates a call that an allow entry matches: only the two severe
// outcomes stop it, and a missing verdict does not.
func (e *evaluation) tripwire(r *rule) {
	const s = StageAllowTripwire
	if !e.needsRating(s, true) {
		return
	}
	switch e.rating.Outcome {
	case Safe, Destructive:
		e.end(s, Approve, ScopeSession, e.rating.Outcome.String())
	case Catastrophic:
		e.askRated(s, Catastrophic, e.rating.Reason)
	case Attack:
		e.halt(s)
	default:
		if e.rating.Failure == failureTooLarge {
			e.askUnrated(s)
			return
		}
		e.end(s, Approve, ScopeSession, "ran unrated on "+r.entry.Summary()+": "+e.rating.Failure)
	}
}

func (e *evaluation) rate() {
	if !e.p.Rung.Rated() {
		return
	}
	const s = StageRater
	names, reason := e.c.preflights()
	e.v.Preflights = names
	if !e.needsRating(s, false) {
		return
	}
	switch e.rating.Outcome {
	case Safe:
		if len(names) > 0 {
			e.askRated(s, Destructive, reason)
			return
		}
		e.end(s, Approve, ScopeOnce, Safe.String())
	case Destructive, Catastrophic:
		e.askRated(s, e.rating.Outcome, e.rating.Reason)
	case Attack:
		e.halt(s)
	default:
		e.askUnrated(s)
	}
}

func (e *evaluation) askRated(s Stage, o Outcome, reason string) {
	e.ask(s, question{outcome: o, reason: reason, detail: o.String(), why: fmt.Sprintf("The call was rated %s.", o)})
}

func (e *evaluation) askUnrated(s Stage) {
	cause := e.rating.Failure
	if e.rating.Detail != "" {
		cause += ": " + e.rating.Detail
	}
	e.ask(s, question{unrated: cause, detail: cause, why: "The call could not be assessed, so a person decides."})
}

func (e *evaluation) halt(s Stage) {
	e.end(s, Halt, ScopeOnce, Attack.String())
	e.v.Request = newRequest(e, s, question{
		outcome: Attack, reason: e.rating.Reason, once: true, typed: true,
		why: "The call was rated an attack: the run stops unless a person types the confirmation.",
	})
}

// preflights names what raises a safe rating, and says why.
func (r *Reading) preflights() (names []string, reason string) {
	add := func(name, text string) {
		if names = append(names, name); reason == "" {
			reason = text
		}
	}
	if r.scan == nil {
		if annotationsOf(r.subject).OpenWorld {
			add(preflightOpenWorld, "The tool may reach the outside (openWorldHint is not false), so it is never approved automatically.")
		}
		return names, reason
	}
	if len(r.scan.EnvLeak) > 0 {
		add(preflightEnvLeak, "Could not assess this command: a variable ("+oneLine(strings.Join(r.scan.EnvLeak, ", "))+") is expanded into a script and may leak a secret.")
	}
	if len(r.scan.OpenWorld) > 0 {
		add(preflightOpenWorld, "The command names a host ("+oneLine(strings.Join(r.scan.OpenWorld, ", "))+"), so it is never approved automatically.")
	}
	return names, reason
}

// notes are sentences of ours for the rater and for people.
func (r *Reading) notes() []string {
	if r.scan == nil {
		return nil
	}
	var out []string
	for i, m := range r.scan.Unresolved {
		if i == maxNotes {
			out = append(out, fmt.Sprintf("%d more parts are left open.", len(r.scan.Unresolved)-i))
			break
		}
		out = append(out, fmt.Sprintf("The text leaves open what %s does (%s).", oneLine(m.Text), m.Name))
	}
	if r.scan.Opaque {
		out = append(out, "The command runs code that its text does not show.")
	}
	return out
}

const maxNotes = 8
