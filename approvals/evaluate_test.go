package approvals

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func entry(typ, matcher, pattern string) Entry {
	return Entry{Type: typ, Matcher: matcher, Pattern: pattern}
}

// decided evaluates as a session without a model to rate would, or with the
// rating given.
func decided(r *Reading, p Posture, rating *Rating) Verdict {
	v := Evaluate(r, p, nil)
	if v.Action == Rate && rating != nil {
		v = Evaluate(r, p, rating)
	}
	return v
}

func rated(o Outcome) *Rating { return &Rating{Outcome: o, Reason: "because"} }

// stages prints the stages that ran: name for pass, name=action for others.
func stages(v Verdict) string {
	var b strings.Builder
	for _, s := range v.Stages {
		b.WriteString(" " + string(s.Stage))
		if s.Result != passed {
			b.WriteString("=" + s.Result)
		}
	}
	return strings.TrimSpace(b.String())
}

const (
	upToFloor    = "unreadable deny-list hardline-floor "
	upToEscalate = upToFloor + "escalate-entry "
	upToHiding   = upToEscalate + "control-file hiding-text "
	upToAllow    = upToHiding + "not-gated allow-list"
	toolToGate   = "deny-list hardline-floor escalate-entry control-file "
)

func TestEvaluateOrder(t *testing.T) {
	mcp := toolCall("mcp__j__get", map[string]any{"u": "https://a.example/x"})
	mcp.Server, mcp.Name = "j", "get"
	lists := corpusLists{
		Deny:     []Entry{entry(typeShell, matchGlob, "git push*"), entry(typeTool, matchExact, "delete_file"), entry(typeWrite, matchGlob, "**/.env")},
		Escalate: []Entry{entry(typeShell, matchExact, "npm test"), entry(typeConnect, matchExact, "a.example")},
		Allow: []Entry{
			entry(typeShell, matchExact, "npm run lint"), entry(typeShell, matchGlob, "make *"),
			entry(typeTool, matchExact, "move_file"),
		},
	}
	for _, tc := range []struct {
		name   string
		rung   Rung
		call   Call
		rating *Rating
		action Action
		stages string
	}{
		{"syntax error", Bypass, shellCall("if"), nil, Reject, "unreadable=reject"},
		{"nul", Manual, shellCall("ls\x00"), nil, Reject, "unreadable=reject"},
		{"empty", Manual, shellCall(" "), nil, Reject, "unreadable=reject"},
		{"deny at bypass", Bypass, shellCall("cd x && git push"), nil, Reject, "unreadable deny-list=reject"},
		{"deny for tools at bypass", Bypass, toolCall("delete_file", map[string]any{"path": "a"}), nil, Reject, "deny-list=reject"},
		{"deny a path for tools", Assisted, toolCall("write_file", map[string]any{"path": "x/.env"}), nil, Reject, "deny-list=reject"},
		{"deny a path for shells", Assisted, shellCall("echo a > x/.env"), nil, Reject, "unreadable deny-list=reject"},
		{"floor at bypass", Bypass, shellCall("rm -rf /"), nil, Reject, "unreadable deny-list hardline-floor=reject"},
		{"self for tools", Bypass, toolCall("write_file", map[string]any{"path": "/srv/gth/store"}), nil, Reject, "deny-list hardline-floor=reject"},
		{"bypass", Bypass, shellCall("npm test"), nil, Approve, upToFloor + "bypass=approve"},
		{"bypass for tools", Bypass, mcp, nil, Approve, "deny-list hardline-floor bypass=approve"},
		{"hiding at bypass", Bypass, shellCall("echo a\rb"), nil, Reject, upToFloor + "bypass hiding-text=reject"},
		{"escalate", Auto, shellCall("npm test"), nil, Ask, upToFloor + "escalate-entry=ask"},
		{"escalate a host for tools", Manual, mcp, nil, Ask, "deny-list hardline-floor escalate-entry=ask"},
		{"control file by tool", Auto, toolCall("write_file", map[string]any{"path": ".git/hooks/x"}), nil, Ask, "deny-list hardline-floor escalate-entry control-file=ask"},
		{"control file by shell", Auto, shellCall("make x > .vscode/tasks.json"), nil, Ask, upToEscalate + "control-file=ask"},
		{"hiding", Assisted, shellCall("echo a\rb"), rated(Safe), Ask, upToEscalate + "control-file hiding-text=ask"},
		{"not gated", Manual, toolCall("read_file", map[string]any{"path": "a"}), nil, Approve, toolToGate + "not-gated=approve"},
		{"write at write", Write, toolCall("write_file", map[string]any{"path": "a"}), nil, Approve, toolToGate + "not-gated=approve"},
		{"write at manual", Manual, toolCall("write_file", map[string]any{"path": "a"}), nil, Ask, toolToGate + "not-gated allow-list unrated-rung=ask"},
		{"allow", Manual, shellCall("npm run lint"), nil, Approve, upToHiding + "not-gated allow-list=approve"},
		{"allow for tools", Manual, toolCall("move_file", map[string]any{"source": "a", "destination": "b"}), nil, Approve, toolToGate + "not-gated allow-list=approve"},
		{"allow that rates, unrated rung", Manual, shellCall("make x"), nil, Approve, upToHiding + "not-gated allow-list=approve"},
		{"tripwire wants a rating", Auto, shellCall("make x"), nil, Rate, upToAllow + " allow-tripwire=rate"},
		{"tripwire safe", Assisted, shellCall("make x"), rated(Safe), Approve, upToAllow + " allow-tripwire=approve"},
		{"tripwire destructive", Assisted, shellCall("make x"), rated(Destructive), Approve, upToAllow + " allow-tripwire=approve"},
		{"tripwire catastrophic", Assisted, shellCall("make x"), rated(Catastrophic), Ask, upToAllow + " allow-tripwire=ask"},
		{"tripwire attack", Assisted, shellCall("make x"), rated(Attack), Halt, upToAllow + " allow-tripwire=halt"},
		{"tripwire unrated", Assisted, shellCall("make x"), &Rating{Failure: "timeout"}, Approve, upToAllow + " allow-tripwire=approve"},
		{"tripwire too large", Assisted, shellCall("make " + strings.Repeat("x", 33<<10)), rated(Safe), Ask, upToAllow + " allow-tripwire=ask"},
		{"wants a rating", Assisted, shellCall("ls -la"), nil, Rate, upToAllow + " rater=rate"},
		{"safe", Assisted, shellCall("ls -la"), rated(Safe), Approve, upToAllow + " rater=approve"},
		{"destructive", Assisted, shellCall("ls -la"), rated(Destructive), Ask, upToAllow + " rater=ask"},
		{"destructive at auto", Auto, shellCall("ls -la"), rated(Destructive), Ask, upToAllow + " rater=ask"},
		{"catastrophic", Auto, shellCall("ls -la"), rated(Catastrophic), Ask, upToAllow + " rater=ask"},
		{"attack", Auto, shellCall("ls -la"), rated(Attack), Halt, upToAllow + " rater=halt"},
		{"no verdict", Auto, shellCall("ls -la"), &Rating{Failure: "timeout", Detail: "30 s"}, Ask, upToAllow + " rater=ask"},
		{"a failure beats an outcome", Auto, shellCall("ls -la"), &Rating{Failure: "threw", Outcome: Safe}, Ask, upToAllow + " rater=ask"},
		{"zero rating", Auto, shellCall("ls -la"), &Rating{}, Ask, upToAllow + " rater=ask"},
		{"unknown outcome", Auto, shellCall("ls -la"), &Rating{Outcome: 99}, Ask, upToAllow + " rater=ask"},
		{"too large", Auto, shellCall("ls " + strings.Repeat("x", 33<<10)), rated(Safe), Ask, upToAllow + " rater=ask"},
		{"open world", Assisted, shellCall("curl https://b.example"), rated(Safe), Ask, upToAllow + " rater=ask"},
		{"open world, composed", Auto, shellCall("curl https://b.example | jq ."), rated(Safe), Ask, upToAllow + " rater=ask"},
		{"env leak", Assisted, shellCall("node x.js $API_KEY"), rated(Safe), Ask, upToAllow + " rater=ask"},
		{"open tool", Assisted, toolCall("gth_web_fetch", map[string]any{"url": "https://b.example"}), rated(Safe), Ask, toolToGate + "not-gated allow-list rater=ask"},
		{"unrated", Write, shellCall("ls -la"), nil, Ask, upToAllow + " unrated-rung=ask"},
		{"no command", Manual, toolCall(ShellTool, map[string]any{"cmd": "ls"}), nil, Ask, toolToGate + "not-gated allow-list unrated-rung=ask"},
	} {
		place := testPlace
		place.Self.Protected = []string{"/srv/gth"}
		r := Read(tc.call, place)
		v := decided(r, Posture{Rung: tc.rung, Policy: lists.policy(t)}, tc.rating)
		if v.Action != tc.action || stages(v) != tc.stages {
			t.Errorf("%s: %s through %q, want %s through %q", tc.name, v.Action, stages(v), tc.action, tc.stages)
		}
		checkVerdict(t, tc.name, r, v)
	}
}

