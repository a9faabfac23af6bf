package acp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

func callFor(id, title string) session.CallAnnounced {
	return session.CallAnnounced{Call: approvals.Call{ID: id, Tool: "t", Arguments: json.RawMessage(`{}`)}, Title: title}
}

// line tells an update in a few words.
func line(u wire.SessionUpdate) string {
	switch {
	case u.UserMessageChunk != nil:
		return "user " + u.UserMessageChunk.Content.Text.Text
	case u.AgentMessageChunk != nil:
		return "agent " + u.AgentMessageChunk.Content.Text.Text
	case u.AgentThoughtChunk != nil:
		return "thought " + u.AgentThoughtChunk.Content.Text.Text
	case u.ToolCall != nil:
		return "call " + u.ToolCall.Title + " " + string(u.ToolCall.Status)
	case u.ToolCallUpdate != nil:
		s, _ := u.ToolCallUpdate.Status.Get()
		return "update " + string(u.ToolCallUpdate.ToolCallID) + " " + string(s)
	}
	return "?"
}

func lines(us []wire.SessionUpdate) []string {
	var out []string
	for _, u := range us {
		out = append(out, line(u))
	}
	return out
}

func records(turn string, evs ...session.Event) []session.Record {
	var out []session.Record
	for _, ev := range evs {
		out = append(out, session.Record{Turn: turn, Event: ev})
	}
	return out
}

func TestHistory(t *testing.T) {
	prompt := func(id, text string) session.Event {
		return session.TurnStarted{ID: id, Prompt: []session.Block{{Type: "text", Text: text}}}
	}
	for _, c := range []struct {
		name string
		past []session.Record
		want []string
		open []string // calls that go on
	}{
		{name: "nothing"},
		{
			name: "calls beside each other keep the order in which they were announced",
			past: records("1", prompt("1", "go"), session.Reasoning{Message: "r", Text: "hm"}, callFor("a", "first"), callFor("b", "second"),
				session.CallExecuting{CallID: "b"}, session.CallEnded{CallID: "b", State: session.CallCompleted},
				session.CallExecuting{CallID: "a"}, session.CallEnded{CallID: "a", State: session.CallFailed}, session.TurnEnded{ID: "1"}),
			want: []string{"user go", "thought hm", "call first failed", "call second completed"},
		},
		{
			name: "of a message in parts only the last",
			past: records("1", session.Text{Message: "m", Text: "ab", Partial: true}, session.Text{Message: "m", Text: "abc", Partial: true},
				session.Text{Message: "m", Text: "abcd"}, session.Text{Message: "n", Text: "x", Partial: true}, session.Text{Message: "o"}),
			want: []string{"agent abcd", "agent x"},
		},
		{
			name: "an id that comes again",
			past: append(records("1", session.Text{Message: "m", Text: "one", Partial: true}, callFor("a", "first"), session.CallEnded{CallID: "a", State: session.CallCompleted}),
				records("2", session.Text{Message: "m", Text: "two"}, callFor("a", "second"), session.CallEnded{CallID: "a", State: session.CallRefused})...),
			want: []string{"agent one", "call first completed", "agent two", "call second failed"},
		},
		{
			name: "calls that go on",
			past: append(records("1", callFor("a", "first"), callFor("b", "second"), callFor("c", "third"), session.CallEnded{CallID: "b", State: session.CallUnknown}, session.TurnEnded{ID: "1"}),
				records("", session.CallExecuting{CallID: "c"})...),
			want: []string{"call first pending", "call second failed", "call third pending", "update c in_progress"},
			open: []string{"a", "c"},
		},
		{
			name: "a turn that nobody prompted",
			past: records("1", session.TurnStarted{ID: "1", Continues: true}, session.Text{Message: "m", Text: "on"}),
			want: []string{"agent on"},
		},
		{
			name: "what is not for clients",
			past: records("1", session.Step{Number: 1}, session.Decided{ID: "d"}, session.Granted{}, session.RungChanged{To: approvals.Auto},
				session.Asked{}, session.Answered{}, session.TitleChanged{Title: "x"}),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTranslator()
			var got []string
			tr.history(c.past, func(u wire.SessionUpdate) bool { got = append(got, line(u)); return true })
			if !slices.Equal(got, c.want) {
				t.Errorf("told\n %q, want\n %q", got, c.want)
			}
			for _, id := range c.open {
				if tr.calls[id] == nil {
					t.Errorf("call %s is forgotten", id)
				}
			}
			if len(tr.calls) != len(c.open) {
				t.Errorf("%d calls go on, want %d", len(tr.calls), len(c.open))
			}
		})
	}
}

