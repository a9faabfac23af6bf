package acp

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// Bounds of the output that is shown of a running call: an update replaces
// the content, so each carries all of it.
const (
	outputEvery = 200 * time.Millisecond
	outputTail  = 16 << 10 // bytes
)

// translator turns the events of one session into updates. It does no I/O.
type translator struct {
	texts map[string]string // what was sent of a message that goes on
	calls map[string]*call
}

// call is what is known of a tool call that has not ended.
type call struct {
	id        string
	title     string
	kind      wire.ToolKind
	input     json.RawMessage
	locations []wire.ToolCallLocation
	output    string
	shown     time.Time
	untold    bool // the client does not know of it yet
}

func newTranslator() *translator {
	return &translator{texts: map[string]string{}, calls: map[string]*call{}}
}

// updates returns what a client is told of ev.
func (t *translator) updates(ev session.Event, now time.Time) []wire.SessionUpdate {
	before := t.introduce(callOf(ev))
	return append(before, t.translate(ev, now)...)
}

// callOf names the call that ev goes on with.
func callOf(ev session.Event) string {
	switch e := ev.(type) {
	case session.Asked:
		return e.Request.CallID
	case session.CallExecuting:
		return e.CallID
	case session.CallOutput:
		return e.CallID
	case session.CallEnded:
		return e.CallID
	}
	return ""
}

// introduce announces a call that the client does not know of yet.
func (t *translator) introduce(id string) []wire.SessionUpdate {
	c := t.calls[id]
	if c == nil || !c.untold {
		return nil
	}
	c.untold = false
	return []wire.SessionUpdate{{ToolCall: c.pending()}}
}

func (t *translator) translate(ev session.Event, now time.Time) []wire.SessionUpdate {
	switch e := ev.(type) {
	case session.TextDelta:
		return t.piece("text ", e.Message, e.Text)
	case session.ReasoningDelta:
		return t.piece("thought ", e.Message, e.Text)
	case session.Text:
		return t.whole("text ", e.Message, e.Text, e.Partial)
	case session.Reasoning:
		return t.whole("thought ", e.Message, e.Text, false)
	case session.CallAnnounced:
		return t.announce(e)
	case session.Asked:
		return t.announceAsked(e.Request)
	case session.CallExecuting:
		return inProgress(e.CallID)
	case session.CallOutput:
		return t.running(e, now)
	case session.CallEnded:
		return t.end(e)
	case session.TurnEnded:
		clear(t.texts) // a call may outlive its turn
	}
	return nil
}

func inProgress(callID string) []wire.SessionUpdate {
	return []wire.SessionUpdate{{ToolCallUpdate: &wire.ToolCallUpdate{
		ToolCallID: wire.ToolCallID(callID), Status: wire.Some(wire.ToolCallStatusInProgress),
	}}}
}

func chunk(kind, message, text string) []wire.SessionUpdate {
	if text == "" {
		return nil
	}
	c := &wire.ContentChunk{Content: textBlock(text)}
	if message != "" {
		c.MessageID = wire.Some(wire.MessageID(message))
	}
	if kind == "text " {
		return []wire.SessionUpdate{{AgentMessageChunk: c}}
	}
	return []wire.SessionUpdate{{AgentThoughtChunk: c}}
}

func (t *translator) piece(kind, message, text string) []wire.SessionUpdate {
	t.texts[kind+message] += text
	return chunk(kind, message, text)
}

// whole sends what a client has not seen of a message: a subscriber that
// lags gets the beginning in pieces and the rest here.
func (t *translator) whole(kind, message, text string, partial bool) []wire.SessionUpdate {
	key := kind + message
	rest, isRest := strings.CutPrefix(text, t.texts[key])
	switch {
	case partial && !isRest:
		return nil // pieces went on since it was stored
	case partial:
		t.texts[key] = text
	default:
		delete(t.texts, key)
	}
	return chunk(kind, message, rest)
}

func (t *translator) announce(e session.CallAnnounced) []wire.SessionUpdate {
	c := newCall(e)
	t.calls[c.id] = c
	return []wire.SessionUpdate{{ToolCall: c.pending()}}
}

func newCall(e session.CallAnnounced) *call {
	c := &call{id: e.Call.ID, title: e.Title, kind: toolKind(e.Kind), input: rawInput(e.Call.Arguments)}
	if c.title == "" {
		c.title = e.Call.Tool
	}
	for _, l := range e.Locations {
		loc := wire.ToolCallLocation{Path: l.Path}
		if l.Line > 0 {
			loc.Line = wire.Some(uint32(l.Line))
		}
		c.locations = append(c.locations, loc)
	}
	return c
}

