package config

import (
	"encoding/json"
	"fmt"
)

// Schema returns the JSON Schema (draft 2020-12) of a configuration file. It
// says less than [Load] checks: the grammar of rules and what several keys
// mean together are left out.
func Schema() []byte {
	s := root.schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "gth-server configuration"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil { // maps of strings and numbers always encode
		return []byte("{}")
	}
	return append(out, '\n')
}

func (s *spec) schema() map[string]any {
	m := map[string]any{}
	if s.doc != "" {
		m["description"] = s.doc
	}
	if s.fallback != nil {
		m["default"] = s.fallback
	}
	switch s.kind {
	case kindObject, kindEntry:
		props := map[string]any{}
		for _, f := range s.fields {
			props[f.name] = f.spec.schema()
		}
		m["type"], m["properties"], m["additionalProperties"] = "object", props, false
		if len(s.required) > 0 {
			m["required"] = s.required
		}
	case kindMap:
		m["type"], m["additionalProperties"] = "object", s.elem.schema()
	case kindList:
		m["type"], m["items"] = "array", s.elem.schema()
	case kindString:
		m["type"] = "string"
		if len(s.enum) > 0 {
			m["enum"] = s.enum
		}
		if s.pattern != "" {
			m["pattern"] = fmt.Sprintf("^(?:%s)$", s.pattern)
		}
	case kindInt:
		m["type"], m["minimum"], m["maximum"] = "integer", s.min, s.max
	case kindNumber:
		m["type"], m["minimum"], m["maximum"] = "number", s.min, s.max
	case kindBool:
		m["type"] = "boolean"
	case kindUnion:
		alts := []any{}
		for _, a := range s.alts {
			alts = append(alts, a.schema())
		}
		m["anyOf"] = alts
	}
	return m
}
