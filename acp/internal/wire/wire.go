// Package wire holds the messages of the Agent Client Protocol, version 1.
//
// The types in zz_generated.go are written by acp/internal/gen from the
// published schema. This file holds what they share: optional values and
// the readers and writers that the schema's rules need.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Empty is an object without members of its own.
type Empty struct{}

// Opt is a member that may be absent, null, or a value. The zero value is
// absent.
type Opt[T any] struct {
	value T
	state optState
}

type optState uint8

const (
	absent optState = iota
	null
	present
)

// Some returns the value v.
func Some[T any](v T) Opt[T] { return Opt[T]{value: v, state: present} }

// Null returns an explicit null.
func Null[T any]() Opt[T] { return Opt[T]{state: null} }

// Get returns the value, and whether there is one.
func (o Opt[T]) Get() (T, bool) { return o.value, o.state == present }

// IsNull reports whether the member is an explicit null.
func (o Opt[T]) IsNull() bool { return o.state == null }

// IsZero reports whether the member is absent; encoding/json asks it.
func (o Opt[T]) IsZero() bool { return o.state == absent }

// MarshalJSON writes the value or null.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	if o.state != present {
		return []byte("null"), nil
	}
	return json.Marshal(o.value)
}

// UnmarshalJSON reads a value or null.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	*o = Opt[T]{}
	if string(b) == "null" {
		o.state = null
		return nil
	}
	if err := json.Unmarshal(b, &o.value); err != nil {
		return err
	}
	o.state = present
	return nil
}

// object is a JSON object while its members are read. The first error
// stays; later reads do nothing.
type object struct {
	members map[string]json.RawMessage
	err     error
}

func newObject(b []byte, name string) *object {
	o := &object{}
	if err := json.Unmarshal(b, &o.members); err != nil || o.members == nil {
		o.err = fmt.Errorf("%s must be an object", name)
	}
	return o
}

// required reads a member that must be there.
func required[T any](o *object, key string, dst *T) {
	if o.err != nil {
		return
	}
	if _, ok := o.members[key]; !ok {
		o.err = fmt.Errorf("%s is missing: it is required", key)
		return
	}
	read(o, key, dst)
}

// optional reads a member that may be missing.
func optional[T any](o *object, key string, dst *T) {
	if o.err != nil || o.members[key] == nil {
		return
	}
	read(o, key, dst)
}

func read[T any](o *object, key string, dst *T) {
	err := json.Unmarshal(o.members[key], dst)
	var misfit *json.UnmarshalTypeError
	switch {
	case errors.As(err, &misfit):
		o.err = fmt.Errorf("%s cannot be a JSON %s", key, misfit.Value)
	case err != nil:
		o.err = fmt.Errorf("%s does not fit the schema: %w", key, err)
	}
}

// lenient reads a member and takes the zero value when it does not fit.
func lenient[T any](o *object, key string, dst *T) {
	raw := o.members[key]
	if o.err != nil || raw == nil {
		return
	}
	if json.Unmarshal(raw, dst) != nil {
		*dst = *new(T)
	}
}

// lenientList reads a list and leaves out the elements that do not fit.
func lenientList[T any](o *object, key string, dst *[]T) {
	var raw []json.RawMessage
	lenient(o, key, &raw)
	for _, r := range raw {
		var v T
		if json.Unmarshal(r, &v) == nil {
			*dst = append(*dst, v)
		}
	}
}

// tagged writes the members of body, and of more, behind the tag. An empty
// value writes no tag.
func tagged(key, value string, body any, more ...any) ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	if value != "" {
		fmt.Fprintf(&out, "%q:%q", key, value)
	}
	for _, part := range append(more, body) {
		b, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		if b = b[1 : len(b)-1]; len(b) == 0 {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(b)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// readTag returns the string member key of an object, "" when it is absent.
func readTag(b []byte, name, key string) (string, error) {
	o := newObject(b, name)
	var tag string
	optional(o, key, &tag)
	return tag, o.err
}

func noVariant(name string) error { return fmt.Errorf("%s has no variant set", name) }

// ConfigOptionChange is the schema's SetSessionConfigOptionRequest, a union
// that nothing but the kind of its value tells apart.
type ConfigOptionChange struct {
	SessionID SessionID
	ConfigID  SessionConfigID
	Value     json.RawMessage
}

// UnmarshalJSON reads a ConfigOptionChange by the schema's rules.
func (v *ConfigOptionChange) UnmarshalJSON(b []byte) error {
	*v = ConfigOptionChange{}
	o := newObject(b, "SetSessionConfigOptionRequest")
	required(o, "sessionId", &v.SessionID)
	required(o, "configId", &v.ConfigID)
	required(o, "value", &v.Value)
	return o.err
}
