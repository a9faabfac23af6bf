package approvals

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// Effects of a call; see docs/gate.md, "Effects".
type (
	// Effect is one thing that a call does.
	Effect = effect.Effect
	// Word is one word of a command.
	Word = effect.Word
	// Mechanism is one thing that the text of a command leaves undecided.
	Mechanism = effect.Mechanism
	// Floor names the family of the floor that a call falls under.
	Floor = effect.Floor
)

// Action is what the gate does with a call. The zero value asks.
type Action uint8

// The actions.
const (
	Ask     Action = iota // a person decides
	Approve               // the call runs
	Reject                // the model is told no
	Halt                  // the run stops unless a person types the confirmation
	Rate                  // a rating is needed first, then Evaluate again
)

var actionNames = [...]string{"ask", "approve", "reject", "halt", "rate"}

// String returns the word used in records and in --json output.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return actionNames[Ask]
}

// MarshalText writes the word.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads a word; an unknown one is an error and leaves Ask.
func (a *Action) UnmarshalText(b []byte) error { return parseName(a, b, actionNames[:], "action") }

// Outcome is what a rating says of a call. Outcomes have no order: look
// behaviour up per outcome and never compare. The zero value is unrated.
type Outcome uint8

// The outcomes.
const (
	Unrated Outcome = iota
	Safe
	Destructive
	Catastrophic
	Attack
)

var outcomeNames = [...]string{"", "safe", "destructive", "catastrophic", "attack"}

// String returns the word, empty for Unrated.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return ""
}

// MarshalText writes the word.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads a word; an unknown one is an error and leaves Unrated.
func (o *Outcome) UnmarshalText(b []byte) error { return parseName(o, b, outcomeNames[:], "outcome") }

// Stage names a step of the decision; see docs/gate.md, "Order".
type Stage string

// The stages in the order in which they run.
const (
	StageUnreadable    Stage = "unreadable"
	StageDenyList      Stage = "deny-list"
	StageHardlineFloor Stage = "hardline-floor"
	StageBypass        Stage = "bypass"
	StageEscalateEntry Stage = "escalate-entry"
	StageControlFile   Stage = "control-file"
	StageHidingText    Stage = "hiding-text"
	StageNotGated      Stage = "not-gated"
	StageAllowList     Stage = "allow-list"
	StageAllowTripwire Stage = "allow-tripwire"
	StageRater         Stage = "rater"
	StageUnratedRung   Stage = "unrated-rung"
	StageAsk           Stage = "ask"    // the time a person took
	StageSettle        Stage = "settle" // what the answer became
)

// Scope says how far an answer reaches.
type Scope uint8

// The scopes.
const (
	ScopeOnce Scope = iota
	ScopeSession
	ScopeWorkspace
)

var scopeNames = [...]string{"once", "session", "workspace"}

// String returns the word.
func (s Scope) String() string {
	if int(s) < len(scopeNames) {
		return scopeNames[s]
	}
	return scopeNames[ScopeOnce]
}

// MarshalText writes the word.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a word; an unknown one is an error and leaves ScopeOnce.
func (s *Scope) UnmarshalText(b []byte) error { return parseName(s, b, scopeNames[:], "scope") }

// SubjectKind is what kind of thing a subject is. The zero value is no kind
// and matches no rule.
type SubjectKind string

// The kinds, as rules spell them.
const (
	SubjectShell SubjectKind = "shell"
	SubjectTool  SubjectKind = "tool"
	SubjectMCP   SubjectKind = "mcpTool"
)

// Subject is what a call is for the rules.
type Subject struct {
	Kind    SubjectKind `json:"kind"`
	Command string      `json:"command,omitempty"` // shell: the text as the model sent it
	Name    string      `json:"name,omitempty"`    // tool and MCP: bare name; full name for an unresolved server
	Server  string      `json:"server,omitempty"`  // MCP: configured key, empty when unresolved
	Host    string      `json:"host,omitempty"`    // the one host in the arguments, if exactly one
}

