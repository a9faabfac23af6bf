package config

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/tailscale/hujson"
)

func resolved(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func validate(t *testing.T, r *jsonschema.Resolved, jsonc string) error {
	t.Helper()
	plain, err := hujson.Standardize([]byte(jsonc))
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(plain, &v); err != nil {
		return err
	}
	return r.Validate(v)
}

const exampleFile = "../../examples/config.jsonc"

// The example is valid for Load and for the schema, and it has every key, so
// that a reader finds them all.
func TestExample(t *testing.T) {
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, string(text))
	for _, surface := range surfaces() {
		h.must(Overrides{}, surface)
	}
	if err := validate(t, resolved(t), string(text)); err != nil {
		t.Error(err)
	}
	for _, f := range root.fields {
		if !strings.Contains(string(text), `"`+f.name+`"`) {
			t.Errorf("the example does not show %s", f.name)
		}
	}
}

// What Load refuses for its shape, the schema refuses too, and what Load
// takes, the schema takes.
func TestSchemaAgrees(t *testing.T) {
	r := resolved(t)
	for _, tc := range []struct {
		text string
		ok   bool
	}{
		{`{}`, true},
		{`{"approvals": "auto"}`, true},
		{`{"approvals": {"allow": [{"type": "tool", "matcher": "hint", "pattern": {"readOnlyHint": true}}]}}`, true},
		{`{"builtInTools": ["gth_grep"]}`, true},
		{`{"builtInTools": {"gth_grep": false, "run_tests": {"command": "make"}}}`, true},
		{`{"mcpServers": {"a": {"command": "x", "env": {"A": "b"}}}}`, true},
		{`{"commands": {"run": {"approvals": {"deny": []}}}}`, true},
		{`{"modle": {}}`, false},
		{`{"model": {"provider": "nobody"}}`, false},
		{`{"model": {"apiKeyEnv": "sk-1"}}`, false},
		{`{"approvals": "ask"}`, false},
		{`{"approvals": {"strictness": 1}}`, false},
		{`{"approvals": {"allow": ["ls"]}}`, false},
		{`{"approvals": {"allow": [{"type": "shell", "matcher": "exact"}]}}`, false},
		{`{"limits": {"steps": 0}}`, false},
		{`{"limits": {"steps": "1"}}`, false},
		{`{"builtInTools": ["gth_gerp"]}`, false},
		{`{"profiles": {"a": {"model": {"provider": "openai"}}}}`, false},
		{`{"commands": {"chat": {}}}`, false},
	} {
		_, err := newHouse(t, tc.text).load(Overrides{}, "run")
		if (err == nil) != tc.ok {
			t.Errorf("Load of %s: %v", tc.text, err)
		}
		if err := validate(t, r, tc.text); (err == nil) != tc.ok {
			t.Errorf("schema on %s: %v", tc.text, err)
		}
	}
}

// eachSpec visits every spec of the table.
func eachSpec(s *spec, at string, visit func(string, *spec)) {
	visit(at, s)
	for _, f := range s.fields {
		eachSpec(f.spec, join(at, f.name), visit)
	}
	for _, a := range s.alts {
		eachSpec(a, at, visit)
	}
	if s.elem != nil {
		eachSpec(s.elem, at+"[]", visit)
	}
}

func TestTable(t *testing.T) {
	n := 0
	eachSpec(root, "", func(at string, s *spec) {
		n++
		if s.kind == 0 {
			t.Errorf("%s has no kind", at)
		}
		if s.pattern != "" {
			if _, err := regexp.Compile(s.pattern); err != nil || s.mustBe == "" {
				t.Errorf("%s: pattern %q: %v, must be %q", at, s.pattern, err, s.mustBe)
			}
		}
		if s.kind == kindInt && s.max <= s.min {
			t.Errorf("%s: no range", at)
		}
		for _, name := range s.required {
			if s.field(name) == nil {
				t.Errorf("%s requires %s, which it has not", at, name)
			}
		}
		for _, f := range s.fields {
			if f.spec.doc == "" {
				t.Errorf("%s has no documentation", join(at, f.name))
			}
		}
	})
	t.Logf("%d specs", n)
}

// The structs have exactly the keys of the table: a key that is valid is
// also read.
func TestStructsMatchTable(t *testing.T) {
	tools := root.field("builtInTools").alts[1]
	all := map[string]bool{}
	for _, f := range tools.fields {
		for _, name := range f.spec.alts[1].names() {
			all[name] = true
		}
	}
	toolKeys := &spec{}
	for name := range all {
		toolKeys.fields = append(toolKeys.fields, field{name: name})
	}
	for _, tc := range []struct {
		v any
		s *spec
	}{
		{Model{}, modelSpec},
		{Profile{}, root.field("profiles").elem},
		{MCPApprovals{}, gateSpec.alts[1].field("mcp")},
		{MCPTrust{}, gateSpec.alts[1].field("mcp").field("defaults")},
		{Tool{}, toolKeys},
		{Shell{}, root.field("shell")},
		{MCPServer{}, root.field("mcpServers").elem},
		{Server{}, root.field("server")},
		{Telemetry{}, root.field("telemetry")},
		{Limits{}, root.field("limits")},
	} {
		typ := reflect.TypeOf(tc.v)
		tags := map[string]bool{}
		for i := range typ.NumField() {
			tag := typ.Field(i).Tag.Get("json")
			tags[tag] = true
			if tc.s.field(tag) == nil && !all[tag] {
				t.Errorf("%s.%s: the table has no key %q", typ.Name(), typ.Field(i).Name, tag)
			}
		}
		for _, name := range tc.s.names() {
			if !tags[name] {
				t.Errorf("%s has no field for the key %q", typ.Name(), name)
			}
		}
	}
}

// The documentation names every key.
func TestDocumentationIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	eachSpec(root, "", func(at string, s *spec) {
		for _, f := range s.fields {
			n++
			if !strings.Contains(string(text), "`"+f.name+"`") {
				t.Errorf("docs/configuration.md does not mention %s", join(at, f.name))
			}
		}
	})
	t.Logf("%d keys", n)
}