// checkVerdict checks what holds for every verdict.
func checkVerdict(t *testing.T, name string, r *Reading, v Verdict) {
	t.Helper()
	if last := v.Stages[len(v.Stages)-1]; last.Stage != v.Stage || last.Result != v.Action.String() {
		t.Errorf("%s: the last stage is %+v, the verdict %s at %s", name, last, v.Action, v.Stage)
	}
	if (v.Action == Reject) != (v.Message != "") {
		t.Errorf("%s: message %q", name, v.Message)
	}
	if (v.Action == Rate) != (v.Rate != nil) {
		t.Errorf("%s: rating input %+v", name, v.Rate)
	}
	q := v.Request
	if (v.Action == Ask || v.Action == Halt) != (q != nil) {
		t.Errorf("%s: request %+v", name, q)
	}
	if q == nil {
		return
	}
	if q.Why == "" || q.Digest != r.Digest() || q.Stage != v.Stage || !cmp.Equal(q.Subject, r.Subject()) || q.CallID != r.Call().ID {
		t.Errorf("%s: incomplete request %+v", name, q)
	}
	if q.Typed != (v.Action == Halt) {
		t.Errorf("%s: typed %t", name, q.Typed)
	}
	if (q.Unrated != "") && (q.Outcome != Unrated || q.Reason != "") {
		t.Errorf("%s: an unrated call claims a rating: %+v", name, q)
	}
}

