package approvals

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEntryGrammar(t *testing.T) {
	long := strings.Repeat("a", 201)
	for _, tc := range []struct {
		in, field, says string // says: part of the error, empty when valid
	}{
		{`{"type":"shell","matcher":"exact","pattern":"npm test"}`, "", ""},
		{`{"type":"shell","matcher":"regexp","pattern":"^npm"}`, "", ""},
		{`{"type":"tool","matcher":"hint","pattern":{"readOnlyHint":true},"host":"h"}`, "", ""},
		{`{"type":"mcpTool","server":"*","matcher":"glob","pattern":"*","rate":false}`, "", ""},
		{`{"type":"exec","matcher":"prefix","pattern":"git 'push' \"-f\" a\\ b"}`, "", ""},
		{`{"type":"exec","matcher":"prefix","pattern":"[["}`, "", ""},
		{`{"type":"read","matcher":"glob","pattern":"~/**/.env"}`, "", ""},
		{`{"type":"write","matcher":"exact","pattern":"/etc/hosts"}`, "", ""},
		{`{"type":"connect","matcher":"exact","pattern":"example.com:8443"}`, "", ""},
		{`{"type":"connect","matcher":"glob","pattern":"*.example.com"}`, "", ""},

		{`"npm test"`, "", `{ "type": "shell", "matcher": "exact", "pattern": "npm test" }`},
		{`"bro\q"`, "", "invalid"},
		{`[]`, "", "no object"},
		{`{"type":1`, "", "JSON"},
		{`{"type":"shell","type":"shell","matcher":"exact","pattern":"x"}`, "type", "twice"},
		{`{"matcher":"exact","pattern":"x"}`, "type", "required"},
		{`{"type":"shell","pattern":"x"}`, "matcher", "required"},
		{`{"type":"shell","matcher":"exact"}`, "pattern", "required"},
		{`{"type":"shell","matcher":"exact","pattern":"x","rat":true}`, "rat", "unknown"},
		{`{"type":"shell","matcher":"exact","pattern":"x","Rate":true}`, "Rate", "unknown"},
		{`{"type":"shell","matcher":"exact","pattern":"x","rate":"no"}`, "rate", "true or false"},
		{`{"type":"shell","matcher":"exact","pattern":"x","rate":null}`, "rate", "true or false"},
		{`{"type":"shell","matcher":"exact","pattern":""}`, "pattern", "non-empty"},
		{`{"type":"shell","matcher":"exact","pattern":7}`, "pattern", "non-empty"},
		{`{"type":null,"matcher":"exact","pattern":"x"}`, "type", "non-empty"},
		{`{"type":"cmd","matcher":"exact","pattern":"x"}`, "type", "use one of shell, tool"},
		{`{"type":"shell","matcher":"prefix","pattern":"x"}`, "matcher", "use one of exact, glob, regexp"},
		{`{"type":"exec","matcher":"glob","pattern":"x"}`, "matcher", "prefix, exact"},
		{`{"type":"shell","matcher":"exact","pattern":"x","server":"s"}`, "server", "mcpTool only"},
		{`{"type":"mcpTool","matcher":"exact","pattern":"x"}`, "server", "is required"},
		{`{"type":"write","matcher":"exact","pattern":"x","host":"h"}`, "host", "connect entry"},
		{`{"type":"shell","matcher":"exact","pattern":{"readOnlyHint":true}}`, "pattern", "unless matcher is hint"},
		{`{"type":"tool","matcher":"hint","pattern":"x"}`, "pattern", "object of hints"},
		{`{"type":"tool","matcher":"hint","pattern":{}}`, "pattern", "at least one"},
		{`{"type":"tool","matcher":"hint","pattern":{"foo":true}}`, "pattern", `"foo" is unknown`},
		{`{"type":"tool","matcher":"hint","pattern":{"readOnlyHint":1}}`, "pattern", "true or false"},
		{`{"type":"tool","matcher":"hint","pattern":{"readOnlyHint":true,"readOnlyHint":true}}`, "pattern", "twice"},
		{`{"type":"shell","matcher":"regexp","pattern":"(?=x)"}`, "pattern", "look-around"},
		{`{"type":"shell","matcher":"regexp","pattern":"` + long + `"}`, "pattern", "201 characters"},
		{`{"type":"exec","matcher":"prefix","pattern":"git $X"}`, "pattern", "expansion"},
		{`{"type":"exec","matcher":"prefix","pattern":"git \"$X\""}`, "pattern", "expansion"},
		{`{"type":"exec","matcher":"prefix","pattern":"git $'x'"}`, "pattern", "expansion"},
		{`{"type":"exec","matcher":"prefix","pattern":"git 'x"}`, "pattern", "cannot be split"},
		{`{"type":"exec","matcher":"prefix","pattern":" "}`, "pattern", "no word"},
		{`{"type":"read","matcher":"glob","pattern":"a/../b"}`, "pattern", "absolute path"},
		{`{"type":"read","matcher":"glob","pattern":"a/[b"}`, "pattern", "no valid glob"},
		{`{"type":"read","matcher":"exact","pattern":"a\u0000b"}`, "pattern", "NUL"},
		{`{"type":"connect","matcher":"exact","pattern":"https://example.com"}`, "pattern", "is no host"},
		{`{"type":"connect","matcher":"exact","pattern":"a/b"}`, "pattern", "is no host"},
		{`{"type":"connect","matcher":"exact","pattern":"\u00e4\u0000b"}`, "pattern", "no valid host"},
	} {
		var e Entry
		err := json.Unmarshal([]byte(tc.in), &e)
		if tc.says == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.in, err)
			}
			again, err := json.Marshal(e)
			if err != nil || !sameJSON(t, tc.in, string(again)) {
				t.Errorf("%s: marshals to %s (%v)", tc.in, again, err)
			}
			continue
		}
		// encoding/json checks the syntax first; ask the method itself.
		err = e.UnmarshalJSON([]byte(tc.in))
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != tc.field || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: want field %q and %q, got %v", tc.in, tc.field, tc.says, err)
		}
	}
	if err := (Entry{Type: typeShell, Matcher: matchExact}).Validate(); err == nil {
		t.Error("an entry without a pattern is valid")
	}
	if err := (Entry{}).Validate(); err == nil {
		t.Error("the zero entry is valid")
	}
	for _, broken := range []string{`{`, `{"a":1`, `{"type":"shell",}`, `{"type":}`, `{"type":"shell" "x"}`, ``} {
		if err := new(Entry).UnmarshalJSON([]byte(broken)); err == nil {
			t.Errorf("%q is an entry", broken)
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		t.Fatalf("no JSON: %s, %s", a, b)
	}
	return cmp.Equal(x, y)
}

