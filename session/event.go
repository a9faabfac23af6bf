package session

import (
	"encoding/json"
	"time"

	"github.com/gth-server/gth-server/approvals"
)

// ID identifies a session: a UUID of version 7 in canonical form.
type ID string

// Seq is the place of a record in its session's log, from 1, without gaps.
type Seq uint64

// Record is one entry of the log.
type Record struct {
	Seq   Seq       `json:"seq"`
	At    time.Time `json:"at"`
	Turn  string    `json:"turn,omitempty"` // id of the turn it belongs to
	Event Event     `json:"-"`              // encoded with its type tag, see EncodeRecord
}

// Event is one thing that happened. The set is sealed and its members are
// passed by value; EncodeRecord and DecodeRecord know every one. Events
// marked live are shown to subscribers but never stored; see Live.
type Event interface{ event() }

// The life of a session and its turns.
type (
	// TurnStarted opens a turn with what the user sent.
	TurnStarted struct {
		ID     string  `json:"id"`
		Prompt []Block `json:"prompt"`
		By     string  `json:"by"` // surface: acp, run, demo, agui
		// Continues is set when nobody sent anything: the model goes on with
		// the results of calls that were approved since it stopped.
		Continues bool `json:"continues,omitempty"`
	}
	// TurnEnded closes a turn. Error is set when it failed; it is a text
	// for people, ErrorKind the machine's word (model, limit, store, …).
	TurnEnded struct {
		ID        string     `json:"id"`
		Reason    StopReason `json:"reason"`
		Error     string     `json:"error,omitempty"`
		ErrorKind string     `json:"errorKind,omitempty"`
		Usage     Usage      `json:"usage"`
		Head      string     `json:"head,omitempty"` // of the chain of decisions, see Verify
	}
	// RungChanged moves the session to another rung.
	RungChanged struct {
		From approvals.Rung `json:"from"`
		To   approvals.Rung `json:"to"`
		By   string         `json:"by"`
	}
	// TitleChanged names the session.
	TitleChanged struct {
		Title string `json:"title"`
	}
)

// What the model says.
type (
	// TextDelta is a piece of the answer. Live.
	TextDelta struct {
		Message string `json:"message"`
		Text    string `json:"text"`
	}
	// ReasoningDelta is a piece of the model's reasoning. Live.
	ReasoningDelta struct {
		Message string `json:"message"`
		Text    string `json:"text"`
	}
	// Text is a whole message of the model, or with Partial what had
	// arrived when the turn was cancelled or failed.
	Text struct {
		Message string `json:"message"`
		Text    string `json:"text"`
		Partial bool   `json:"partial,omitempty"`
	}
	// Reasoning is the whole reasoning of one model step.
	Reasoning struct {
		Message string `json:"message"`
		Text    string `json:"text"`
	}
	// Step is one whole answer of the model as the runner keeps it for the
	// model's history; Message is opaque to this package.
	Step struct {
		Number  int             `json:"number"`
		Message json.RawMessage `json:"message"`
		Usage   Usage           `json:"usage"`
	}
)

