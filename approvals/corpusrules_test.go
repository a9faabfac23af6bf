package approvals

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// corpusCommand is one line of testdata/commands.jsonl. The commands are
// texts to judge and never run.
type corpusCommand struct {
	ID, Command, Shell string
	Expect             struct {
		Floor    *string
		MustNot  []corpusRule `json:"allow_rule_must_not_match"`
		Must     []corpusRule `json:"allow_rule_must_match"`
		MustDeny []corpusRule `json:"deny_rule_must_match"`
	}
}

type corpusRule struct{ Matcher, Pattern string }

// entry translates a rule of the corpus. ok is false for rules that have no
// counterpart here.
func (r corpusRule) entry(single, allow bool) (Entry, bool) {
	switch r.Matcher {
	case "program", "prefix":
		return entry(typeExec, matchPrefix, r.Pattern), true
	case "glob":
		if single || !allow {
			return entry(typeShell, matchGlob, r.Pattern), true
		}
		return entry(typeExec, matchPrefix, strings.TrimSpace(strings.TrimSuffix(r.Pattern, "*"))), true
	case "regex":
		return entry(typeShell, matchRegexp, r.Pattern), true
	case "exact":
		return entry(typeShell, matchExact, r.Pattern), true
	case "write":
		return entry(typeWrite, matchGlob, r.Pattern), true
	}
	return Entry{}, false
}

func TestCorpusCommandRules(t *testing.T) {
	skip := exceptions(t)
	ran, skipped := 0, 0
	for _, c := range readLines[corpusCommand](t, "testdata/commands.jsonl") {
		if c.Shell != "bash" {
			continue
		}
		if skip[c.ID] {
			skipped++
			continue
		}
		r := readCommand(c.Command)
		single := r.scan.Single
		allowed := func(rules []corpusRule) (string, int) {
			var in []Entry
			for _, cr := range rules {
				if e, ok := cr.entry(single, true); ok {
					in = append(in, e)
				}
			}
			if len(in) == 0 {
				return "", 0
			}
			m, _ := Posture{Policy: compiled(t, listAllow, in...)}.allowed(r)
			if m == nil {
				return "", len(in)
			}
			return m.entry.Summary(), len(in)
		}
		for _, cr := range c.Expect.MustNot {
			by, n := allowed([]corpusRule{cr})
			if ran += n; by != "" {
				t.Errorf("%s: %q is allowed by %s", c.ID, c.Command, by)
			}
		}
		if by, n := allowed(c.Expect.Must); n > 0 {
			if ran++; by == "" {
				t.Errorf("%s: %q is not allowed by %v; unresolved %v hiding %v", c.ID, c.Command, c.Expect.Must, r.scan.Unresolved, r.scan.Hiding)
			}
		}
		for _, cr := range c.Expect.MustDeny {
			e, ok := cr.entry(single, false)
			if !ok {
				continue
			}
			ran++
			if v := Evaluate(r, Posture{Rung: Bypass, Policy: compiled(t, listDeny, e)}, nil); v.Stage != StageDenyList && v.Stage != StageUnreadable {
				t.Errorf("%s: %q is not denied by %s", c.ID, c.Command, e.Summary())
			}
		}
	}
	t.Logf("%d rule checks ran, %d commands are exceptions", ran, skipped)
	if ran == 0 {
		t.Fatal("nothing ran")
	}
}

// At bypass nothing but the floor, a hiding text and unreadable text refuses.
func TestCorpusCommandsAtBypass(t *testing.T) {
	ran, refused, floors, hit := 0, 0, 0, 0
	for _, c := range readLines[corpusCommand](t, "testdata/commands.jsonl") {
		if c.Shell != "bash" {
			continue
		}
		ran++
		v := Evaluate(readCommand(c.Command), Posture{Rung: Bypass}, nil)
		if c.Expect.Floor == nil && v.Stage == StageHardlineFloor {
			refused++
			t.Errorf("%s: %q is refused: %s", c.ID, c.Command, v.Floor.Description)
		}
		if c.Expect.Floor != nil {
			if floors++; v.Action == Reject {
				hit++
			}
		}
	}
	t.Logf("%d commands ran, %d wrongly refused, %d of %d floors refused", ran, refused, hit, floors)
	if hit*10 < floors*6 {
		t.Errorf("only %d of %d floors refused", hit, floors)
	}
}

