package approvals

import (
	"strings"
	"testing"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

func TestPatternsNameTheProgramBehindWrappers(t *testing.T) {
	for _, tc := range []struct {
		matcher, pattern, command string
		want                      bool
	}{
		{matchGlob, "timeout 5 *", "timeout 5 git status", false},
		{matchGlob, "timeout 5 git *", "timeout 5 git status", true},
		{matchGlob, "timeout 5 git*", "timeout 5 git status", true},
		{matchGlob, "timeout '5*", "timeout '5' git status", false},
		{matchRegexp, "^timeout 5 git", "timeout 5 git status", false},
		{matchGlob, "sh -c *", "sh -c 'git status'", false},
		{matchGlob, "env git *", "env git status", true},
		{matchGlob, "find *", "find . -delete", false},
		{matchGlob, "find *", "find . -exec ls {} +", false},
		{matchGlob, "sort *", "sort -o out in", false},
		{matchGlob, "rm *", "rm -f out", true},
		{matchGlob, "git clone *", "git clone https://a.example/r d", true},
		{matchGlob, "git log *", "git log --output=x", false},
		{matchGlob, "*", "X=1", false},
	} {
		p := Posture{Policy: compiled(t, listAllow, entry(typeShell, tc.matcher, tc.pattern))}
		if r, _ := p.allowed(readCommand(tc.command)); (r != nil) != tc.want {
			t.Errorf("allow %s %q on %q: %t", tc.matcher, tc.pattern, tc.command, !tc.want)
		}
	}
	r := &rule{entry: entry(typeShell, matchGlob, "timeout 5 git *")}
	if r.namesProgram(&Effect{Argv: words("git", "$x")}, []string{"timeout", "5", "git", "status"}) {
		t.Error("a word that is not known is named")
	}
	// A device that keeps nothing needs no entry, whoever found the write.
	c := readCommand("ls")
	device := targetsOf([]Effect{{Kind: effect.Write, Via: effect.ViaRedirect, Path: "/dev/null", Static: true}}, testPlace)
	if typ := c.needs(&device[0]); typ != "" {
		t.Errorf("/dev/null needs a %s entry", typ)
	}
}

func TestDenyEdges(t *testing.T) {
	for _, tc := range []struct {
		typ, matcher, pattern, command string
		want                           answer
	}{
		{typeShell, matchExact, `r\m  x`, "rm x", answerYes},
		{typeShell, matchExact, `r\m  x`, "rm y", answerNo},
		{typeExec, matchPrefix, "git reset --hard", "/usr/lib/git-core/git-reset --hard HEAD", answerYes},
		{typeExec, matchPrefix, "git reset --hard", "git reset --soft HEAD", answerNo},
		{typeExec, matchExact, "rm", "ls | xargs rm", answerNo},
		{typeExec, matchPrefix, "a b c d", "a b", answerNo},
	} {
		p := Posture{Policy: compiled(t, listDeny, entry(tc.typ, tc.matcher, tc.pattern))}
		if _, got := p.denied(readCommand(tc.command)); got != tc.want {
			t.Errorf("deny %s %q on %q: %d, want %d", tc.typ, tc.pattern, tc.command, got, tc.want)
		}
	}
	if gitCommand(words("$x")) != nil || gitCommand(nil) != nil || gitCommand(words("git")) != nil {
		t.Error("something else is split as a git command")
	}
}

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"*", "", true},
		{"a*b*c", "a-b-c", true},
		{"a*b*c", "a-c", false},
		{"a*a", "a", false},
		{"*.go", "x.go", true},
		{"b*", "ab", false},
		{"a*c", "abd", false},
	} {
		if got := globText(tc.pattern).match(tc.text); got != tc.want {
			t.Errorf("%q on %q: %t", tc.pattern, tc.text, got)
		}
	}
}

