package config

import (
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Any text gives a configuration or an error, and an error names a place.
func FuzzLoad(f *testing.F) {
	if text, err := os.ReadFile(exampleFile); err == nil {
		f.Add(string(text))
	}
	for _, s := range []string{"", "{", "[[[", `{"approvals":"auto"}`, `{"approvals":{"allow":["x"]}}`, `{"a":1,"a":2}`, "\ufeff{}", `{/*`, `{"model":{"temperature":1e999}}`, `{"builtInTools":["gth_grep",]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := &checker{file: "F", src: []byte(text), dir: "/d", home: "/h"}
		got, err := c.parse(root, "")
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "F:") {
					t.Errorf("an error without a place: %q", line)
				}
			}
			return
		}
		for _, surface := range surfaces() {
			if _, err := decode(forSurface(mergeLayers(builtIn(), got, ""), surface)); err != nil {
				t.Errorf("a valid file does not decode: %v", err)
			}
		}
	})
}

// drawGate draws the value of approvals.
func drawGate(t *rapid.T, label string) *tree {
	if rapid.Bool().Draw(t, label+" short") {
		return textTree(rapid.SampledFrom(rungNames()).Draw(t, label+" rung"), label)
	}
	g := object()
	if rapid.Bool().Draw(t, label+" has mode") {
		g.keys["mode"] = textTree(rapid.SampledFrom(rungNames()).Draw(t, label+" mode"), label)
	}
	for _, name := range []string{"allow", "deny", "escalate"} {
		if rapid.Bool().Draw(t, label+" has "+name) {
			l := &tree{source: label, list: []*tree{}}
			for range rapid.IntRange(0, 3).Draw(t, label+" entries") {
				l.list = append(l.list, textTree(rapid.StringMatching(`[a-z]{3}`).Draw(t, label+" entry"), label))
			}
			g.keys[name] = l
		}
	}
	return g
}

// Whatever two layers and a surface state: no prohibition is lost, and the
// lower one comes first.
func TestNoProhibitionIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var layers [2]*tree
		want := map[string][]string{}
		for i, label := range []string{"user", "project"} {
			layers[i] = object()
			layers[i].keys["approvals"] = drawGate(t, label)
		}
		layers[1].keys["commands"] = object()
		run := object()
		run.keys["approvals"] = drawGate(t, "run")
		layers[1].keys["commands"].keys["run"] = run
		for _, g := range []*tree{layers[0].keys["approvals"], layers[1].keys["approvals"], run.keys["approvals"]} {
			for _, name := range []string{"deny", "escalate"} {
				if l := expandRung(g).get(name); l != nil {
					for _, e := range l.list {
						want[name] = append(want[name], e.text)
					}
				}
			}
		}
		got := forSurface(mergeLayers(layers[0], layers[1], ""), "run").get("approvals")
		for _, name := range []string{"deny", "escalate"} {
			var have []string
			if l := expandRung(got).get(name); l != nil {
				for _, e := range l.list {
					have = append(have, e.text)
				}
			}
			if strings.Join(have, ",") != strings.Join(want[name], ",") {
				t.Fatalf("%s: got %v, want %v", name, have, want[name])
			}
		}
	})
}

// Between files, other lists are replaced, objects merge, and a rung in one
// layer leaves the lists of the other.
func TestMergeLayers(t *testing.T) {
	layer := func(text string) *tree {
		c := &checker{file: "F", src: []byte(text), dir: "/d"}
		got, err := c.parse(root, "")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, tc := range []struct{ lower, upper, want string }{
		{`{"limits":{"steps":1,"turnMs":2000}}`, `{"limits":{"steps":2}}`, `{"limits":{"steps":2,"turnMs":2000}}`},
		{`{"server":{"workspaces":["/a"]}}`, `{"server":{"workspaces":["/b"]}}`, `{"server":{"workspaces":["/b"]}}`},
		{`{"approvals":{"mode":"auto","allow":[]}}`, `{"approvals":"manual"}`, `{"approvals":{"allow":[],"mode":"manual"}}`},
		{`{"approvals":"auto"}`, `{"approvals":{"allow":[]}}`, `{"approvals":{"allow":[],"mode":"auto"}}`},
		{`{"approvals":"auto"}`, `{"approvals":"write"}`, `{"approvals":"write"}`},
		{
			`{"approvals":{"mcp":{"defaults":{"trustAnnotations":["readOnlyHint"]}}}}`, `{"approvals":{"mcp":{"servers":{"a":{}}}}}`,
			`{"approvals":{"mcp":{"defaults":{"trustAnnotations":["readOnlyHint"]},"servers":{"a":{}}}}}`,
		},
		{`{"builtInTools":["gth_grep"]}`, `{"builtInTools":{"gth_grep":false}}`, `{"builtInTools":{"gth_grep":false}}`},
	} {
		if got := mergeLayers(layer(tc.lower), layer(tc.upper), "").json(); got != tc.want {
			t.Errorf("%s over %s\n got %s\nwant %s", tc.upper, tc.lower, got, tc.want)
		}
	}
}
