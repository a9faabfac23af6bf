package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tree is a checked value that knows where it was stated. Trees are merged
// before they are decoded, because only they tell a stated value from an
// absent one.
type tree struct {
	source string           // "file:line", a variable, a flag or "built-in"
	keys   map[string]*tree // objects: not nil
	list   []*tree          // lists: not nil
	raw    string           // JSON of everything else, and of rules
	text   string           // strings: the value
}

func object() *tree { return &tree{keys: map[string]*tree{}} }

func textTree(text, source string) *tree {
	t := &tree{source: source}
	t.setText(text)
	return t
}

func (t *tree) setText(text string) {
	raw, _ := json.Marshal(text) // a string always encodes
	t.text, t.raw = text, string(raw)
}

// get follows keys; it returns nil where one is not stated.
func (t *tree) get(keys ...string) *tree {
	for _, k := range keys {
		if t == nil {
			return nil
		}
		t = t.keys[k]
	}
	return t
}

// str returns the text of a string below t, or "".
func (t *tree) str(keys ...string) string {
	if v := t.get(keys...); v != nil {
		return v.text
	}
	return ""
}

func (t *tree) sorted() []string {
	if t == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(t.keys))
}

// json encodes t.
func (t *tree) json() string {
	var b strings.Builder
	t.encode(&b)
	return b.String()
}

func (t *tree) encode(b *strings.Builder) {
	switch {
	case t == nil:
		b.WriteString("null")
	case t.keys != nil:
		b.WriteByte('{')
		for i, k := range t.sorted() {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(textTree(k, "").raw + ":")
			t.keys[k].encode(b)
		}
		b.WriteByte('}')
	case t.list != nil:
		b.WriteByte('[')
		for i, e := range t.list {
			if i > 0 {
				b.WriteByte(',')
			}
			e.encode(b)
		}
		b.WriteByte(']')
	default:
		b.WriteString(t.raw)
	}
}

// origins notes where each value below t was stated.
func (t *tree) origins(at string, out map[string]string) {
	switch {
	case t == nil:
	case t.keys != nil:
		for k, sub := range t.keys {
			sub.origins(join(at, k), out)
		}
	case t.list != nil:
		if len(t.list) == 0 {
			out[at] = t.source
		}
		for i, e := range t.list {
			e.origins(fmt.Sprintf("%s[%d]", at, i), out)
		}
	default:
		out[at] = t.source
	}
}

// builtIn returns the layer of defaults that the table states. The default
// rung is not in it: whether a rung was stated makes a difference.
func builtIn() *tree {
	t := defaults(root)
	gate := object()
	gate.keys["raterTimeoutMs"] = gateSpec.alts[1].field("raterTimeoutMs").defaultTree()
	t.keys["approvals"] = gate
	return t
}

func defaults(s *spec) *tree {
	t := object()
	for _, f := range s.fields {
		if f.spec.kind == kindObject {
			if sub := defaults(f.spec); len(sub.keys) > 0 {
				t.keys[f.name] = sub
			}
		} else if f.spec.kind != kindUnion && f.spec.fallback != nil {
			t.keys[f.name] = f.spec.defaultTree()
		}
	}
	return t
}

func (s *spec) defaultTree() *tree {
	if text, ok := s.fallback.(string); ok {
		return textTree(text, "built-in")
	}
	raw, _ := json.Marshal(s.fallback) // a number or a truth value of the table
	return &tree{source: "built-in", raw: string(raw)}
}