func TestEntryRendering(t *testing.T) {
	no := false
	for _, tc := range []struct {
		in               Entry
		preview, summary string
		rates            bool
	}{
		{
			Entry{Type: typeShell, Matcher: matchExact, Pattern: "a > b && \"c\""},
			`{ "type": "shell", "matcher": "exact", "pattern": "a > b && \"c\"" }`, `a > b && "c"`, false,
		},
		{
			Entry{Type: typeShell, Matcher: matchGlob, Pattern: "npm *"},
			`{ "type": "shell", "matcher": "glob", "pattern": "npm *" }`, "npm * (glob)", true,
		},
		{
			Entry{Type: typeMCP, Server: "web", Matcher: matchExact, Pattern: "fetch", Host: "a.example", Rate: &no},
			`{ "type": "mcpTool", "server": "web", "matcher": "exact", "pattern": "fetch", "host": "a.example", "rate": false }`,
			"mcpTool web/fetch (host a.example)", false,
		},
		{
			Entry{Type: typeTool, Matcher: matchHint, Hints: map[string]bool{"openWorldHint": false, "readOnlyHint": true}},
			`{ "type": "tool", "matcher": "hint", "pattern": {"readOnlyHint":true,"openWorldHint":false} }`,
			`tool {"readOnlyHint":true,"openWorldHint":false} (hint)`, true,
		},
		{
			Entry{Type: typeExec, Matcher: matchPrefix, Pattern: "git push"},
			`{ "type": "exec", "matcher": "prefix", "pattern": "git push" }`, "exec git push (prefix)", true,
		},
	} {
		if got := tc.in.Preview(); got != tc.preview {
			t.Errorf("preview %s, want %s", got, tc.preview)
		}
		if got := tc.in.Summary(); got != tc.summary {
			t.Errorf("summary %s, want %s", got, tc.summary)
		}
		if got := tc.in.Rates(); got != tc.rates {
			t.Errorf("%s: rates %t", tc.preview, got)
		}
		var again Entry
		if err := json.Unmarshal([]byte(tc.preview), &again); err != nil || again.Preview() != tc.preview {
			t.Errorf("%s does not read back: %v", tc.preview, err)
		}
	}
}

func TestCompileNamesTheEntry(t *testing.T) {
	good := SourcedEntry{Entry: Entry{Type: typeShell, Matcher: matchExact, Pattern: "x"}, Source: "c.jsonc:1"}
	bad := SourcedEntry{Entry: Entry{Type: typeShell, Matcher: matchPrefix, Pattern: "x"}, Source: "c.jsonc:9"}
	for _, tc := range []struct {
		rules Rules
		want  string
	}{
		{Rules{Deny: []SourcedEntry{good, bad}}, `c.jsonc:9: approvals.deny[1]: field "matcher": "prefix" does not exist for type shell: use one of exact, glob, regexp`},
		{Rules{Escalate: []SourcedEntry{bad}}, `c.jsonc:9: approvals.escalate[0]: `},
		{Rules{Allow: []SourcedEntry{{Entry: bad.Entry}}}, `approvals.allow[0]: `},
	} {
		p, err := Compile(tc.rules)
		var re *RuleError
		var fe *FieldError
		if p != nil || !errors.As(err, &re) || !errors.As(err, &fe) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("got %v, want %s", err, tc.want)
		}
	}
}

func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"type":"shell","matcher":"exact","pattern":"npm test"}`))
	f.Add([]byte(`{"type":"tool","matcher":"hint","pattern":{"readOnlyHint":true}}`))
	f.Add([]byte(`{"type":"exec","matcher":"prefix","pattern":"git 'a b'"}`))
	f.Add([]byte(`"x"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e Entry
		if json.Unmarshal(b, &e) != nil {
			return
		}
		var again Entry
		if err := json.Unmarshal([]byte(e.Preview()), &again); err != nil || again.Preview() != e.Preview() {
			t.Fatalf("%s does not read back: %v", e.Preview(), err)
		}
		if _, err := compileRule(e, listAllow, ""); err != nil {
			t.Fatalf("a valid entry does not compile: %v", err)
		}
	})
}
