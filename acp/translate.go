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
}

func newTranslator() *translator {
	return &translator{texts: map[string]string{}, calls: map[string]*call{}}
}

// updates returns what a client is told of ev.
func (t *translator) updates(ev session.Event, now time.Time) []wire.SessionUpdate {
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
		return []wire.SessionUpdate{{ToolCallUpdate: &wire.ToolCallUpdate{
			ToolCallID: wire.ToolCallID(e.CallID), Status: wire.Some(wire.ToolCallStatusInProgress),
		}}}
	case session.CallOutput:
		return t.running(e, now)
	case session.CallEnded:
		return t.end(e)
	case session.TurnEnded:
		clear(t.texts)
		clear(t.calls)
	}
	return nil
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
	t.calls[c.id] = c
	return []wire.SessionUpdate{{ToolCall: c.pending()}}
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

// end gives a call its last state. Diffs are sent here and nowhere else; a
// text beside them would be shown over them.
func (t *translator) end(e session.CallEnded) []wire.SessionUpdate {
	delete(t.calls, e.CallID)
	status := wire.ToolCallStatusFailed
	if e.State == session.CallCompleted {
		status = wire.ToolCallStatusCompleted
	}
	content := []wire.ToolCallContent{}
	for _, d := range e.Diffs {
		old := wire.Null[string]()
		if d.Old != nil {
			old = wire.Some(*d.Old)
		}
		content = append(content, wire.ToolCallContent{Diff: &wire.Diff{Path: d.Path, OldText: old, NewText: d.New}})
	}
	text := e.Display
	if text == "" {
		text = e.Result
	}
	if len(content) == 0 && text != "" {
		content = append(content, textContent(fence(text, "")))
	}
	u := &wire.ToolCallUpdate{ToolCallID: wire.ToolCallID(e.CallID), Status: wire.Some(status), Content: wire.Some(content)}
	out := map[string]any{"state": e.State}
	if e.ExitCode != nil {
		out["exitCode"] = *e.ExitCode
	}
	if raw, err := json.Marshal(out); err == nil {
		u.RawOutput = raw
	}
	return []wire.SessionUpdate{{ToolCallUpdate: u}}
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
