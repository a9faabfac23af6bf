package acp

import (
	"context"

	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/session"
)

// replay tells the client what the session's log holds, and its title.
func (a *attached) replay(ctx context.Context, past []session.Record) error {
	var stopped error
	a.tr.history(past, func(u wire.SessionUpdate) bool {
		if ctx.Err() != nil {
			stopped = withdrawn(ctx)
			return false
		}
		a.c.notify(a.s.ID(), u)
		return true
	})
	if stopped == nil && a.title != "" {
		a.c.notify(a.s.ID(), titleUpdate(a.title))
	}
	return stopped
}

func titleUpdate(title string) wire.SessionUpdate {
	return wire.SessionUpdate{SessionInfoUpdate: &wire.SessionInfoUpdate{Title: wire.Some(visible(title))}}
}

// history turns a log into updates: messages whole, each finished call once,
// where it was announced and as it ended. Calls that go on are known to t
// afterwards. It ends early when tell says so.
func (t *translator) history(past []session.Record, tell func(wire.SessionUpdate) bool) {
	last := endsOf(past)
	for i, rec := range past {
		for _, u := range t.replayed(rec.Event, last[i]) {
			if !tell(u) {
				return
			}
		}
	}
}

// remember is history for a client that is told nothing of it: calls that go
// on are announced to it when something happens to them.
func (t *translator) remember(past []session.Record) {
	t.history(past, func(wire.SessionUpdate) bool { return true })
	for _, c := range t.calls {
		c.untold = true
	}
}

// later is what the log holds behind a record about the same thing.
type later struct {
	end *session.CallEnded // of the call that the record announces
	has bool               // more of the message that the record is a part of
}

// endsOf looks ahead for every record of a log.
func endsOf(past []session.Record) map[int]later {
	out := map[int]later{}
	ends := map[string]*session.CallEnded{}
	texts := map[string]bool{}
	for i := len(past) - 1; i >= 0; i-- {
		switch e := past[i].Event.(type) {
		case session.CallEnded:
			ends[e.CallID] = &e
		case session.CallAnnounced:
			out[i] = later{end: ends[e.Call.ID]}
			delete(ends, e.Call.ID)
		case session.Text:
			key := past[i].Turn + " " + e.Message
			out[i] = later{has: texts[key]}
			texts[key] = true
		}
	}
	return out
}

// replayed returns what a client is told of a stored event later on.
func (t *translator) replayed(ev session.Event, then later) []wire.SessionUpdate {
	switch e := ev.(type) {
	case session.TurnStarted:
		return userMessage(e)
	case session.Text:
		if e.Partial && then.has {
			return nil
		}
		return chunk("text ", e.Message, e.Text)
	case session.Reasoning:
		return chunk("thought ", e.Message, e.Text)
	case session.CallAnnounced:
		if then.end == nil {
			return t.announce(e)
		}
		c, o := newCall(e).pending(), outcomeOf(*then.end)
		c.Status, c.Content, c.RawOutput = o.status, o.content, o.raw
		return []wire.SessionUpdate{{ToolCall: c}}
	case session.CallExecuting:
		if t.calls[e.CallID] != nil {
			return inProgress(e.CallID)
		}
	}
	return nil
}

// userMessage repeats a prompt.
func userMessage(e session.TurnStarted) []wire.SessionUpdate {
	var out []wire.SessionUpdate
	for _, b := range e.Prompt {
		content := textBlock(b.Text)
		if b.Type == "resource_link" {
			link := &wire.ResourceLink{Name: b.Name, URI: b.URI}
			if b.MimeType != "" {
				link.MimeType = wire.Some(b.MimeType)
			}
			content = wire.ContentBlock{ResourceLink: link}
		}
		out = append(out, wire.SessionUpdate{UserMessageChunk: &wire.ContentChunk{Content: content, MessageID: wire.Some(wire.MessageID(e.ID))}})
	}
	return out
}
