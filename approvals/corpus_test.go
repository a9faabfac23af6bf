package approvals

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// corpusCase is one line of testdata/gating-cases.jsonl.
type corpusCase struct {
	ID          string          `json:"id"`
	Kind        string          `json:"kind"`
	Input       json.RawMessage `json:"input"`
	Expect      json.RawMessage `json:"expect"`
	ExpectAST   json.RawMessage `json:"expect_ast"`
	Recommended json.RawMessage `json:"expect_recommended"`
}

func (c corpusCase) input(t *testing.T, dst any) {
	t.Helper()
	if err := json.Unmarshal(c.Input, dst); err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
}

// expect reads the expectation that wins.
func (c corpusCase) expect(t *testing.T, dst any) {
	t.Helper()
	for _, raw := range []json.RawMessage{c.Recommended, c.ExpectAST, c.Expect} {
		if raw != nil {
			if err := json.Unmarshal(raw, dst); err != nil {
				t.Fatalf("%s: %v", c.ID, err)
			}
			return
		}
	}
	t.Fatalf("%s: expects nothing", c.ID)
}

func readLines[T any](t *testing.T, file string) []T {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		var v T
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, v)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// exceptions reads the ids of testdata/exceptions.md: lines "- id, id: why".
func exceptions(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("testdata/exceptions.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, line := range strings.Split(string(b), "\n") {
		ids, ok := strings.CutPrefix(line, "- ")
		if !ok {
			continue
		}
		ids, _, _ = strings.Cut(ids, ":")
		for _, id := range regexp.MustCompile(`[a-z]+-\d+`).FindAllString(ids, -1) {
			out[id] = true
		}
	}
	return out
}

// runCorpus runs the cases of a kind that are no exceptions.
func runCorpus(t *testing.T, kind string, run func(t *testing.T, c corpusCase) string) {
	t.Helper()
	skip := exceptions(t)
	ran, skipped := 0, 0
	for _, c := range readLines[corpusCase](t, "testdata/gating-cases.jsonl") {
		if c.Kind != kind {
			continue
		}
		if skip[c.ID] {
			skipped++
			continue
		}
		ran++
		if diff := run(t, c); diff != "" {
			t.Errorf("%s: %s\n%s", c.ID, c.Input, diff)
		}
	}
	t.Logf("%s: %d cases ran, %d are exceptions (testdata/exceptions.md)", kind, ran, skipped)
	if ran == 0 {
		t.Fatal("no case ran")
	}
}

var testPlace = Place{Cwd: "/work/project", Home: "/home/dev", User: "dev", Roots: []string{"/work/project"}}

func toolCall(name string, args any) Call {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	if raw, err = CanonicalArguments(raw); err != nil {
		panic(err)
	}
	return Call{ID: "call", Tool: name, Arguments: raw}
}

func shellCall(cmd string) Call { return toolCall(ShellTool, map[string]any{"command": cmd}) }

func readCommand(cmd string) *Reading { return Read(shellCall(cmd), testPlace) }

type corpusSubject struct {
	Kind, Command, Name, Server, Host string
}

func (s corpusSubject) reading(hosts ...string) *Reading {
	if s.Kind == "shell" {
		return readCommand(s.Command)
	}
	args := map[string]any{}
	if s.Host != "" && len(hosts) == 0 {
		hosts = []string{s.Host}
	}
	for i, h := range hosts {
		args[fmt.Sprint("u", i)] = "https://" + h
	}
	c := toolCall(s.Name, args)
	if s.Kind == "mcpTool" && s.Server != "" {
		c.Tool, c.Server, c.Name = "mcp__"+s.Server+"__"+s.Name, s.Server, s.Name
	}
	return Read(c, testPlace)
}

type corpusLists struct{ Allow, Deny, Escalate []Entry }