func TestZeroValuesAsk(t *testing.T) {
	if v := Evaluate(readCommand("ls"), Posture{}, nil); v.Action != Ask {
		t.Errorf("the zero posture: %s", v.Action)
	}
	if v := Evaluate(Read(Call{}, Place{}), Posture{}, nil); v.Action != Ask {
		t.Errorf("the zero call: %s", v.Action)
	}
	var v Verdict
	if v.Action != Ask || Settle(&Request{}, Answer{}).Action != Reject {
		t.Error("a zero value approves")
	}
	for _, r := range Rungs() {
		p := Posture{Rung: r + 100}
		if v := Evaluate(readCommand("ls"), p, nil); v.Action != Ask {
			t.Errorf("rung %d: %s", p.Rung, v.Action)
		}
	}
	if v := Evaluate(Read(toolCall("write_file", map[string]any{"path": "a"}), testPlace), Posture{Rung: 77}, nil); v.Action != Ask {
		t.Errorf("a write at an unknown rung: %s", v.Action)
	}
}

func TestOffers(t *testing.T) {
	mcp := func(server string, args any) Call {
		c := toolCall("mcp__w__f", args)
		if c.Server = server; server != "" {
			c.Name = "f"
		}
		return c
	}
	for _, tc := range []struct {
		name        string
		call        Call
		rung        Rung
		rating      *Rating
		allow, deny string
	}{
		{"plain", shellCall("npm  test"), Manual, nil, "npm test", "npm test"},
		{"quotes", shellCall("echo 'a  b'"), Manual, nil, "echo 'a  b'", "echo 'a b'"},
		{"composed", shellCall("a && b"), Manual, nil, "", "a && b"},
		{"catastrophic", shellCall("tf"), Assisted, rated(Catastrophic), "", "tf"},
		{"raised", shellCall("curl https://a.example"), Assisted, rated(Safe), "curl https://a.example", "curl https://a.example"},
		{"attack", shellCall("tf"), Assisted, rated(Attack), "", ""},
		{"control file", shellCall("touch AGENTS.md"), Manual, nil, "", "touch AGENTS.md"},
		{"dynamic", shellCall("echo $X"), Manual, nil, "", "echo $X"},
		{"tool", toolCall("write_file", map[string]any{"path": "a"}), Manual, nil, "tool write_file", "tool write_file"},
		{"server", mcp("w", map[string]any{"u": "https://a.example"}), Manual, nil, "mcpTool w/f (host a.example)", "mcpTool w/f (host a.example)"},
		{"hosts", mcp("w", map[string]any{"u": "https://a.example", "v": "https://b.example"}), Manual, nil, "", "mcpTool w/f"},
		{"no server", mcp("", map[string]any{}), Manual, nil, "", ""},
		{"no command", toolCall(ShellTool, map[string]any{}), Manual, nil, "", "tool run_shell_command"},
	} {
		r := Read(tc.call, testPlace)
		v := decided(r, Posture{Rung: tc.rung}, tc.rating)
		if v.Request == nil {
			t.Errorf("%s: %s at %s", tc.name, v.Action, v.Stage)
			continue
		}
		got := [3]string{summary(v.Request.AllowSession), summary(v.Request.AllowWorkspace), summary(v.Request.RejectSession)}
		if want := [3]string{tc.allow, tc.allow, tc.deny}; got != want {
			t.Errorf("%s: offers %q, want %q", tc.name, got, want)
		}
	}
	r := readCommand("npm test")
	if got := r.GrantPreview(); got != `{ "type": "shell", "matcher": "exact", "pattern": "npm test" }` || got != r.DenyPreview() {
		t.Errorf("previews %s and %s", got, r.DenyPreview())
	}
	if got := readCommand("a | b").GrantPreview(); got != "" {
		t.Errorf("a pipeline may be granted as %s", got)
	}
	e := &evaluation{c: r, p: Posture{Rung: Bypass}}
	if q := newRequest(e, StageAsk, question{}); q.AllowSession != nil || q.RejectSession == nil {
		t.Error("a grant may be born at bypass")
	}
}

