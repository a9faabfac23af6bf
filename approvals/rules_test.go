package approvals

import (
	"strings"
	"testing"
)

func compiled(t testing.TB, list string, entries ...Entry) *Policy {
	t.Helper()
	var in []SourcedEntry
	for _, e := range entries {
		in = append(in, SourcedEntry{Entry: e, Source: "test:1"})
	}
	rules := Rules{Allow: in}
	switch list {
	case listDeny:
		rules = Rules{Deny: in}
	case listEscalate:
		rules = Rules{Escalate: in}
	}
	p, err := Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDenySpellings(t *testing.T) {
	for _, tc := range []struct {
		typ, matcher, pattern, command string
		want                           answer
	}{
		{typeShell, matchExact, "npm publish", "NPM  publish", answerYes},
		{typeShell, matchExact, "npm publish", "n\\pm pub''lish", answerYes},
		{typeShell, matchExact, "npm publish", "sudo npm publish", answerYes},
		{typeShell, matchExact, "sudo npm publish", "ls && sudo -u x npm publish", answerYes},
		{typeShell, matchExact, "npm publish", "/usr/bin/npm publish", answerYes},
		{typeShell, matchExact, "npm publish", "sh -c 'npm publish'", answerYes},
		{typeShell, matchExact, "npm publish", "echo 'npm publish'", answerNo},
		{typeShell, matchGlob, "npm publish *", "npm publish", answerNo},
		{typeShell, matchGlob, "rm -rf *", "rm -f -r x", answerYes},
		{typeShell, matchGlob, "rm -rf *", "rm -rf", answerNo},
		{typeShell, matchGlob, "*a*b", "x a y b", answerYes},
		{typeShell, matchRegexp, "^NPM", "npm publish", answerNo},
		{typeShell, matchExact, "rm -rf x", "rm -r -f x", answerYes},
		{typeShell, matchExact, "rm -rf x", "rm -r -f x y", answerNo},
		{typeExec, matchPrefix, "git push", "cd x; /usr/bin/git push origin", answerYes},
		{typeExec, matchPrefix, "git push", "git -C x push", answerYes},
		{typeExec, matchPrefix, "git push --force", "git push origin +main", answerYes},
		{typeExec, matchPrefix, "git push", "git pushx", answerNo},
		{typeExec, matchPrefix, "git push", "git $X", answerNo},
		{typeExec, matchExact, "git push", "git push origin", answerNo},
		{typeExec, matchExact, "git push", "git push", answerYes},
		{typeExec, matchPrefix, "sudo", "sudo ls", answerYes},
		{typeExec, matchPrefix, "sudo rm", "sudo rm x", answerYes},
		{typeExec, matchPrefix, "sudo rm", "sudo ls rm", answerNo},
		{typeExec, matchPrefix, "rm -rf", "find . | xargs rm", answerMaybe},
		{typeExec, matchPrefix, "rm", "find . | xargs rm", answerYes},
		{typeExec, matchPrefix, "rm -rf", "find . | xargs ls", answerNo},
		{typeRead, matchGlob, "**/.env", "cat x/.env", answerYes},
		{typeRead, matchGlob, "**/.env", "cat < .env", answerYes},
		{typeRead, matchGlob, "**/.env", "mystery .env", answerYes},
		{typeWrite, matchGlob, "**/.env", "cat .env", answerNo},
		{typeConnect, matchExact, "evil.example", "curl https://EVIL.example./x", answerYes},
		{typeConnect, matchExact, "evil.example", "curl https://good.example/x", answerNo},
		{typeTool, matchGlob, "*", "ls", answerNo},
	} {
		p := Posture{Policy: compiled(t, listDeny, entry(tc.typ, tc.matcher, tc.pattern))}
		if _, got := p.denied(readCommand(tc.command)); got != tc.want {
			t.Errorf("deny %s %s %q on %q: %d, want %d", tc.typ, tc.matcher, tc.pattern, tc.command, got, tc.want)
		}
	}
}

func TestUndecidedRules(t *testing.T) {
	r := readCommand("find . | xargs rm")
	rule := entry(typeExec, matchPrefix, "rm -rf")
	for _, tc := range []struct {
		list string
		rung Rung
		want Action
	}{
		{listDeny, Bypass, Reject},
		{listDeny, Assisted, Ask},
		{listEscalate, Bypass, Approve},
		{listEscalate, Assisted, Ask},
	} {
		v := Evaluate(r, Posture{Rung: tc.rung, Policy: compiled(t, tc.list, rule)}, nil)
		if v.Action != tc.want {
			t.Errorf("%s at %s: %s at %s", tc.list, tc.rung, v.Action, v.Stage)
		}
		if v.Request != nil && (v.Request.AllowSession != nil || v.Rule == nil || v.Rule.List != tc.list) {
			t.Errorf("%s at %s: %+v", tc.list, tc.rung, v.Request)
		}
		checkVerdict(t, tc.list, r, v)
	}
}

func TestAllowShell(t *testing.T) {
	for _, tc := range []struct {
		matcher, pattern, command string
		want                      bool
	}{
		{matchExact, "npm test", "npm  'test'", true},
		{matchExact, "npm test", "NPM test", false},
		{matchExact, "rm a\\ b", "rm a b", false},
		{matchExact, "rm a b", "rm a\\ b", false},
		{matchExact, "echo \\$HOME", "echo $HOME", false},
		{matchExact, "tool x", "tool '' x", false},
		{matchExact, "python3 -c 'x()'", "python3 -c 'x()'", true},
		{matchExact, "a | b", "a | b", false},
		{matchGlob, "git *", "git status", true},
		{matchGlob, "git *", "git status && rm x", false},
		{matchGlob, "git *", "git -c core.pager=id log", false},
		{matchGlob, "python3 *", "python3 -c 'x()'", false},
		{matchGlob, "cat *", "cat ~/.ssh/id_rsa", false},
		{matchGlob, "*", "echo $X", false},
		{matchRegexp, "^git (status|log)$", "git log", true},
		{matchRegexp, "^git (status|log)$", "git log\nrm x", false},
		{matchGlob, "*", "echo a\rb", false},
		{matchGlob, "*", "test -v 'a[$(id)]'", false},
	} {
		p := Posture{Policy: compiled(t, listAllow, entry(typeShell, tc.matcher, tc.pattern))}
		if r, _ := p.allowed(readCommand(tc.command)); (r != nil) != tc.want {
			t.Errorf("allow %s %q on %q: %t", tc.matcher, tc.pattern, tc.command, !tc.want)
		}
	}
}

// TestAllowCoverage reads entries as "type pattern": prefix for exec, exact
// for connect, glob for paths.
func TestAllowCoverage(t *testing.T) {
	matcher := map[string]string{typeExec: matchPrefix, typeConnect: matchExact, typeRead: matchGlob, typeWrite: matchGlob}
	for _, tc := range []struct {
		call    Call
		entries string
		want    bool
	}{
		{shellCall("git status"), "exec git", true},
		{shellCall("git status"), "exec git status", true},
		{shellCall("git status"), "exec git stat", false},
		{shellCall("cd x && git status"), "exec git", false},
		{shellCall("cd x && git status"), "exec cd;exec git", true},
		{shellCall("echo $(git status)"), "exec echo", false},
		{shellCall("echo $(git status) *.go"), "exec echo;exec git", true},
		{shellCall("./git status"), "exec git", false},
		{shellCall("./git status"), "exec ./git", false},
		{shellCall("$X status"), "exec git", false},
		{shellCall("git $X"), "exec git status", false},
		{shellCall("echo a > b"), "exec echo", false},
		{shellCall("echo a > b"), "exec echo;write b", true},
		{shellCall("echo a > ../b"), "exec echo;write **", false},
		{shellCall("echo a > $b"), "exec echo;write **", false},
		{shellCall("echo a > /dev/null"), "exec echo", true},
		{shellCall("cd $d && echo a > b"), "exec echo;exec cd;write **", false},
		{shellCall("curl https://a.example/"), "exec curl", false},
		{shellCall("curl https://a.example/"), "exec curl;connect a.example", true},
		{shellCall("curl https://a.example:8443/"), "exec curl;connect a.example", false},
		{shellCall("cat .env"), "exec cat", false},
		{shellCall("cat .env"), "exec cat;read .env", true},
		{shellCall("ls -la .env"), "exec ls", true},
		{shellCall("timeout 5 git status"), "exec git", true},
		{shellCall("sudo git status"), "exec git", false},
		{shellCall("sudo git status"), "exec sudo", false},
		{shellCall("sudo git status"), "exec sudo git", true},
		{shellCall("sudo -u root git status"), "exec sudo git", false},
		{shellCall("sudo -u root git status"), "exec sudo -u root git status", true},
		{shellCall("ls && sudo git status"), "exec ls;exec sudo git", false},
		{shellCall("git -c core.pager=id log"), "exec git", false},
		{shellCall("git push origin +main"), "exec git push", false},
		{shellCall("X=1"), "exec git", false},
		{toolCall("write_file", map[string]any{"path": "src/a"}), "write src/**", true},
		{toolCall("write_file", map[string]any{"path": "a"}), "write src/**", false},
		{toolCall("edit_file", map[string]any{"path": "/etc/x"}), "write /etc/**", false},
		{toolCall("edit_file", map[string]any{"path": "/etc/x"}), "write /etc/**;read /etc/**", true},
		{toolCall("edit_file", map[string]any{"path": ".env"}), "write **", false},
		{toolCall("gth_web_fetch", map[string]any{"url": "https://a.example"}), "connect a.example", true},
		{toolCall("gth_web_fetch", map[string]any{"url": "https://b.example"}), "connect a.example", false},
		{toolCall("gth_web_fetch", map[string]any{"url": "nonsense"}), "connect a.example", false},
		{toolCall("custom", map[string]any{"url": "https://a.example"}), "connect a.example;read **;write **", false},
	} {
		var entries []Entry
		for _, e := range strings.Split(tc.entries, ";") {
			typ, pattern, _ := strings.Cut(e, " ")
			entries = append(entries, entry(typ, matcher[typ], pattern))
		}
		p := Posture{Policy: compiled(t, listAllow, entries...)}
		if r, _ := p.allowed(Read(tc.call, testPlace)); (r != nil) != tc.want {
			t.Errorf("allow %q on %s: %t", tc.entries, tc.call.Arguments, !tc.want)
		}
	}
}

func TestAnyRatingEntryRates(t *testing.T) {
	no := false
	cd, git := entry(typeExec, matchExact, "cd x"), entry(typeExec, matchExact, "git status")
	r := readCommand("cd x && git status")
	cd.Rate = &no
	if _, rates := (Posture{Policy: compiled(t, listAllow, cd, git)}).allowed(r); !rates {
		t.Error("one entry that rates is not enough")
	}
	git.Rate = &no
	m, rates := (Posture{Policy: compiled(t, listAllow, cd, git)}).allowed(r)
	if rates || m == nil || m.entry.Pattern != "cd x" {
		t.Errorf("%+v rates: %t", m, rates)
	}
	if m, _ := (Posture{Policy: compiled(t, listAllow, cd)}).allowed(readCommand("cd x y")); m != nil {
		t.Error("an exact entry covers further words")
	}
}

func grantOf(e Entry) Grant { return Grant{Entry: e, Scope: ScopeSession} }

func TestGrants(t *testing.T) {
	host := entry(typeTool, matchExact, "gth_web_fetch")
	host.Host = "A.example"
	every := Entry{Type: typeMCP, Server: "*", Matcher: matchExact, Pattern: "get"}
	g := NewGrants(
		[]Grant{grantOf(entry(typeShell, matchExact, "npm test")), grantOf(entry(typeShell, matchExact, "npm test")), grantOf(host), grantOf(Entry{})},
		[]Grant{grantOf(entry(typeShell, matchGlob, "go *")), grantOf(every), grantOf(entry(typeTool, matchExact, "write_file"))},
		[]Grant{grantOf(entry(typeShell, matchExact, "rm x")), grantOf(entry(typeTool, matchExact, "edit_file"))},
	)
	get := toolCall("mcp__j__get", map[string]any{})
	get.Server, get.Name = "j", "get"
	for _, tc := range []struct {
		call            Call
		allowed, denied string // sources
	}{
		{shellCall("npm 'test'"), sourceSession, ""},
		{shellCall("npm test | cat"), "", ""},
		{shellCall("npm"), "", ""},
		{shellCall("go vet"), sourceWorkspace, ""},
		{shellCall("ls; rm x"), "", sourceSession},
		{get, sourceWorkspace, ""},
		{toolCall("write_file", map[string]any{"path": "a"}), sourceWorkspace, ""},
		{toolCall("edit_file", map[string]any{"path": "a"}), "", sourceSession},
		{toolCall("move_file", map[string]any{}), "", ""},
		{toolCall("gth_web_fetch", map[string]any{"url": "https://a.example"}), sourceSession, ""},
		{toolCall("gth_web_fetch", map[string]any{"url": "https://b.example"}), "", ""},
	} {
		r, p := Read(tc.call, testPlace), Posture{Grants: g}
		source := func(m *rule) string {
			if m == nil {
				return ""
			}
			return m.source
		}
		m, _ := p.allowed(r)
		d, _ := p.denied(r)
		if source(m) != tc.allowed || source(d) != tc.denied {
			t.Errorf("%s: allowed by %q, denied by %q", tc.call.Arguments, source(m), source(d))
		}
	}
	v := Evaluate(readCommand("rm x"), Posture{Rung: Bypass, Grants: g}, nil)
	if v.Stage != StageDenyList || !strings.Contains(v.Message, "earlier in this session") || v.Rule.Source != sourceSession {
		t.Errorf("a session refusal: %+v", v)
	}
}

func TestMessagesNameWhatDecided(t *testing.T) {
	p := compiled(t, listDeny, entry(typeShell, matchExact, "npm publish"))
	for _, tc := range []struct {
		v    Verdict
		says []string
	}{
		{Evaluate(readCommand("npm publish"), Posture{Policy: p}, nil), []string{`"pattern": "npm publish"`, "approvals.deny"}},
		{Evaluate(readCommand("rm -rf /"), Posture{}, nil), []string{"rm -rf /", "always"}},
		{Evaluate(readCommand("if"), Posture{}, nil), []string{"cannot be read"}},
		{Evaluate(readCommand("echo a\rb"), Posture{Rung: Bypass}, nil), []string{"plainly"}},
	} {
		for _, s := range tc.says {
			if !strings.Contains(tc.v.Message, s) {
				t.Errorf("%q lacks %q", tc.v.Message, s)
			}
		}
	}
}

func TestCredentialPaths(t *testing.T) {
	for p, want := range map[string]bool{
		"/h/.ssh/id_rsa": true, "/h/.ssh/id_work": true, "/h/.ssh/id_rsa.pub": false, "/h/.ssh": true, "/h/.ssh/config": false,
		"/x/id_ed25519": true, "/h/.aws/credentials": true, "/h/.aws/config": false, "/h/.netrc": true, "/h/.gnupg/x": true,
		"/h/.config/gcloud": true, "/h/.config/gcloud/a": true, "/w/.env": true, "/w/.env.local": true, "/w/prod.env": false,
		"/h/.kube/config": true, "/w/env": false, "/w/src/main.go": false,
	} {
		if credentialPath(p) != want {
			t.Errorf("%s: %t", p, !want)
		}
	}
}

func TestNormalForm(t *testing.T) {
	for in, want := range map[string]string{
		"ls -la": "ls -la", "  ls  ": "ls", "a  b": "a b", "\x1b[31mls\x1b[0m": "ls", "\x1b]0;t\x07ls": "ls", "l\x00s": "ls",
		"ｌｓ": "ls", "a\r\n b": "a\nb", "r\\m x": "rm x", "a\\\nb": "a\\\nb", "l''s": "ls", `l""s`: "ls", "a\\": "a\\", "\t": "",
	} {
		if got := normalForm(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if dropBackslashes("plain") != "plain" {
		t.Error("a text without backslashes changed")
	}
}