func (l corpusLists) policy(t *testing.T) *Policy {
	t.Helper()
	p, err := Compile(l.rules())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (l corpusLists) rules() Rules {
	src := func(in []Entry) (out []SourcedEntry) {
		for i, e := range in {
			out = append(out, SourcedEntry{Entry: e, Source: fmt.Sprint(i)})
		}
		return out
	}
	return Rules{Deny: src(l.Deny), Escalate: src(l.Escalate), Allow: src(l.Allow)}
}

func TestCorpusMatch(t *testing.T) {
	runCorpus(t, "match", func(t *testing.T, c corpusCase) string {
		var in struct {
			Subject  corpusSubject
			Lists    corpusLists
			Resolve  *string `json:"resolve_tool_name"`
			Servers  []string
			Declared json.RawMessage
			Keys     []string        `json:"configured_servers"`
			Args     json.RawMessage `json:"tool_call_args"`
		}
		c.input(t, &in)
		switch {
		case in.Resolve != nil:
			return matchResolve(t, c, *in.Resolve, in.Keys)
		case in.Args != nil:
			var want struct{ Hosts []string }
			c.expect(t, &want)
			if got := hostsOf(decodeArguments(in.Args)); len(got)+len(want.Hosts) > 0 {
				return cmp.Diff(want.Hosts, got)
			}
			return ""
		}
		return matchLists(t, c, in.Subject.reading(), Posture{Policy: in.Lists.policy(t)})
	})
}

func matchResolve(t *testing.T, c corpusCase, name string, keys []string) string {
	var want corpusSubject
	c.expect(t, &want)
	got := corpusSubject{Kind: "tool", Name: name}
	if server, tool, ok := ResolveMCP(name, keys); ok {
		got = corpusSubject{Kind: "mcpTool", Server: server, Name: tool}
	}
	return cmp.Diff(want, got)
}

type matchResult struct {
	Action    string
	Index     int
	Rate      bool
	Described string
}

func matchLists(t *testing.T, c corpusCase, r *Reading, p Posture) string {
	var want matchResult
	c.expect(t, &want)
	var got matchResult
	set := func(action string, m *rule, rate bool) {
		got = matchResult{Action: action, Rate: rate, Described: m.entry.Summary()}
		fmt.Sscan(m.source, &got.Index)
	}
	if m, a := p.denied(r); a == answerYes {
		set("deny", m, m.rates)
	} else if m, a := p.escalated(r); a == answerYes {
		set("escalate", m, m.rates)
	} else if m, rates := p.allowed(r); m != nil {
		set("allow", m, rates)
	}
	return cmp.Diff(want, got)
}

func TestCorpusAnnotation(t *testing.T) {
	runCorpus(t, "annotation", func(t *testing.T, c corpusCase) string {
		var in struct{ Subject Subject }
		c.input(t, &in)
		var want Annotations
		c.expect(t, &want)
		return cmp.Diff(want, annotationsOf(in.Subject))
	})
}

func TestCorpusGrant(t *testing.T) {
	runCorpus(t, "grant", func(t *testing.T, c corpusCase) string {
		var in struct {
			Subject  *corpusSubject
			Rung     Rung
			Hosts    []string
			Rated    *Outcome        `json:"rated_outcome"`
			Validate json.RawMessage `json:"validate_entry"`
		}
		c.input(t, &in)
		if in.Validate != nil {
			var want struct{ Valid bool }
			c.expect(t, &want)
			var e Entry
			err := json.Unmarshal(in.Validate, &e)
			if (err == nil) != want.Valid {
				return fmt.Sprintf("valid: want %t, error %v", want.Valid, err)
			}
			return ""
		}
		var want struct {
			Allow *string `json:"allow_preview"`
			Deny  *string `json:"deny_preview"`
		}
		c.expect(t, &want)
		e := &evaluation{c: in.Subject.reading(in.Hosts...), p: Posture{Rung: in.Rung}}
		q := question{}
		if in.Rated != nil {
			q.outcome = *in.Rated
		}
		req := newRequest(e, StageRater, q)
		return cmp.Diff([]*string{want.Allow, want.Deny}, []*string{shown(req.AllowSession), shown(req.RejectSession)})
	})
}

func shown(o *Offer) *string {
	if o == nil {
		return nil
	}
	return &o.Preview
}
