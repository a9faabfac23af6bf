package approvals

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func genCommand() *rapid.Generator[string] {
	part := rapid.SampledFrom([]string{
		"npm", "test", "git", "push", "-f", "--force", "'a b'", `"c $X"`, "$X", "$(id)", "&&", "|", ";", ">", "out", "<", "in", "rm", "-rf",
		"build", "sudo", "xargs", "sh", "-c", "'ls -la'", "a\\ b", "\n", "(", ")", "curl", "https://a.example/x", ".git/hooks/x", "*.go", "{a,b}",
		"X=1", "env", "timeout", "5", "''", "é", "~/.ssh/id_rsa", "python3", "`id`", "#", "\t", "  ", "!", "[[", "]]", "time",
	})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 0, 8).Draw(t, "parts"), " ")
	})
}

func genCall() *rapid.Generator[Call] {
	return rapid.Custom(func(t *rapid.T) Call {
		if rapid.Bool().Draw(t, "shell") {
			return shellCall(genCommand().Draw(t, "command"))
		}
		name := rapid.SampledFrom([]string{"write_file", "edit_file", "gth_web_fetch", "custom", "mcp__j__get", "run_tests", "read_file"}).Draw(t, "tool")
		args := rapid.MapOf(rapid.SampledFrom([]string{"path", "url", "x"}), rapid.SampledFrom([]string{"a", ".env", "https://a.example", "https://b.example:1/x"})).Draw(t, "args")
		c := toolCall(name, args)
		if strings.HasPrefix(name, mcpPrefix) && rapid.Bool().Draw(t, "configured") {
			c.Server, c.Name = "j", "get"
		}
		return c
	})
}

func genRung() *rapid.Generator[Rung] { return rapid.SampledFrom(Rungs()) }

// An offered grant matches its own call, and an offered refusal stops it.
func TestPropertyOffersMatchTheirCall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Read(genCall().Draw(t, "call"), testPlace)
		rung := genRung().Draw(t, "rung")
		v := decided(r, Posture{Rung: rung}, rated(rapid.SampledFrom([]Outcome{Safe, Destructive, Catastrophic}).Draw(t, "outcome")))
		if v.Request == nil {
			return
		}
		if o := v.Request.AllowSession; o != nil {
			p := Posture{Rung: Manual, Grants: NewGrants([]Grant{grantOf(o.Entry)}, nil, nil)}
			if got := Evaluate(r, p, nil); got.Action != Approve {
				t.Fatalf("%s grants nothing: %s at %s", o.Preview, got.Action, got.Stage)
			}
			if o.Preview != o.Entry.Preview() {
				t.Fatalf("%s is not what is stored", o.Preview)
			}
		}
		if o := v.Request.RejectSession; o != nil {
			p := Posture{Rung: rung, Grants: NewGrants(nil, nil, []Grant{grantOf(o.Entry)})}
			if got := Evaluate(r, p, nil); got.Stage != StageDenyList {
				t.Fatalf("%s refuses nothing: %s at %s", o.Preview, got.Action, got.Stage)
			}
		}
	})
}

// Deny wins over everything that allows.
func TestPropertyDenyWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Read(genCall().Draw(t, "call"), testPlace)
		e, ok := r.rejectEntry()
		if !ok {
			return
		}
		everything := []SourcedEntry{
			{Entry: entry(typeShell, matchRegexp, ".")},
			{Entry: entry(typeTool, matchGlob, "*")},
			{Entry: Entry{Type: typeMCP, Server: "*", Matcher: matchGlob, Pattern: "*"}},
			{Entry: entry(typeWrite, matchGlob, "/**")},
		}
		policy, err := Compile(Rules{Deny: []SourcedEntry{{Entry: e}}, Allow: everything})
		if err != nil {
			t.Fatal(err)
		}
		own := []Grant{}
		if a, ok := r.allowEntry(); ok {
			own = append(own, grantOf(a))
		}
		p := Posture{Rung: genRung().Draw(t, "rung"), Policy: policy, Grants: NewGrants(own, own, nil)}
		if v := Evaluate(r, p, rated(Safe)); v.Action != Reject || (v.Stage != StageDenyList && v.Stage != StageUnreadable) {
			t.Fatalf("%s: %s at %s", e.Preview(), v.Action, v.Stage)
		}
	})
}

// Without rules, grants or a rating nothing but an access class approves
// below bypass; and evaluating twice gives the same.
func TestPropertyNothingApprovesByItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Read(genCall().Draw(t, "call"), testPlace)
		rung := rapid.SampledFrom([]Rung{Manual, Write, Assisted, Auto}).Draw(t, "rung")
		v := Evaluate(r, Posture{Rung: rung}, nil)
		if v.Action == Approve && v.Stage != StageNotGated {
			t.Fatalf("approved at %s", v.Stage)
		}
		if again := Evaluate(r, Posture{Rung: rung}, nil); stages(again) != stages(v) {
			t.Fatalf("%q, then %q", stages(v), stages(again))
		}
	})
}

func FuzzEvaluate(f *testing.F) {
	for _, s := range []string{"ls", "rm -rf /", "a && b", "echo $(id)", "if", "\x00", "cat <<E\nx\nE", "$'\\x72m' x"} {
		f.Add(s, uint8(0))
	}
	f.Fuzz(func(t *testing.T, cmd string, rung uint8) {
		if len(cmd) > 4096 || strings.ToValidUTF8(cmd, "") != cmd {
			return
		}
		r := readCommand(cmd)
		v := Evaluate(r, Posture{Rung: Rung(rung % 5)}, nil)
		if v.Action == Approve && v.Stage != StageBypass {
			t.Fatalf("approved at %s", v.Stage)
		}
		r.GrantPreview()
		r.Analysis()
	})
}