func TestUnreadableAtRunTime(t *testing.T) {
	r := readCommand(`"$@"`)
	for _, argv := range [][]string{
		{"sh", "-c", "echo a\rb"}, {"sh", "-c", "if"},
	} {
		if ok, why := r.CheckCommand("", argv, Posture{Rung: Bypass}); ok || why == "" {
			t.Errorf("%.20q may run", argv)
		}
	}
	seen := readCommand(`ssh "$H" 'uptime'`)
	if ok, why := seen.CheckCommand("", []string{"ssh", "h", "uptime"}, Posture{Rung: Manual}); !ok {
		t.Errorf("what the text already showed is refused: %s", why)
	}
	if ok, _ := (&Reading{}).CheckCommand("", []string{"ssh", "h", "uptime"}, Posture{}); ok {
		t.Error("a reading without text lets something run")
	}
	for _, p := range []string{"a\rb", "a\x00b"} {
		if ok, why := r.CheckRedirect("", p, true, Posture{Rung: Bypass}); ok || why == "" {
			t.Errorf("%q may be written", p)
		}
	}
	if ok, why := r.CheckRedirect("", "it's $HOME", false, Posture{}); !ok {
		t.Errorf("an odd but plain name is refused: %s", why)
	}
}

func TestGuards(t *testing.T) {
	deny := compiled(t, listDeny, entry(typeExec, matchPrefix, "echo secret"), entry(typeTool, matchExact, "x"), Entry{Type: typeMCP, Server: "*", Matcher: matchGlob, Pattern: "*"})
	text := compiled(t, listEscalate, entry(typeShell, matchGlob, "echo *"))
	refusal := NewGrants(nil, nil, []Grant{grantOf(entry(typeShell, matchExact, "echo x"))})
	for _, tc := range []struct {
		name    string
		p       Posture
		program string
		want    bool
	}{
		{"no rules", Posture{}, "echo", false},
		{"named", Posture{Policy: deny}, "/bin/echo", true},
		{"not named", Posture{Policy: deny}, "printf", false},
		{"a rule over texts", Posture{Policy: text}, "printf", true},
		{"a refusal", Posture{Grants: refusal}, "printf", true},
		{"grants without refusals", Posture{Grants: NewGrants(nil, nil, nil)}, "printf", false},
	} {
		if got := tc.p.guards(tc.program); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

func TestNotes(t *testing.T) {
	r := readCommand(strings.Repeat("eval \"$X\"; ", 12))
	notes := r.notes()
	if len(notes) < maxNotes || len(notes) > maxNotes+2 || !strings.Contains(strings.Join(notes, "\n"), "more parts") {
		t.Errorf("%d notes: %q", len(notes), notes)
	}
	if got := r.Analysis().Unresolved; len(got) != 2 {
		t.Errorf("each mechanism is listed once: %q", got)
	}
	if n := readCommand("python3 -c 'x()'").notes(); len(n) != 1 || !strings.Contains(n[0], "does not show") {
		t.Errorf("%q", n)
	}
}

func TestResolvingNames(t *testing.T) {
	if server, tool, ok := ResolveMCP("mcp__a__b__c", []string{"a", "a__b"}); server != "" || tool != "mcp__a__b__c" || !ok {
		t.Errorf("two keys fit: %q %q %t", server, tool, ok)
	}
	if _, port, ok := urlHost("https://a.example:443/x"); port != "" || !ok {
		t.Errorf("the scheme's own port is told: %q", port)
	}
	if _, port, _ := urlHost("https://a.example:8443/x"); port != "8443" {
		t.Errorf("port %q", port)
	}
	if _, _, ok := urlHost("file:///x"); ok {
		t.Error("a URL without a host has one")
	}
	c := Call{Tool: "search", Server: "web"}
	if s := Read(c, testPlace).Subject(); s.Name != "search" || s.Kind != SubjectMCP {
		t.Errorf("%+v", s)
	}
	if host, port := splitPort("[::1]"); host != "::1" || port != "" {
		t.Errorf("%q %q", host, port)
	}
}