func summary(o *Offer) string {
	if o == nil {
		return ""
	}
	return o.Summary
}

func TestReadingAccessors(t *testing.T) {
	r := readCommand("ls -la")
	if r.Call().Tool != ShellTool || r.Subject().Command != "ls -la" || len(r.Effects()) != 1 || r.Script() == nil || len(r.Digest()) != 64 {
		t.Errorf("%+v", r)
	}
	if readCommand("if").Script() != nil || Read(toolCall("read_file", map[string]any{}), testPlace).Script() != nil {
		t.Error("something that was not parsed has a script")
	}
	digests := map[string]string{}
	for i, c := range []Call{
		shellCall("ls"), shellCall("ls "), {Tool: "a", Server: "b"}, {Tool: "ab"}, {Tool: "a", Name: "b"},
	} {
		d := Read(c, testPlace).Digest()
		if was, ok := digests[d]; ok {
			t.Errorf("call %d shares the digest of %s", i, was)
		}
		digests[d] = fmt.Sprint(i)
	}
	elsewhere := testPlace
	elsewhere.Cwd = "/elsewhere"
	if Read(shellCall("ls"), elsewhere).Digest() == Read(shellCall("ls"), testPlace).Digest() {
		t.Error("the digest does not cover the directory")
	}
}

func TestAnalysis(t *testing.T) {
	got := readCommand("sudo tee /etc/x < in && curl https://a.example $X").Analysis()
	want := Analysis{
		Parses: true, Unresolved: []string{"param"}, Programs: []string{"tee", "curl"}, Wrappers: []string{"sudo"},
		Writes: []string{"/etc/x"}, Reads: []string{"in"}, Hosts: []string{"a.example"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	none := Analysis{Unresolved: []string{}, Programs: []string{}, Wrappers: []string{}, Writes: []string{}, Reads: []string{}, Hosts: []string{}}
	if diff := cmp.Diff(none, readCommand("if").Analysis()); diff != "" {
		t.Error(diff)
	}
	tool := Read(toolCall("move_file", map[string]any{"source": "a", "destination": "b", "note": "https://a.example"}), testPlace).Analysis()
	none.Parses, none.Resolves = true, true
	none.Reads, none.Writes, none.Hosts = []string{"a"}, []string{"a", "b"}, []string{"a.example"}
	if diff := cmp.Diff(none, tool); diff != "" {
		t.Error(diff)
	}
}

func TestToolEffects(t *testing.T) {
	paths := func(name string, args any) string {
		return fmt.Sprint(lexical(Read(toolCall(name, args), testPlace).targets))
	}
	for _, tc := range []struct {
		name string
		args map[string]any
		want string
	}{
		{"read_multiple_files", map[string]any{"paths": []any{"a", 7, "b"}}, "[/work/project/a /work/project/b]"},
		{"gth_grep", map[string]any{"pattern": "x"}, "[/work/project]"},
		{"read_file", map[string]any{}, "[]"},
		{"read_file", map[string]any{"path": ""}, "[]"},
		{"gth_checklist", map[string]any{"items": "a/b"}, "[]"},
		{"custom", map[string]any{"file": "a", "text": "two\nlines"}, "[/work/project/a /work/project/a]"},
	} {
		if got := paths(tc.name, tc.args); got != tc.want {
			t.Errorf("%s %v: %s, want %s", tc.name, tc.args, got, tc.want)
		}
	}
	v := Evaluate(Read(toolCall("custom", map[string]any{"file": ".claude/settings.json"}), testPlace), Posture{Rung: Assisted}, nil)
	if v.Stage != StageControlFile {
		t.Errorf("a foreign tool that may write a control file: %s", v.Stage)
	}
	var many []any
	for i := range 300 {
		many = append(many, fmt.Sprintf("https://h%d.example", i))
	}
	if n := len(hostsOf(any(many))); n != maxHostValues-1 {
		t.Errorf("%d hosts were read", n)
	}
	if hostsOf(any(strings.Repeat("https://a.example/", 400))) != nil {
		t.Error("a string beyond the bound was read")
	}
}