// pending announces c.
func (c *call) pending() *wire.ToolCall {
	return &wire.ToolCall{
		ToolCallID: wire.ToolCallID(c.id), Title: c.title, Kind: c.kind, Status: wire.ToolCallStatusPending,
		RawInput: c.input, Locations: c.locations,
	}
}

// announceAsked makes sure that no question comes before its call.
func (t *translator) announceAsked(r approvals.Request) []wire.SessionUpdate {
	if r.Typed || t.calls[r.CallID] != nil {
		return nil
	}
	e := session.CallAnnounced{Call: approvals.Call{ID: r.CallID, Tool: r.Tool, Arguments: r.Arguments}, Title: r.Tool, Kind: session.KindOther}
	if r.Subject.Kind == approvals.SubjectShell {
		e.Title, e.Kind = r.Subject.Command, session.KindExecute
	}
	return t.announce(e)
}

// running shows the last part of a running call's output, not too often;
// its end shows the rest.
func (t *translator) running(e session.CallOutput, now time.Time) []wire.SessionUpdate {
	c := t.calls[e.CallID]
	if c == nil {
		return nil
	}
	c.output = tail(c.output+e.Text, outputTail)
	if !c.shown.IsZero() && now.Sub(c.shown) < outputEvery {
		return nil
	}
	c.shown = now
	return []wire.SessionUpdate{{ToolCallUpdate: &wire.ToolCallUpdate{
		ToolCallID: wire.ToolCallID(c.id), Content: wire.Some([]wire.ToolCallContent{textContent(fence(c.output, ""))}),
	}}}
}

// end gives a call its last state.
func (t *translator) end(e session.CallEnded) []wire.SessionUpdate {
	delete(t.calls, e.CallID)
	o := outcomeOf(e)
	return []wire.SessionUpdate{{ToolCallUpdate: &wire.ToolCallUpdate{
		ToolCallID: wire.ToolCallID(e.CallID), Status: wire.Some(o.status), Content: wire.Some(o.content), RawOutput: o.raw,
	}}}
}

// outcome is what a client is told of the end of a call.
type outcome struct {
	status  wire.ToolCallStatus
	content []wire.ToolCallContent
	raw     json.RawMessage
}

// outcomeOf holds a call's diffs, which are sent with its end and nowhere
// else; a text beside them would be shown over them.
func outcomeOf(e session.CallEnded) outcome {
	o := outcome{status: wire.ToolCallStatusFailed, content: []wire.ToolCallContent{}}
	if e.State == session.CallCompleted {
		o.status = wire.ToolCallStatusCompleted
	}
	for _, d := range e.Diffs {
		old := wire.Null[string]()
		if d.Old != nil {
			old = wire.Some(*d.Old)
		}
		o.content = append(o.content, wire.ToolCallContent{Diff: &wire.Diff{Path: d.Path, OldText: old, NewText: d.New}})
	}
	text := e.Display
	if text == "" {
		text = e.Result
	}
	if len(o.content) == 0 && text != "" {
		o.content = append(o.content, textContent(fence(text, "")))
	}
	out := map[string]any{"state": e.State}
	if e.ExitCode != nil {
		out["exitCode"] = *e.ExitCode
	}
	if raw, err := json.Marshal(out); err == nil {
		o.raw = raw
	}
	return o
}

func toolKind(k session.ToolKind) wire.ToolKind {
	switch w := wire.ToolKind(k); w {
	case wire.ToolKindRead, wire.ToolKindEdit, wire.ToolKindDelete, wire.ToolKindMove, wire.ToolKindSearch,
		wire.ToolKindExecute, wire.ToolKindThink, wire.ToolKindFetch:
		return w
	}
	return wire.ToolKindOther
}

// rawInput returns arguments as JSON; text that is none becomes a string.
func rawInput(args json.RawMessage) json.RawMessage {
	if len(args) == 0 || json.Valid(args) {
		return args
	}
	b, err := json.Marshal(string(args))
	if err != nil {
		return nil
	}
	return b
}

func textBlock(s string) wire.ContentBlock {
	return wire.ContentBlock{Text: &wire.TextContent{Text: s}}
}

func textContent(s string) wire.ToolCallContent {
	return wire.ToolCallContent{Content: &wire.Content{Content: textBlock(s)}}
}

// tail returns the last n bytes of s or a little less, whole characters.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for i := 0; i < len(s); i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return ""
}
