package approvals

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// UnmarshalJSON reads an entry strictly: unknown and repeated keys, wrong
// types and every breach of the grammar are errors that name the field.
func (e *Entry) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] == '"' {
		return bareString(b)
	}
	fields, err := objectFields(b)
	if err != nil {
		return err
	}
	var read Entry
	for _, name := range []string{"type", "matcher", "pattern"} {
		if _, ok := fields[name]; !ok {
			return fieldErr(name, "is required: an entry is written { \"type\": …, \"matcher\": …, \"pattern\": … }")
		}
	}
	for name, raw := range fields {
		if err := read.setField(name, raw); err != nil {
			return err
		}
	}
	if err := read.Validate(); err != nil {
		return err
	}
	*e = read
	return nil
}

// bareString shows the object form for exactly the string that was written.
func bareString(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fieldErr("", "entry is no valid JSON string: %v", err)
	}
	want := Entry{Type: typeShell, Matcher: matchExact, Pattern: s}
	return fieldErr("", "entry is a bare string: write %s", want.Preview())
}

// objectFields splits an object into its members and refuses repeated keys,
// where readers of JSON differ about which one counts.
func objectFields(b []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	tok, err := dec.Token()
	if err != nil || tok != json.Delim('{') {
		return nil, fieldErr("", "entry is no object: write { \"type\": …, \"matcher\": …, \"pattern\": … }")
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fieldErr("", "entry is no valid JSON: %v", err)
		}
		name := fmt.Sprint(key)
		if _, ok := fields[name]; ok {
			return nil, fieldErr(name, "is written twice: keep one")
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, fieldErr(name, "is no valid JSON: %v", err)
		}
		fields[name] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, fieldErr("", "entry is no valid JSON: %v", err)
	}
	return fields, nil
}

func (e *Entry) setField(name string, raw json.RawMessage) error {
	switch name {
	case "type":
		return stringField(name, raw, &e.Type)
	case "matcher":
		return stringField(name, raw, &e.Matcher)
	case "server":
		return stringField(name, raw, &e.Server)
	case "host":
		return stringField(name, raw, &e.Host)
	case "rate":
		var rate *bool
		if json.Unmarshal(raw, &rate) != nil || rate == nil {
			return fieldErr(name, "must be true or false")
		}
		e.Rate = rate
		return nil
	case "pattern":
		return e.setPattern(raw)
	}
	return fieldErr(name, "is unknown: an entry has type, matcher, pattern, server, host and rate")
}

func stringField(name string, raw json.RawMessage, dst *string) error {
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil || *s == "" {
		return fieldErr(name, "must be a non-empty string")
	}
	*dst = *s
	return nil
}

func (e *Entry) setPattern(raw json.RawMessage) error {
	if len(raw) == 0 || raw[0] != '{' {
		return stringField("pattern", raw, &e.Pattern)
	}
	fields, err := objectFields(raw)
	if err != nil {
		return fieldErr("pattern", "%v", err)
	}
	e.Hints = make(map[string]bool, len(fields))
	for name, v := range fields {
		var on *bool
		if json.Unmarshal(v, &on) != nil || on == nil {
			return fieldErr("pattern", "hint %q must be true or false", name)
		}
		e.Hints[name] = *on
	}
	return nil
}

// MarshalJSON writes the keys in the fixed order that previews use.
func (e Entry) MarshalJSON() ([]byte, error) {
	return []byte("{" + e.members(":", ",") + "}"), nil
}

// Preview returns the object form on one line. Two entries are the same
// exactly when their previews are.
func (e Entry) Preview() string { return "{ " + e.members(": ", ", ") + " }" }

func (e Entry) members(colon, comma string) string {
	var b strings.Builder
	add := func(key, value string) {
		if b.Len() > 0 {
			b.WriteString(comma)
		}
		b.WriteString(quoted(key) + colon + value)
	}
	add("type", quoted(e.Type))
	if e.Server != "" {
		add("server", quoted(e.Server))
	}
	add("matcher", quoted(e.Matcher))
	if e.Matcher == matchHint {
		add("pattern", e.hintsJSON())
	} else {
		add("pattern", quoted(e.Pattern))
	}
	if e.Host != "" {
		add("host", quoted(e.Host))
	}
	if e.Rate != nil {
		add("rate", fmt.Sprint(*e.Rate))
	}
	return b.String()
}

func (e Entry) hintsJSON() string {
	var parts []string
	for _, name := range hintNames {
		if on, ok := e.Hints[name]; ok {
			parts = append(parts, fmt.Sprintf("%q:%t", name, on))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Summary describes e in a few words.
func (e Entry) Summary() string {
	what := e.Pattern
	if e.Matcher == matchHint {
		what = e.hintsJSON()
	}
	switch e.Type {
	case typeShell:
	case typeMCP:
		what = e.Type + " " + e.Server + "/" + what
	default:
		what = e.Type + " " + what
	}
	if e.Matcher != matchExact {
		what += " (" + e.Matcher + ")"
	}
	if e.Host != "" {
		what += " (host " + e.Host + ")"
	}
	return what
}

// quoted writes s as a JSON string without escaping < > &, which rules for
// shell commands are full of.
func quoted(s string) string {
	if plainJSON(s) {
		return `"` + s + `"`
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// plainJSON reports whether s needs no escape.
func plainJSON(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
