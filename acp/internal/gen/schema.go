package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
)

// node is the part of JSON Schema that the protocol uses.
type node struct {
	Ref        string           `json:"$ref"`
	Type       typeNames        `json:"type"`
	Format     string           `json:"format"`
	Title      string           `json:"title"`
	Const      json.RawMessage  `json:"const"`
	Default    json.RawMessage  `json:"default"`
	Properties map[string]*node `json:"properties"`
	Required   []string         `json:"required"`
	Items      *node            `json:"items"`
	Additional json.RawMessage  `json:"additionalProperties"`
	AllOf      []*node          `json:"allOf"`
	AnyOf      []*node          `json:"anyOf"`
	OneOf      []*node          `json:"oneOf"`
	Defs       map[string]*node `json:"$defs"`
	Forgiving  bool             `json:"x-deserialize-default-on-error"`
	SkipItems  bool             `json:"x-deserialize-skip-invalid-items"`
}

// typeNames is "type", which is one name or several.
type typeNames []string

// UnmarshalJSON reads a name or a list of names.
func (t *typeNames) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = typeNames{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

func (t typeNames) has(name string) bool {
	for _, n := range t {
		if n == name {
			return true
		}
	}
	return false
}

// only returns the one name besides null.
func (t typeNames) only() string {
	name := ""
	for _, n := range t {
		if n == "null" {
			continue
		}
		if name != "" {
			return ""
		}
		name = n
	}
	return name
}

// alternatives returns the members of anyOf or oneOf.
func (n *node) alternatives() []*node {
	if len(n.AnyOf) > 0 {
		return n.AnyOf
	}
	return n.OneOf
}

// target returns the definition that n is nothing but a reference to.
func (n *node) target() string {
	if n.Ref != "" {
		return strings.TrimPrefix(n.Ref, "#/$defs/")
	}
	if len(n.AllOf) == 1 {
		return n.AllOf[0].target()
	}
	return ""
}

// nullable returns what n is besides null, and whether null is allowed.
func (n *node) nullable() (*node, bool) {
	if n.Type.has("null") && len(n.Type) > 1 {
		return n, true
	}
	if len(n.AnyOf) != 2 {
		return n, false
	}
	for i, a := range n.AnyOf {
		if len(a.Type) == 1 && a.Type[0] == "null" {
			return n.AnyOf[1-i], true
		}
	}
	return n, false
}

func (n *node) constString() (string, bool) {
	var s string
	if len(n.Const) == 0 || json.Unmarshal(n.Const, &s) != nil {
		return "", false
	}
	return s, true
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// reachable returns the names of roots and of all they refer to, sorted.
func reachable(defs map[string]*node, roots []string) ([]string, error) {
	seen := map[string]bool{}
	var missing []string
	var visit func(name string)
	var walk func(n *node)
	visit = func(name string) {
		if seen[name] {
			return
		}
		if defs[name] == nil {
			missing = append(missing, name)
			return
		}
		seen[name] = true
		if kindOf(defs[name]) != kindOpaque {
			walk(defs[name])
		}
	}
	walk = func(n *node) {
		if t := n.target(); t != "" {
			visit(t)
		}
		for _, k := range sortedKeys(n.Properties) {
			walk(n.Properties[k])
		}
		if n.Items != nil {
			walk(n.Items)
		}
		for _, group := range [][]*node{n.AllOf, n.AnyOf, n.OneOf} {
			for _, m := range group {
				walk(m)
			}
		}
	}
	for _, r := range roots {
		visit(r)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("schema has no definition %s: remove it from roots or update the schema", strings.Join(missing, ", "))
	}
	return sortedKeys(seen), nil
}

// kind is the shape of a definition.
type kind int

const (
	kindOpaque     kind = iota
	kindScalar          // a named string, number or boolean
	kindStringEnum      // one of some strings
	kindIntEnum         // one of some integers
	kindObject          // members
	kindUnion           // objects told apart by one member
)

func kindOf(n *node) kind {
	alts := n.alternatives()
	switch {
	case len(alts) > 0 && discriminator(n) != "":
		return kindUnion
	case len(alts) > 0 && all(alts, isStringConst):
		return kindStringEnum
	case len(alts) > 0 && all(alts, isInteger):
		return kindIntEnum
	case len(alts) > 0:
		return kindOpaque
	case n.Type.only() == "object" && !n.Type.has("null"):
		return kindObject
	case n.Type.only() != "" && n.Type.only() != "array" && len(n.Type) == 1:
		return kindScalar
	}
	return kindOpaque
}

func all(ns []*node, ok func(*node) bool) bool {
	for _, n := range ns {
		if !ok(n) {
			return false
		}
	}
	return true
}

// isStringConst also takes the open end of an enumeration, a plain string.
func isStringConst(n *node) bool { return n.Type.only() == "string" }

func isInteger(n *node) bool { return n.Type.only() == "integer" }

// discriminator returns the member whose constant tells the alternatives
// of n apart, or "". One alternative may lack it: the fallback.
func discriminator(n *node) string {
	name, without := "", 0
	for _, a := range n.alternatives() {
		key := ""
		for _, p := range sortedKeys(a.Properties) {
			if _, ok := a.Properties[p].constString(); ok {
				key = p
			}
		}
		switch {
		case key == "" && a.target() != "" && len(a.Properties) == 0:
			without++
		case key == "" || name != "" && key != name:
			return ""
		default:
			name = key
		}
	}
	if without > 1 {
		return ""
	}
	return name
}
