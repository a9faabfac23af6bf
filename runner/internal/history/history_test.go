package history

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cloudwego/eino/schema"
	"pgregory.net/rapid"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

func log(events ...session.Event) []session.Record {
	out := make([]session.Record, len(events))
	for i, e := range events {
		out[i] = session.Record{Seq: session.Seq(i + 1), Event: e}
	}
	return out
}

func started(text string) session.Event {
	return session.TurnStarted{Prompt: []session.Block{{Type: "text", Text: text}}}
}

func answer(text, reasoning string, calls ...string) session.Event {
	m := schema.AssistantMessage(text, nil)
	m.ReasoningContent = reasoning
	for _, id := range calls {
		m.ToolCalls = append(m.ToolCalls, schema.ToolCall{ID: id, Function: schema.FunctionCall{Name: "t", Arguments: "{}"}})
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return session.Step{Message: raw}
}

func render(b *Builder) string {
	var out []string
	for _, m := range b.Messages() {
		s := string(m.Role) + "(" + m.Content + ")"
		if m.ReasoningContent != "" {
			s += "[" + m.ReasoningContent + "]"
		}
		for _, c := range m.ToolCalls {
			s += " " + c.ID
		}
		if m.ToolCallID != "" {
			s += " for " + m.ToolCallID
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func TestHistory(t *testing.T) {
	ended := session.TurnEnded{}
	tests := []struct {
		name string
		log  []session.Record
		want string
	}{
		{"one turn", log(started("hi"), session.Text{Text: "yo"}, answer("yo", ""), ended), "user(hi); assistant(yo)"},
		{
			"calls and results", log(started("hi"), answer("", "why", "a", "b"), session.CallAnnounced{Call: approvals.Call{ID: "a"}},
				session.CallEnded{CallID: "b", Result: "2"}, session.CallExecuting{CallID: "a"}, session.CallEnded{CallID: "a", Result: "1"}),
			"user(hi); assistant()[why] a b; tool(1) for a; tool(2) for b",
		},
		{"a call without an end", log(started("hi"), answer("", "", "a")), "user(hi); assistant() a; tool(" + neverRan + ") for a"},
		{"a call that was running", log(started("hi"), answer("", "", "a"), session.CallExecuting{CallID: "a"}), "user(hi); assistant() a; tool(" + unknown + ") for a"},
		{"no output", log(started("hi"), answer("", "", "a"), session.CallEnded{CallID: "a"}), "user(hi); assistant() a; tool((no output)) for a"},
		{
			"reasoning goes with its turn", log(started("1"), answer("x", "r1"), ended, started("2"), answer("", "r2", "a")),
			"user(1); assistant(x); user(2); assistant()[r2] a; tool(" + neverRan + ") for a",
		},
		{"a failed turn", log(started("1"), ended, started("2")), "user(1); assistant(" + noAnswer + "); user(2)"},
		{"a crashed turn", log(started("1"), started("2")), "user(1); assistant(" + noAnswer + "); user(2)"},
		{
			"a broken answer", log(started("1"), session.Text{Text: "hal", Partial: true}, ended, started("2")),
			"user(1); assistant(hal" + stopMarker + "); user(2)",
		},
		{
			"a broken answer that was repeated", log(started("1"), session.Text{Text: "hal", Partial: true}, session.Text{Text: "hallo"}, answer("hallo", ""), ended),
			"user(1); assistant(hallo)",
		},
		{
			"a turn that continues behind results", log(started("1"), answer("", "why", "a"), ended, session.CallEnded{CallID: "a", Result: "ran"}, session.TurnStarted{Continues: true}),
			"user(1); assistant()[why] a; tool(ran) for a",
		},
		{
			"a turn that continues behind an answer", log(started("1"), answer("x", ""), ended, session.TurnStarted{Continues: true}, answer("y", ""), ended),
			"user(1); assistant(x); user(" + goOn + "); assistant(y)",
		},
		{"a turn that continues behind nothing", log(session.TurnStarted{Continues: true}, ended), "user(" + goOn + "); assistant(" + noAnswer + ")"},
		{"an empty answer", log(started("1"), answer("", ""), ended, started("2")), "user(1); assistant(" + noAnswer + "); user(2)"},
		{"a link", log(session.TurnStarted{Prompt: []session.Block{{Type: "text", Text: "see"}, {Type: "resource_link", URI: "file:///a", Name: "a"}}}), "user(see\n[a](file:///a))"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := New("")
			if err := b.Update(tt.log); err != nil {
				t.Fatal(err)
			}
			if got := render(b); got != tt.want {
				t.Fatalf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	t.Logf("%d cases", len(tests))
}

func TestABrokenMessageIsAnError(t *testing.T) {
	if err := New("").Update(log(session.Step{Number: 3, Message: json.RawMessage("[]")})); err == nil || !strings.Contains(err.Error(), "log record 1: model message of step 3") {
		t.Fatalf("error is %v", err)
	}
}

// TestEveryCallHasOneResult holds for any log, cut anywhere, and however
// often the builder was updated on the way.
func TestEveryCallHasOneResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []session.Event
		ids := []string{}
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 6:
				events = append(events, session.TurnStarted{Continues: true})
			case 0:
				events = append(events, started("p"))
			case 1:
				var calls []string
				for range rapid.IntRange(0, 3).Draw(t, "calls") {
					ids = append(ids, "c"+string(rune('a'+len(ids))))
					calls = append(calls, ids[len(ids)-1])
				}
				events = append(events, answer(rapid.SampledFrom([]string{"", "x"}).Draw(t, "text"), "", calls...))
			case 2:
				events = append(events, session.TurnEnded{})
			case 3:
				events = append(events, session.Text{Text: "part", Partial: true})
			default:
				if len(ids) > 0 {
					id := rapid.SampledFrom(ids).Draw(t, "id")
					events = append(events, session.CallExecuting{CallID: id}, session.CallEnded{CallID: id, Result: "r"})
				}
			}
		}
		all := log(events...)
		once, often := New("s"), New("s")
		if err := once.Update(all); err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if err := often.Update(all[:i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if render(once) != render(often) {
			t.Fatalf("at once %s\nstep by step %s", render(once), render(often))
		}
		var open []string
		for _, m := range once.Messages() {
			if m.Role == schema.Tool {
				if len(open) == 0 || open[0] != m.ToolCallID {
					t.Fatalf("result for %q, open are %q", m.ToolCallID, open)
				}
				open = open[1:]
				continue
			}
			if len(open) > 0 {
				t.Fatalf("no result for %q", open)
			}
			for _, c := range m.ToolCalls {
				open = append(open, c.ID)
			}
		}
		if len(open) > 0 {
			t.Fatalf("no result for %q", open)
		}
	})
}