// A client that was told nothing learns of a call when it goes on, once.
func TestRemember(t *testing.T) {
	tr := newTranslator()
	tr.remember(records("1", callFor("a", "first"), callFor("b", "second")))
	for _, c := range []struct {
		ev   session.Event
		want []string
	}{
		{session.Asked{Request: approvals.Request{CallID: "a"}}, []string{"call first pending"}},
		{session.TurnEnded{ID: "1"}, nil},
		{session.CallExecuting{CallID: "a"}, []string{"update a in_progress"}},
		{session.CallEnded{CallID: "a", State: session.CallCompleted}, []string{"update a completed"}},
		{session.CallEnded{CallID: "b", State: session.CallCancelled}, []string{"call second pending", "update b failed"}},
	} {
		if got := lines(tr.updates(c.ev, time.Now())); !slices.Equal(got, c.want) {
			t.Errorf("%T told %q, want %q", c.ev, got, c.want)
		}
	}
}

// A replay that nobody waits for stops.
func TestHistoryStops(t *testing.T) {
	told := 0
	newTranslator().history(records("1", session.Text{Text: "a"}, session.Text{Text: "b"}), func(wire.SessionUpdate) bool { told++; return false })
	if told != 1 {
		t.Errorf("told %d updates after it was stopped", told)
	}
}

// The descriptions are for pickers, of which many print one sentence.
func TestRungTexts(t *testing.T) {
	for _, r := range approvals.Rungs() {
		name, text := rungText(r)
		if !strings.EqualFold(name, r.String()) || name == r.String() {
			t.Errorf("the label of %s is %q", r, name)
		}
		sentences := strings.Split(strings.TrimSuffix(text, "."), ". ")
		if len(sentences) > 2 || !strings.Contains(sentences[0], "this session") || !strings.HasSuffix(text, ".") {
			t.Errorf("%s: %q is not one or two sentences, of which the first says what it is about", r, text)
		}
		if got := strings.Contains(sentences[0], "recoverable"); got != r.Rated() {
			t.Errorf("%s: the limit to recoverable work in %q: %v", r, sentences[0], got)
		}
	}
}

// FuzzHistory: whatever a log holds, each call is told at most once as
// finished, and what is told fits the schema.
func FuzzHistory(f *testing.F) {
	f.Add([]byte("aAeEtTpxu"))
	f.Fuzz(func(t *testing.T, script []byte) {
		var past []session.Record
		announced := 0
		for i, b := range script[:min(len(script), 200)] {
			id := string(rune('a' + i%3))
			var ev session.Event
			switch b % 8 {
			case 0:
				ev, announced = callFor(id, id), announced+1
			case 1:
				ev = session.CallEnded{CallID: id, State: session.CallCompleted, Result: "r"}
			case 2:
				ev = session.CallExecuting{CallID: id}
			case 3:
				ev = session.Text{Message: id, Text: string(script), Partial: b&8 == 0}
			case 4:
				ev = session.TurnStarted{ID: id, Prompt: []session.Block{{Type: "text", Text: string(b)}}}
			case 5:
				ev = session.TurnEnded{ID: id}
			case 6:
				ev = session.Reasoning{Message: id, Text: "x"}
			default:
				ev = session.CallOutput{CallID: id, Text: "x"}
			}
			past = append(past, session.Record{Turn: string(rune('0' + i%2)), Event: ev})
		}
		tr, calls := newTranslator(), 0
		tr.history(past, func(u wire.SessionUpdate) bool {
			if u.ToolCall != nil {
				calls++
			}
			raw, err := json.Marshal(wire.SessionNotification{SessionID: "s", Update: u})
			if err != nil {
				t.Fatal(err)
			}
			if err := fits("SessionNotification", raw); err != nil {
				t.Errorf("%v in %s", err, raw)
			}
			return true
		})
		if calls != announced {
			t.Errorf("%d calls told, %d announced", calls, announced)
		}
	})
}