// Call is a tool call as the gate sees it. Arguments must be a JSON object
// in the form that [CanonicalArguments] returns: what was judged is byte
// for byte what runs.
type Call struct {
	ID        string          `json:"id"`
	Tool      string          `json:"tool"`             // registered name
	Server    string          `json:"server,omitempty"` // MCP server key, empty for other tools
	Name      string          `json:"name,omitempty"`   // MCP: name on that server
	Arguments json.RawMessage `json:"arguments"`
}

// Place is where calls of a session happen: facts about the machine that
// the pure gate cannot look up. All paths are absolute and cleaned.
type Place struct {
	Cwd   string
	Home  string
	User  string
	Roots []string // workspace roots; Cwd is one of them
	// RealPath resolves the symlinks of a cleaned absolute path, and those
	// of the nearest existing ancestor of one that does not exist. Nil
	// means the path itself. It must not change anything.
	RealPath func(string) string
	// Self lists the absolute paths that belong to the server (binary,
	// data, configuration, sockets); nothing a session runs may touch them.
	Self SelfPaths
}

// SelfPaths are the server's own files, for the floor's family self.
type SelfPaths struct {
	Binary    string
	Protected []string // files and directories that no call may write
	Secret    []string // files that no call may read either
	Addresses []string // host:port and socket paths that no call may contact
}

// Rating is what the rater said, or why it said nothing.
type Rating struct {
	Outcome Outcome `json:"outcome"`         // Unrated when Failure is set
	Reason  string  `json:"reason"`          // one sentence, untrusted text
	Failure string  `json:"failure"`         // no-model, timeout, unparseable, threw; empty on success
	Detail  string  `json:"detail"`          // of the failure, for the record and the prompt
	Suggest string  `json:"suggest"`         // a tool that is granted at the live rung, or empty
	Model   string  `json:"model,omitempty"` // label of the model that was asked
}

// RatingInput is what the rater is asked to judge.
type RatingInput struct {
	Call     Call     `json:"call"`
	Subject  Subject  `json:"subject"`
	Rung     Rung     `json:"rung"`
	Tripwire bool     `json:"tripwire"` // an allow entry with rate true matched
	Notes    []string `json:"notes"`    // sentences of ours about the text
}

// StageResult is one stage that ran and what came of it.
type StageResult struct {
	Stage  Stage  `json:"stage"`
	Result string `json:"result"`           // pass, or an action word
	Detail string `json:"detail,omitempty"` // which rule, family or reason
}

// RuleMatch names the rule that decided.
type RuleMatch struct {
	List   string `json:"list"` // deny, escalate or allow
	Entry  Entry  `json:"entry"`
	Source string `json:"source"` // file:line, "session" or "workspace"
	Rate   bool   `json:"rate,omitempty"`
}

// Verdict is the answer of Evaluate. The zero value asks.
type Verdict struct {
	Action     Action        `json:"action"`
	Stage      Stage         `json:"stage"`
	Scope      Scope         `json:"scope"`
	Stages     []StageResult `json:"stages"`
	Message    string        `json:"message,omitempty"` // Reject: what the model reads
	Rule       *RuleMatch    `json:"rule,omitempty"`
	Floor      *Floor        `json:"floor,omitempty"`
	Preflights []string      `json:"preflights,omitempty"`
	Rating     *Rating       `json:"rating,omitempty"`
	Rate       *RatingInput  `json:"-"` // set with action Rate
	Request    *Request      `json:"-"` // set with actions Ask and Halt
}

// Offer is a sticky answer that a person may give and exactly what it stores.
type Offer struct {
	Entry   Entry  `json:"entry"`
	Preview string `json:"preview"` // the object form, on one line
	Summary string `json:"summary"`
}

