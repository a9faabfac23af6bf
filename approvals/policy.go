package approvals

import "fmt"

// Policy is the compiled rule lists of a session. Immutable, safe for
// concurrent use.
type Policy struct {
	deny, escalate, allow []*rule
}

// SourcedEntry is an entry with the place it was written at, "file:line".
type SourcedEntry struct {
	Entry  Entry
	Source string
}

// Rules are the three lists before they are compiled.
type Rules struct {
	Deny, Escalate, Allow []SourcedEntry
}

// RuleError says which entry of which list does not compile.
type RuleError struct {
	List   string // deny, escalate or allow
	Index  int    // from 0
	Source string // file:line, or empty
	Err    error  // a *FieldError
}

// Error names list, entry, source, field and the way to repair it.
func (e *RuleError) Error() string {
	at := ""
	if e.Source != "" {
		at = e.Source + ": "
	}
	return fmt.Sprintf("%sapprovals.%s[%d]: %v", at, e.List, e.Index, e.Err)
}

// Unwrap returns the [*FieldError].
func (e *RuleError) Unwrap() error { return e.Err }

// Compile checks and compiles rules. The error is a [*RuleError] for the
// first bad entry.
func Compile(rules Rules) (*Policy, error) {
	p := &Policy{}
	for _, l := range []struct {
		name string
		in   []SourcedEntry
		out  *[]*rule
	}{{listDeny, rules.Deny, &p.deny}, {listEscalate, rules.Escalate, &p.escalate}, {listAllow, rules.Allow, &p.allow}} {
		for i, e := range l.in {
			r, err := compileRule(e.Entry, l.name, e.Source)
			if err != nil {
				return nil, &RuleError{List: l.name, Index: i, Source: e.Source, Err: err}
			}
			*l.out = append(*l.out, r)
		}
	}
	return p, nil
}

// firstForbidding returns the first rule that matches for sure, else the
// first that might.
func firstForbidding(rules []*rule, c *Reading) (*rule, answer) {
	var open *rule
	for _, r := range rules {
		switch r.forbids(c) {
		case answerYes:
			return r, answerYes
		case answerMaybe:
			if open == nil {
				open = r
			}
		}
	}
	if open != nil {
		return open, answerMaybe
	}
	return nil, answerNo
}

// denied looks a call up in the deny list and in the session's refusals.
func (p Posture) denied(c *Reading) (*rule, answer) {
	var r *rule
	a := answerNo
	if p.Policy != nil {
		if r, a = firstForbidding(p.Policy.deny, c); a == answerYes {
			return r, a
		}
	}
	if refusal := p.Grants.refused(c); refusal != nil {
		return refusal, answerYes
	}
	return r, a
}

func (p Posture) escalated(c *Reading) (*rule, answer) {
	if p.Policy == nil {
		return nil, answerNo
	}
	return firstForbidding(p.Policy.escalate, c)
}
