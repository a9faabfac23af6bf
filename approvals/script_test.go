package approvals

import (
	"strings"
	"testing"
)

func TestRunTimeChecks(t *testing.T) {
	place := testPlace
	place.Self = SelfPaths{Binary: "/usr/bin/gth-server", Protected: []string{"/srv/gth"}}
	r := Read(shellCall(`"$@"`), place)
	policy, err := Compile(Rules{
		Deny:     []SourcedEntry{{Entry: entry(typeExec, matchPrefix, "git push")}, {Entry: entry(typeWrite, matchGlob, "/secret/**")}, {Entry: entry(typeExec, matchPrefix, "rm -rf")}},
		Escalate: []SourcedEntry{{Entry: entry(typeExec, matchPrefix, "npm publish")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		argv         string // separated by commas
		gate, bypass bool
	}{
		{"ls,-la", true, true},
		{"echo,$(id); rm -rf /", true, true},
		{"", false, false},
		{"rm,-rf,/", false, false},
		{"git,push", false, false},
		{"/usr/bin/git,push,-f", false, false},
		{"xargs,rm", false, false},
		{"sh,-c,git push", false, false},
		{"sh,-c,if", false, false},
		{"touch,/secret/x", false, false},
		{"touch,/srv/gth/x", false, false},
		{"gth-server,serve", false, false},
		{"npm,publish", false, true},
		{"touch,.git/hooks/x", false, true},
		{"touch,x", true, true},
	} {
		argv := strings.Split(tc.argv, ",")
		for rung, want := range map[Rung]bool{Manual: tc.gate, Bypass: tc.bypass} {
			ok, why := r.CheckCommand("", argv, Posture{Rung: rung, Policy: policy})
			if ok != want || ok != (why == "") {
				t.Errorf("%s at %s: %t, %q", tc.argv, rung, ok, why)
			}
		}
	}
	if ok, _ := r.CheckCommand("", nil, Posture{}); ok {
		t.Error("no command may run")
	}
	for _, tc := range []struct {
		path                string
		write, gate, bypass bool
	}{
		{"out.txt", true, true, true},
		{"/secret/x", true, false, false},
		{"/secret/x", false, true, true},
		{".git/config", true, false, true},
		{".git/config", false, true, true},
		{"/srv/gth/x", true, false, false},
		{"", true, false, false},
	} {
		for rung, want := range map[Rung]bool{Manual: tc.gate, Bypass: tc.bypass} {
			ok, why := r.CheckRedirect("", tc.path, tc.write, Posture{Rung: rung, Policy: policy})
			if ok != want || ok != (why == "") {
				t.Errorf("redirect %s (write %t) at %s: %t, %q", tc.path, tc.write, rung, ok, why)
			}
		}
	}
}

func TestRedirectToDevice(t *testing.T) {
	if ok, why := readCommand(`echo > "$X"`).CheckRedirect("", "/dev/sda", true, Posture{Rung: Bypass}); ok {
		t.Error("a raw device may be overwritten by a redirect that shows only at run time", why)
	}
}

func TestPrint(t *testing.T) {
	names := GuardNames{Function: "g_run", Redirect: "g_to"}
	p := Posture{Policy: compiled(t, listDeny, entry(typeExec, matchPrefix, "mycmd push"))}
	for _, tc := range []struct {
		command string
		p       Posture
		guarded bool
	}{
		{"ls  -la # note", p, false},
		{"$X -rf /", p, true},
		{"mycmd $X", p, true},
		{"echo a > $X", p, true},
	} {
		text, err := readCommand(tc.command).Script().Print(names, tc.p)
		if err != nil {
			t.Errorf("%s: %v", tc.command, err)
			continue
		}
		if got := strings.Contains(text, "g_"); got != tc.guarded {
			t.Errorf("%s prints as %s", tc.command, text)
		}
	}
	var none *Script
	if _, err := none.Print(names, p); err == nil {
		t.Error("a script that was not judged prints")
	}
	if _, err := (&Script{}).Print(names, p); err == nil {
		t.Error("the zero script prints")
	}
	if none.ExtGlob() || readCommand("ls").Script().ExtGlob() || !readCommand("ls !(a)").Script().ExtGlob() {
		t.Error("extended globs are not told apart")
	}
}