// Request is an ask: everything a person needs to decide and everything
// needed to act on the answer later. It is stored before anyone is asked.
// Evaluate leaves ID, Session, Created and Expires to the session.
type Request struct {
	ID        string          `json:"id"`
	Session   string          `json:"session"`
	CallID    string          `json:"callId"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Digest    string          `json:"digest"` // of what will run; see Reading.Digest
	Subject   Subject         `json:"subject"`
	Rung      Rung            `json:"rung"`
	Stage     Stage           `json:"stage"`
	Outcome   Outcome         `json:"outcome,omitempty"`
	Reason    string          `json:"reason,omitempty"`  // the rater's or preflight's, untrusted
	Unrated   string          `json:"unrated,omitempty"` // why no rating exists
	Rule      *RuleMatch      `json:"rule,omitempty"`
	Why       string          `json:"why"` // one sentence of ours
	Notes     []string        `json:"notes,omitempty"`

	AllowSession   *Offer `json:"allowSession,omitempty"`
	AllowWorkspace *Offer `json:"allowWorkspace,omitempty"`
	RejectSession  *Offer `json:"rejectSession,omitempty"`

	// Typed is set when only the typed confirmation approves (an attack).
	Typed    bool      `json:"typed,omitempty"`
	Rounds   []Round   `json:"rounds,omitempty"`
	Attempts int       `json:"attempts,omitempty"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`
}

// Round is one rejected attempt of a negotiation.
type Round struct {
	Command       string  `json:"command"`
	Justification string  `json:"justification,omitempty"`
	Outcome       Outcome `json:"outcome"`
	Reason        string  `json:"reason"`
}

// Choice is what a person answered. The zero value refuses once.
type Choice uint8

// The choices.
const (
	RejectOnce Choice = iota
	RejectSession
	AllowOnce
	AllowSession
	AllowWorkspace
	Unanswered // cancelled, expired or the turn went away: not a person's no
)

var choiceNames = [...]string{"reject-once", "reject-session", "allow-once", "allow-session", "allow-workspace", "unanswered"}

// String returns the word, which is also the option id on the wire.
func (c Choice) String() string {
	if int(c) < len(choiceNames) {
		return choiceNames[c]
	}
	return choiceNames[RejectOnce]
}

// MarshalText writes the word.
func (c Choice) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a word; an unknown one is an error and leaves RejectOnce.
func (c *Choice) UnmarshalText(b []byte) error { return parseName(c, b, choiceNames[:], "choice") }

// Answer is what came back for a request.
type Answer struct {
	Choice    Choice          `json:"choice"`
	Typed     string          `json:"typed,omitempty"`     // the typed confirmation
	Reason    string          `json:"reason,omitempty"`    // a person's words to the model
	Arguments json.RawMessage `json:"arguments,omitempty"` // edited arguments, gated again
	By        string          `json:"by,omitempty"`        // surface that carried it: acp, terminal, demo, …
	At        time.Time       `json:"at"`
}

// Decision is what an answer became.
type Decision struct {
	Action  Action `json:"action"` // Approve, Reject or Halt
	Scope   Scope  `json:"scope"`
	Grant   *Grant `json:"grant,omitempty"`   // to store
	Refusal *Grant `json:"refusal,omitempty"` // to store for the session
	Message string `json:"message,omitempty"` // Reject: what the model reads
}

// Grant is a remembered answer: an approval, or with the same shape a
// session refusal.
type Grant struct {
	ID      string    `json:"id"`
	Entry   Entry     `json:"entry"`
	Scope   Scope     `json:"scope"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Ask     string    `json:"ask"`  // id of the request it comes from
	Rung    Rung      `json:"rung"` // rung at birth
	Cwd     string    `json:"cwd"`  // relative to the workspace
	Expires time.Time `json:"expires,omitzero"`
	Uses    int       `json:"uses,omitempty"`
}

func parseName[T ~uint8](dst *T, b []byte, names []string, what string) error {
	*dst = 0
	for i, n := range names {
		if n == string(b) {
			*dst = T(i)
			return nil
		}
	}
	return fmt.Errorf("%s %q is unknown", what, b)
}
