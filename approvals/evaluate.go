package approvals

import (
	"fmt"
	"slices"
	"strings"
)

// Posture is how a session stands when a call arrives. The zero value is
// the strictest: rung manual, no rules.
type Posture struct {
	Rung   Rung
	Policy *Policy // nil means no rules
	Grants *Grants // nil means none
}

// passed is the result of a stage that left the call to the next one.
const passed = "pass"

// evaluation is one walk through the stages.
type evaluation struct {
	c      *Reading
	p      Posture
	rating *Rating
	v      Verdict
	done   bool
	open   *rule // a deny or escalate rule that nobody can decide before the call runs
}

// Evaluate decides a call. It is pure. rating is nil on the first call;
// when the verdict's action is Rate, the caller makes the one rating call
// and evaluates again with what came back, failures included.
func Evaluate(r *Reading, p Posture, rating *Rating) Verdict {
	e := &evaluation{c: r, p: p, rating: rating}
	stages := [...]func(*evaluation){
		(*evaluation).unreadable, (*evaluation).denyList, (*evaluation).floor, (*evaluation).bypass,
		(*evaluation).escalate, (*evaluation).control, (*evaluation).hiding, (*evaluation).notGated,
		(*evaluation).allow, (*evaluation).rate, (*evaluation).unrated,
	}
	e.v.Stages = make([]StageResult, 0, len(stages))
	for _, stage := range stages {
		if stage(e); e.done {
			break
		}
	}
	return e.v
}

func (e *evaluation) shell() bool { return e.c.subject.Kind == SubjectShell }

func (e *evaluation) pass(s Stage) {
	e.v.Stages = append(e.v.Stages, StageResult{Stage: s, Result: passed})
}

func (e *evaluation) end(s Stage, a Action, scope Scope, detail string) {
	e.v.Action, e.v.Stage, e.v.Scope, e.done = a, s, scope, true
	e.v.Stages = append(e.v.Stages, StageResult{Stage: s, Result: a.String(), Detail: detail})
}

func (e *evaluation) reject(s Stage, message, detail string) {
	e.v.Message = message
	e.end(s, Reject, ScopeOnce, detail)
}

func (e *evaluation) ask(s Stage, q question) {
	e.end(s, Ask, ScopeOnce, q.detail)
	e.v.Request = newRequest(e, s, q)
}

func (e *evaluation) unreadable() {
	if !e.shell() {
		return
	}
	why := e.c.scan.Unreadable
	if why == "" && normalForm(e.c.subject.Command) == "" {
		why = "it is empty"
	}
	if why != "" {
		e.reject(StageUnreadable, unreadableMessage(why), why)
		return
	}
	e.pass(StageUnreadable)
}

func (e *evaluation) denyList() {
	r, a := e.p.denied(e.c)
	switch {
	case a == answerYes:
		e.v.Rule = r.match()
		e.reject(StageDenyList, denyMessage(r), r.entry.Summary())
	case a == answerMaybe && e.p.Rung == Bypass:
		e.v.Rule = r.match()
		e.reject(StageDenyList, undecidedMessage(r), "undecided: "+r.entry.Summary())
	default:
		e.open = r
		e.pass(StageDenyList)
	}
}

func (e *evaluation) floor() {
	f := e.c.self
	if e.shell() && e.c.scan.Floor != nil {
		f = e.c.scan.Floor
	}
	if f == nil {
		e.pass(StageHardlineFloor)
		return
	}
	e.v.Floor = f
	e.reject(StageHardlineFloor, floorMessage(e.c.subject, f), f.Family)
}

func (e *evaluation) bypass() {
	if e.p.Rung != Bypass {
		return
	}
	if names := e.c.hidingNames(); names != "" {
		e.pass(StageBypass)
		e.reject(StageHidingText, hidingMessage(names), names)
		return
	}
	e.end(StageBypass, Approve, ScopeOnce, "")
}

func (e *evaluation) escalate() {
	r, a := e.p.escalated(e.c)
	switch {
	case a == answerYes:
		e.v.Rule = r.match()
		e.ask(StageEscalateEntry, question{rule: r, detail: r.entry.Summary(), why: "An escalate rule says that a person decides this call."})
		return
	case e.open == nil && a == answerMaybe:
		e.open = r
	}
	if e.open == nil {
		e.pass(StageEscalateEntry)
		return
	}
	e.v.Rule = e.open.match()
	e.ask(StageEscalateEntry, question{
		rule: e.open, once: true, detail: "undecided: " + e.open.entry.Summary(),
		why: fmt.Sprintf("A %s rule may match once the call runs, and nothing can check it then.", e.open.list),
	})
}

func (e *evaluation) control() {
	p := controlFile(e.c.targets)
	if p == "" {
		p = possibleSelfWrite(e.c.targets, e.c.place.Self)
	}
	if p == "" {
		e.pass(StageControlFile)
		return
	}
	e.ask(StageControlFile, question{
		once: true, detail: p,
		why: fmt.Sprintf("The call may write %s, which controls what agents, editors, shells or git run later.", oneLine(p)),
	})
}

func (e *evaluation) hiding() {
	if !e.shell() {
		return
	}
	names := e.c.hidingNames()
	if names == "" {
		e.pass(StageHidingText)
		return
	}
	e.ask(StageHidingText, question{
		once: true, detail: names,
		why: "The text is written so that a reader and the shell may see different commands (" + names + ").",
	})
}

func (r *Reading) hidingNames() string {
	if r.scan == nil {
		return ""
	}
	return mechanismNames(r.scan.Hiding)
}

func mechanismNames(list []Mechanism) string {
	var names []string
	for _, m := range list {
		if !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return strings.Join(names, ", ")
}

func (e *evaluation) notGated() {
	if gatedSubject(e.c.subject, e.p.Rung) {
		e.pass(StageNotGated)
		return
	}
	e.end(StageNotGated, Approve, ScopeOnce, "")
}

func (e *evaluation) allow() {
	r, rates := e.p.allowed(e.c)
	if r == nil {
		e.pass(StageAllowList)
		return
	}
	e.v.Rule = r.match()
	e.v.Rule.Rate = rates
	if !rates || !e.p.Rung.Rated() {
		e.end(StageAllowList, Approve, ScopeSession, r.entry.Summary())
		return
	}
	e.pass(StageAllowList)
	e.tripwire(r)
}

func (e *evaluation) unrated() {
	e.ask(StageUnratedRung, question{why: fmt.Sprintf("Rung %s lets a person decide calls like this one.", e.p.Rung)})
}