// corpusTool is one line of testdata/tools.jsonl.
type corpusTool struct {
	ID, Class, Tool string
	Server          *string
	Arguments       json.RawMessage
	Raw             *string `json:"raw_arguments"`
	Generate        *struct {
		Kind, Open, Close, Core, Template, Char string
		Depth, Count                            int
	} `json:"generate_arguments"`
	Expect struct {
		Handling string
		Hosts    []string
		MustNot  []corpusRule `json:"allow_rule_must_not_match"`
		Must     []corpusRule `json:"allow_rule_must_match"`
	}
}

func (c corpusTool) arguments() json.RawMessage {
	switch g := c.Generate; {
	case c.Raw != nil:
		return json.RawMessage(*c.Raw)
	case g == nil:
		return c.Arguments
	case g.Kind == "nest":
		return json.RawMessage(strings.Repeat(g.Open, g.Depth) + g.Core + strings.Repeat(g.Close, g.Depth))
	default:
		return json.RawMessage(strings.Replace(g.Template, "@@", strings.Repeat(g.Char, g.Count), 1))
	}
}

func TestCorpusTools(t *testing.T) {
	names := map[string]string{"fetch_url": "gth_web_fetch", "http_request": "gth_web_fetch", "apply_patch": "edit_file", "run_shell": ShellTool}
	skip := exceptions(t)
	ran, skipped := 0, 0
	for _, c := range readLines[corpusTool](t, "testdata/tools.jsonl") {
		if skip[c.ID] {
			skipped++
			continue
		}
		ran++
		args, err := CanonicalArguments(c.arguments())
		if invalid := c.Class == "json-shape" && c.Expect.Handling == "invalid"; (err != nil) != invalid {
			t.Errorf("%s: invalid %t: %v", c.ID, invalid, err)
		}
		if err != nil {
			continue
		}
		call := Call{ID: c.ID, Tool: c.Tool, Arguments: args}
		if n, ok := names[c.Tool]; ok {
			call.Tool = n
		}
		if c.Server != nil {
			call.Server, call.Name, call.Tool = *c.Server, c.Tool, "mcp__"+*c.Server+"__"+c.Tool
		}
		place := testPlace
		place.Self.Protected = []string{"/home/dev/.config/this-gate"}
		r := Read(call, place)
		var hosts []string
		for _, h := range c.Expect.Hosts {
			h, _ = canonicalHost(h)
			hosts = append(hosts, h)
		}
		slices.Sort(hosts)
		if diff := cmp.Diff(hosts, slices.Sorted(slices.Values(r.hosts))); diff != "" {
			t.Errorf("%s: hosts %s", c.ID, diff)
		}
		v := Evaluate(r, Posture{Rung: Write}, nil)
		if c.Class == "agent-config" && strings.HasSuffix(c.Tool, "_file") && v.Stage != StageControlFile && v.Stage != StageHardlineFloor {
			t.Errorf("%s: %s %s is decided at %s", c.ID, call.Tool, args, v.Stage)
		}
		hostRule := func(rules []corpusRule) bool {
			for _, cr := range rules {
				p := Posture{}
				if cr.Matcher == "host" {
					p.Policy = compiled(t, listAllow, entry(typeConnect, matchExact, cr.Pattern))
				}
				if m, _ := p.allowed(r); m != nil {
					return true
				}
			}
			return false
		}
		if hostRule(c.Expect.MustNot) {
			t.Errorf("%s: %s is allowed by one of %v", c.ID, args, c.Expect.MustNot)
		}
		if len(c.Expect.Must) > 0 && !hostRule(c.Expect.Must) {
			t.Errorf("%s: %s is allowed by none of %v", c.ID, args, c.Expect.Must)
		}
	}
	t.Logf("%d calls ran, %d are exceptions", ran, skipped)
	if ran == 0 {
		t.Fatal("nothing ran")
	}
}
