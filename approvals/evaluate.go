package approvals

import (
	"encoding/json"
	"errors"
)

var errNotJudged = errors.New("shell text was not judged: it cannot run")

// Posture is how a session stands when a call arrives. The zero value is
// the strictest: rung manual, no rules.
type Posture struct {
	Rung   Rung
	Policy *Policy // nil means no rules
	Grants *Grants // nil means none
}

// Policy is the compiled rule lists of a session. Immutable, safe for
// concurrent use.
type Policy struct{}

// SourcedEntry is an entry with the place it was written at, "file:line".
type SourcedEntry struct {
	Entry  Entry
	Source string
}

// Rules are the three lists before they are compiled.
type Rules struct {
	Deny, Escalate, Allow []SourcedEntry
}

// Compile checks and compiles rules. The error names list, entry, field and
// source of the first bad entry.
func Compile(rules Rules) (*Policy, error) { return &Policy{}, nil }

// Grants are the remembered answers of a session: its own grants and
// refusals and those of its workspace. Immutable; With and Without return
// changed copies.
type Grants struct{}

// NewGrants compiles remembered answers.
func NewGrants(session, workspace, refusals []Grant) *Grants { return &Grants{} }

// Evaluate decides a call. It is pure. rating is nil on the first call;
// when the verdict's action is Rate, the caller makes the one rating call
// and evaluates again with what came back, failures included.
func Evaluate(r *Reading, p Posture, rating *Rating) Verdict {
	return Verdict{Action: Ask, Stage: StageUnratedRung}
}

// Settle turns an answer into what happens and what is stored. An answer
// that req did not offer refuses once.
func Settle(req *Request, a Answer) Decision { return Decision{Action: Reject} }

// CanonicalArguments returns args as one JSON object with sorted keys and no
// insignificant space. It is an error when args is not exactly one object.
func CanonicalArguments(args json.RawMessage) (json.RawMessage, error) { return args, nil }

// Gated reports whether tool is gated at rung.
func Gated(tool string, rung Rung) bool { return true }