// What tool calls go through.
type (
	// CallAnnounced introduces a call before it is gated.
	CallAnnounced struct {
		Call      approvals.Call `json:"call"`
		Title     string         `json:"title"`
		Kind      ToolKind       `json:"kind"`
		Locations []Location     `json:"locations,omitempty"`
	}
	// Decided records a verdict, and after an ask what it became.
	Decided struct {
		ID       string              `json:"id"` // of the decision
		CallID   string              `json:"callId"`
		Tool     string              `json:"tool"`
		Subject  approvals.Subject   `json:"subject"`
		Rung     approvals.Rung      `json:"rung"`
		Verdict  approvals.Verdict   `json:"verdict"`
		AskID    string              `json:"askId,omitempty"`
		Answer   *approvals.Answer   `json:"answer,omitempty"`
		Decision *approvals.Decision `json:"decision,omitempty"`
		Duration time.Duration       `json:"duration"`
		Link     *Link               `json:"link,omitempty"` // the session sets it
	}
	// Asked puts a question to a person. It is stored once. While no turn
	// of its own is running and it is open, every new subscription gets it
	// once more as a live record (Seq 0) behind the log.
	Asked struct {
		Request approvals.Request `json:"request"`
	}
	// Answered settles a question.
	Answered struct {
		AskID    string             `json:"askId"`
		CallID   string             `json:"callId"`
		Answer   approvals.Answer   `json:"answer"`
		Decision approvals.Decision `json:"decision"`
		Link     *Link              `json:"link,omitempty"` // the session sets it
	}
	// Granted stores a session grant or, with Refusal, a session refusal.
	Granted struct {
		Grant   approvals.Grant `json:"grant"`
		Refusal bool            `json:"refusal,omitempty"`
	}
	// CallExecuting is stored before a call has any effect.
	CallExecuting struct {
		CallID string `json:"callId"`
		Digest string `json:"digest"`
	}
	// CallOutput is a piece of a running call's output. Live.
	CallOutput struct {
		CallID string `json:"callId"`
		Text   string `json:"text"`
	}
	// CallEnded gives a call its terminal state and the model its result.
	CallEnded struct {
		CallID   string        `json:"callId"`
		State    CallState     `json:"state"`
		Result   string        `json:"result"`             // what the model reads
		Display  string        `json:"display,omitempty"`  // what people read, when it differs
		Diffs    []Diff        `json:"diffs,omitempty"`    // of file writes
		ExitCode *int          `json:"exitCode,omitempty"` // of commands
		Duration time.Duration `json:"duration"`
	}
)

// Block is one part of a prompt.
type Block struct {
	Type     string `json:"type"` // text, resource_link
	Text     string `json:"text,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
}

// Usage counts tokens. Zero means that the provider did not say.
type Usage struct {
	Input     int `json:"input,omitempty"`
	Output    int `json:"output,omitempty"`
	Cached    int `json:"cached,omitempty"`
	Reasoning int `json:"reasoning,omitempty"`
}

// Diff is a change to one file. Old is nil for a new file.
type Diff struct {
	Path string  `json:"path"` // absolute
	Old  *string `json:"old"`
	New  string  `json:"new"`
}

// Location is a place in a file that a call works at.
type Location struct {
	Path string `json:"path"` // absolute
	Line int    `json:"line,omitempty"`
}

// ToolKind groups tools for display, in ACP's words.
type ToolKind string

// The kinds in use.
const (
	KindRead    ToolKind = "read"
	KindEdit    ToolKind = "edit"
	KindDelete  ToolKind = "delete"
	KindMove    ToolKind = "move"
	KindSearch  ToolKind = "search"
	KindExecute ToolKind = "execute"
	KindThink   ToolKind = "think"
	KindFetch   ToolKind = "fetch"
	KindOther   ToolKind = "other"
)

// CallState is how a call ended.
type CallState string

// The terminal states.
const (
	CallCompleted CallState = "completed" // the tool ran; Result is its result
	CallFailed    CallState = "failed"    // the tool ran and failed, or its arguments were refused by it
	CallRefused   CallState = "refused"   // the gate or a person said no; nothing ran
	CallCancelled CallState = "cancelled" // the turn ended first
	CallUnknown   CallState = "unknown"   // the process died in between; not repeated
)

// StopReason is why a turn ended, in ACP's words where it has one.
type StopReason string

// The stop reasons.
const (
	StopEndTurn   StopReason = "end_turn"
	StopMaxTokens StopReason = "max_tokens"
	StopMaxSteps  StopReason = "max_turn_requests"
	StopRefusal   StopReason = "refusal" // an attack halted the turn
	StopCancelled StopReason = "cancelled"
	StopAsked     StopReason = "asked" // asks are open and the turn does not wait for them
	StopFailed    StopReason = "failed"
)

func (TurnStarted) event()    {}
func (TurnEnded) event()      {}
func (RungChanged) event()    {}
func (TitleChanged) event()   {}
func (TextDelta) event()      {}
func (ReasoningDelta) event() {}
func (Text) event()           {}
func (Reasoning) event()      {}
func (Step) event()           {}
func (CallAnnounced) event()  {}
func (Decided) event()        {}
func (Asked) event()          {}
func (Answered) event()       {}
func (Granted) event()        {}
func (CallExecuting) event()  {}
func (CallOutput) event()     {}
func (CallEnded) event()      {}
