package approvals

import (
	"encoding"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type textValue interface {
	encoding.TextMarshaler
	String() string
}

func roundTrip[T textValue, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, names []string, value func(int) T) {
	t.Helper()
	for i, name := range names {
		v := value(i)
		b, err := v.MarshalText()
		if err != nil || string(b) != name || v.String() != name {
			t.Errorf("%d is %q, want %q", i, b, name)
		}
		var back T
		if err := P(&back).UnmarshalText([]byte(name)); err != nil || any(back) != any(v) {
			t.Errorf("%q reads back as %v, %v", name, back, err)
		}
	}
	// What is unknown is the zero value, which asks or refuses.
	v := value(len(names) - 1)
	if err := P(&v).UnmarshalText([]byte("no such word")); err == nil || any(v) != any(value(0)) {
		t.Errorf("an unknown word gives %v, %v", v, err)
	}
	if got := value(200).String(); got != names[0] {
		t.Errorf("an invalid value prints as %q, want %q", got, names[0])
	}
}

func TestNames(t *testing.T) {
	roundTrip(t, actionNames[:], func(i int) Action { return Action(i) })
	roundTrip(t, outcomeNames[:], func(i int) Outcome { return Outcome(i) })
	roundTrip(t, scopeNames[:], func(i int) Scope { return Scope(i) })
	roundTrip(t, choiceNames[:], func(i int) Choice { return Choice(i) })
	roundTrip(t, rungNames[:], func(i int) Rung { return Rung(i) })
}

func TestRungs(t *testing.T) {
	got := map[string][3]bool{}
	for _, r := range Rungs() {
		got[r.String()] = [3]bool{r.Rated(), r.Negotiating(), r.Deterministic()}
	}
	want := map[string][3]bool{
		"manual": {false, false, true}, "write": {false, false, true}, "assisted": {true, false, false},
		"auto": {true, true, false}, "bypass": {false, false, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestGated(t *testing.T) {
	free := map[string]string{ // rungs at which a tool is free, by first letter
		"read_file": "mwxab", "gth_grep": "mwxab", "write_file": "wxab", "delete_directory": "wxab", "gth_checklist": "mwxab",
		"gth_status_update": "mwxab", "show_a2ui_surface": "mwxab", "gth_web_fetch": "b", "run_tests": "b",
		"mcp__a__b": "b", "custom": "b", "": "b", "constructor": "b", ShellTool: "",
	}
	letters := map[Rung]string{Manual: "m", Write: "w", Assisted: "x", Auto: "a", Bypass: "b"}
	for tool, rungs := range free {
		for r, l := range letters {
			if got, want := Gated(tool, r), !strings.Contains(rungs, l); got != want {
				t.Errorf("%s at %s: gated %t", tool, r, got)
			}
		}
	}
	if access(99).granted(Bypass) || accessNone.granted(Bypass) {
		t.Error("an unknown class is granted")
	}
	served := Subject{Kind: SubjectMCP, Server: "evil", Name: "read_file"}
	if !gatedSubject(served, Assisted) || !gatedSubject(served, Manual) {
		t.Error("a server's tool takes the class of ours by its name")
	}
}

func TestHints(t *testing.T) {
	a := Annotations{ReadOnly: true, Idempotent: true}
	for name, want := range map[string]bool{"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false} {
		if a.hint(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

func testRequest() *Request {
	entry := Entry{Type: typeShell, Matcher: matchExact, Pattern: "make x"}
	o := &Offer{Entry: entry, Preview: entry.Preview(), Summary: entry.Summary()}
	return &Request{
		ID: "ask-1", Tool: ShellTool, Rung: Assisted, Outcome: Destructive, Reason: "it builds",
		AllowSession: o, AllowWorkspace: o, RejectSession: o,
	}
}

func TestSettle(t *testing.T) {
	at := time.Unix(7, 0)
	entry := testRequest().AllowSession.Entry
	grant := func(s Scope) *Grant {
		return &Grant{Entry: entry, Scope: s, At: at, By: "acp", Ask: "ask-1", Rung: Assisted}
	}
	bare := func(r *Request) { r.AllowSession, r.AllowWorkspace, r.RejectSession = nil, nil, nil }
	typed := func(r *Request) { r.Typed = true }
	for _, tc := range []struct {
		name   string
		change func(*Request)
		answer Answer
		want   Decision
		says   string
	}{
		{"zero answer", nil, Answer{}, Decision{Action: Reject}, "user refused"},
		{"reject once", nil, Answer{Choice: RejectOnce, Reason: " not now "}, Decision{Action: Reject}, "not now"},
		{"allow once", nil, Answer{Choice: AllowOnce}, Decision{Action: Approve}, ""},
		{"allow session", nil, Answer{Choice: AllowSession}, Decision{Action: Approve, Scope: ScopeSession, Grant: grant(ScopeSession)}, ""},
		{"allow workspace", nil, Answer{Choice: AllowWorkspace}, Decision{Action: Approve, Scope: ScopeWorkspace, Grant: grant(ScopeWorkspace)}, ""},
		{"edited", nil, Answer{Choice: AllowSession, Arguments: json.RawMessage(`{}`)}, Decision{Action: Approve}, ""},
		{"reject session", nil, Answer{Choice: RejectSession}, Decision{Action: Reject, Scope: ScopeSession, Refusal: grant(ScopeSession)}, "destructive: it builds"},
		{"session not offered", bare, Answer{Choice: AllowSession}, Decision{Action: Reject}, "user refused"},
		{"workspace not offered", bare, Answer{Choice: AllowWorkspace}, Decision{Action: Reject}, "user refused"},
		{"refusal not offered", bare, Answer{Choice: RejectSession}, Decision{Action: Reject}, "user refused"},
		{"unanswered", nil, Answer{Choice: Unanswered}, Decision{Action: Reject}, "nobody answered"},
		{"unknown choice", nil, Answer{Choice: 99}, Decision{Action: Reject}, "user refused"},
		{"typed where none is asked for", nil, Answer{Typed: "run anyway"}, Decision{Action: Reject}, "user refused"},
		{"attack, button only", typed, Answer{Choice: AllowOnce}, Decision{Action: Halt}, ""},
		{"attack, typed", typed, Answer{Choice: AllowOnce, Typed: "  RUN anyway\n"}, Decision{Action: Approve}, ""},
		{"attack, two blanks", typed, Answer{Choice: AllowOnce, Typed: "run  anyway"}, Decision{Action: Halt}, ""},
		{"attack, sticky", typed, Answer{Choice: AllowSession, Typed: "run anyway"}, Decision{Action: Halt}, ""},
		{"attack, no", typed, Answer{Typed: "run anyway"}, Decision{Action: Halt}, ""},
		{"attack, unanswered", typed, Answer{Choice: Unanswered}, Decision{Action: Halt}, ""},
	} {
		req := testRequest()
		if tc.change != nil {
			tc.change(req)
		}
		tc.answer.At, tc.answer.By = at, "acp"
		got := Settle(req, tc.answer)
		if !strings.Contains(got.Message, tc.says) || (tc.says == "") != (got.Message == "") {
			t.Errorf("%s: message %q lacks %q", tc.name, got.Message, tc.says)
		}
		got.Message = ""
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine("a\nb\tc\x1b[2K\u202e\u2028d"); got != `a b c\u{1b}[2K\u{202e}\u{2028}d` {
		t.Errorf("%q", got)
	}
	if got := oneLine(strings.Repeat("x", 400)); got != strings.Repeat("x", maxQuoted)+"…" {
		t.Errorf("%d characters", len(got))
	}
}
