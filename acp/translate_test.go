package acp

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

func feed(tr *translator, at time.Time, evs ...session.Event) string {
	var said []string
	for _, ev := range evs {
		for _, u := range tr.updates(ev, at) {
			switch {
			case u.AgentMessageChunk != nil:
				said = append(said, u.AgentMessageChunk.Content.Text.Text)
			case u.AgentThoughtChunk != nil:
				said = append(said, "("+u.AgentThoughtChunk.Content.Text.Text+")")
			default:
				b, _ := json.Marshal(u)
				said = append(said, string(b))
			}
		}
	}
	return strings.Join(said, "|")
}

func TestTexts(t *testing.T) {
	type evs = []session.Event
	delta := func(s string) session.Event { return session.TextDelta{Message: "m", Text: s} }
	for _, c := range []struct {
		name string
		evs  evs
		want string
	}{
		{"whole", evs{session.Text{Message: "m", Text: "abc"}}, "abc"},
		{"all pieces", evs{delta("a"), delta("bc"), session.Text{Message: "m", Text: "abc"}}, "a|bc"},
		{"lost pieces", evs{delta("a"), session.Text{Message: "m", Text: "abc"}}, "a|bc"},
		{"partial", evs{delta("a"), session.Text{Message: "m", Text: "ab", Partial: true}, delta("c"), session.Text{Message: "m", Text: "abc"}}, "a|b|c"},
		{"old partial", evs{delta("ab"), session.Text{Message: "m", Text: "a", Partial: true}, delta("c"), session.Text{Message: "m", Text: "abc"}}, "ab|c"},
		{"empty", evs{delta(""), session.Text{Message: "m"}}, ""},
		{"no message id", evs{session.Text{Text: "x"}}, "x"},
		{"same id again", evs{session.Text{Message: "m", Text: "abc"}, session.Text{Message: "m", Text: "abc"}}, "abc|abc"},
		{"thought beside text", evs{delta("a"), session.ReasoningDelta{Message: "m", Text: "t"}, session.Reasoning{Message: "m", Text: "tu"}, session.Text{Message: "m", Text: "ab"}}, "a|(t)|(u)|b"},
	} {
		if got := feed(newTranslator(), time.Now(), c.evs...); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRunningOutput(t *testing.T) {
	tr, at := newTranslator(), time.Now()
	feed(tr, at, session.CallAnnounced{Call: approvals.Call{ID: "c"}})
	out := func(d time.Duration, s string) string {
		return feed(tr, at.Add(d), session.CallOutput{CallID: "c", Text: s})
	}
	if got := out(0, "one"); !strings.Contains(got, "one") {
		t.Errorf("first output: %s", got)
	}
	if got := out(time.Millisecond, "two"); got != "" {
		t.Errorf("too soon: %s", got)
	}
	if got := out(time.Second, strings.Repeat("ä", outputTail)); len(got) > outputTail+300 || !strings.Contains(got, "ä") {
		t.Errorf("%d bytes of output", len(got))
	}
	if got := feed(tr, at, session.CallOutput{CallID: "unknown", Text: "x"}); got != "" {
		t.Errorf("output of an unknown call: %s", got)
	}
}

func TestAnnounce(t *testing.T) {
	tr := newTranslator()
	got := feed(tr, time.Now(), session.CallAnnounced{
		Call: approvals.Call{ID: "c", Tool: "odd", Arguments: json.RawMessage(`{"a":`)}, Kind: "invented",
		Locations: []session.Location{{Path: "/a"}, {Path: "/b", Line: 2}},
	})
	want := `{"sessionUpdate":"tool_call","kind":"other","locations":[{"path":"/a"},{"line":2,"path":"/b"}],"rawInput":"{\"a\":","status":"pending","title":"odd","toolCallId":"c"}`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestMarkdown(t *testing.T) {
	for in, want := range map[string]string{
		"ls":          "```sh\nls\n```",
		"a\n":         "```sh\na\n```",
		"```\n# free": "````sh\n```\n# free\n````",
		"`````x`````": "``````sh\n`````x`````\n``````",
	} {
		if got := fence(in, "sh"); got != want {
			t.Errorf("fence(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"a":            "`a`",
		"a`b":          "``a`b``",
		"`a`":          "`` `a` ``",
		"a\nb\tc":      "`a\\nb\\tc`",
		"x\u202ey\x1b": "`x\\u{202e}y\\u{001b}`",
		"":             "`  `",
	} {
		if got := span(in); got != want {
			t.Errorf("span(%q) = %q, want %q", in, got, want)
		}
	}
	if got := clip("äöü", 2); got != "ä…" {
		t.Errorf("clip: %q", got)
	}
	for n := range 8 {
		if got := tail("äöü€", n); !utf8.ValidString(got) || len(got) > n {
			t.Errorf("tail %d: %q", n, got)
		}
	}
}

func TestOptions(t *testing.T) {
	long := &approvals.Offer{Summary: strings.Repeat("x", 500) + "\nfree"}
	r := approvals.Request{AllowSession: long}
	opts := options(r)
	var ids []string
	for _, o := range opts {
		ids = append(ids, string(o.OptionID))
		if len([]rune(o.Name)) > nameLength || strings.ContainsRune(o.Name, '\n') {
			t.Errorf("name %q", o.Name)
		}
	}
	if d := cmp.Diff([]string{"allow-once", "allow-session", "reject-once"}, ids); d != "" {
		t.Error(d)
	}
	selected := func(id wire.PermissionOptionID) wire.RequestPermissionOutcome {
		return wire.RequestPermissionOutcome{Selected: &wire.SelectedPermissionOutcome{OptionID: id}}
	}
	for o, want := range map[wire.PermissionOptionID]approvals.Choice{
		"allow-once": approvals.AllowOnce, "allow-session": approvals.AllowSession, "reject-once": approvals.RejectOnce,
		"allow-workspace": approvals.RejectOnce, "reject-session": approvals.RejectOnce, "": approvals.RejectOnce, "Allow-Once": approvals.RejectOnce,
		"unanswered": approvals.RejectOnce,
	} {
		if got := choiceOf(selected(o), opts); got != want {
			t.Errorf("%q became %v, want %v", o, got, want)
		}
	}
	if got := choiceOf(wire.RequestPermissionOutcome{}, opts); got != approvals.RejectOnce {
		t.Errorf("no outcome became %v", got)
	}
}

func TestExplanation(t *testing.T) {
	got := explanation(approvals.Request{
		Why: "A rule asks.", Unrated: "no model", Reason: "`x`\n# y", Outcome: approvals.Destructive,
		Rule:   &approvals.RuleMatch{List: "escalate", Entry: approvals.Entry{Type: "shell", Matcher: "exact", Pattern: "rm x"}, Source: "config.jsonc:3"},
		Rounds: []approvals.Round{{Command: "rm a", Outcome: approvals.Destructive, Reason: "gone", Justification: "needed"}},
	})
	for _, want := range []string{"A rule asks.", "could not be assessed: `no model`", "`` `x`\\n# y ``", "escalate list", "config.jsonc:3", "Attempt 1: `rm a` was rated destructive: `gone`", "`needed`"} {
		if !strings.Contains(got, want) {
			t.Errorf("explanation lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "- Rated") || strings.Contains(got, "\n# y") {
		t.Errorf("explanation:\n%s", got)
	}
	c := questionContent(approvals.Request{Tool: "write_file", Arguments: json.RawMessage(`{"n":12345678901234567890}`)})
	if text := c[0].Content.Content.Text.Text; !strings.Contains(text, "12345678901234567890") {
		t.Errorf("arguments were changed: %s", text)
	}
}
