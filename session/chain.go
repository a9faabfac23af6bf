package session

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// linkVersion is the version of the chain that this build writes and the
// newest that it verifies. The rules of a version never change.
const linkVersion = 1

// linkKeySize is the length in bytes of a record's random key.
const linkKeySize = 32

// Link chains a decision or an answer to the one before it, see
// docs/sessions.md. Every field of the record has a salted digest; Head
// covers these, the record's number, time and turn, and Prev. A full link
// holds the key that the salts come from; Redact replaces it by the salts
// of the fields that stay and the digests of those that do not.
type Link struct {
	V       int               `json:"v"`
	Prev    string            `json:"prev,omitempty"` // head before, empty in the first link
	Head    string            `json:"head"`
	Key     []byte            `json:"key,omitempty"`
	Salts   map[string][]byte `json:"salts,omitempty"`
	Digests map[string][]byte `json:"digests,omitempty"`
}

// ErrBroken is a chain whose records are not those that were written.
var ErrBroken = errors.New("the chain of decisions is broken")

// Verify checks the chain of a session's decisions and answers in a whole
// log, redacted or not. It returns the head and the number of links; the
// error names the first record that does not fit and is ErrBroken, or
// ErrNewer when only a newer version can tell.
func Verify(records []Record) (head string, n int, err error) {
	for i, r := range records {
		if i > 0 && r.Seq <= records[i-1].Seq {
			return head, n, fmt.Errorf("record %d follows record %d: %w", r.Seq, records[i-1].Seq, ErrBroken)
		}
		link, chained := linkOf(r.Event)
		if end, ok := r.Event.(TurnEnded); ok && end.Head != head {
			return head, n, fmt.Errorf("record %d, the end of a turn: a decision before it is missing or was added: %w", r.Seq, ErrBroken)
		}
		if !chained {
			continue
		}
		if link == nil {
			return head, n, fmt.Errorf("record %d, %s: it has no link: %w", r.Seq, tagOf(r.Event), ErrBroken)
		}
		if link.Prev != head {
			return head, n, fmt.Errorf("record %d, %s: it does not follow the decision before it: %w", r.Seq, tagOf(r.Event), ErrBroken)
		}
		got, err := headOf(r, *link)
		if err != nil {
			return head, n, fmt.Errorf("record %d, %s: %w", r.Seq, tagOf(r.Event), err)
		}
		if got != link.Head {
			return head, n, fmt.Errorf("record %d, %s: its fields are not those that were written: %w", r.Seq, tagOf(r.Event), ErrBroken)
		}
		head = got
		n++
	}
	return head, n, nil
}

// Redact returns a copy of a decision or answer without the named fields,
// written as "tool" or "subject.command". Verify still holds for it. Only
// fields that can be empty can be redacted.
func Redact(r Record, names ...string) (Record, error) {
	link, _ := linkOf(r.Event)
	if link == nil {
		return Record{}, fmt.Errorf("redact record %d: it is no decision or answer with a link", r.Seq)
	}
	have, err := fieldsOf(r.Event)
	if err != nil {
		return Record{}, fmt.Errorf("redact record %d: %w", r.Seq, err)
	}
	next := Link{V: link.V, Prev: link.Prev, Head: link.Head, Salts: map[string][]byte{}, Digests: maps.Clone(link.Digests)}
	if next.Digests == nil {
		next.Digests = map[string][]byte{}
	}
	for name, value := range have {
		salt := saltOf(*link, name)
		switch {
		case salt == nil: // redacted before
		case slices.Contains(names, name):
			next.Digests[name] = digestOf(salt, name, value)
		default:
			next.Salts[name] = salt
		}
	}
	ev, err := without(r.Event, names)
	if err != nil {
		return Record{}, fmt.Errorf("redact record %d: %w", r.Seq, err)
	}
	left, err := fieldsOf(ev)
	if err != nil {
		return Record{}, fmt.Errorf("redact record %d: %w", r.Seq, err)
	}
	for _, name := range names {
		if v, ok := left[name]; ok && !blank(v) {
			return Record{}, fmt.Errorf("redact record %d: the field %q cannot be empty: keep it, or leave the record out", r.Seq, name)
		}
	}
	r.Event = withLink(ev, &next)
	return r, nil
}

// chain returns ev with its link, and the head behind it. Events that are
// not chained pass; the end of a turn gets the head.
func chain(r Record, head string, key []byte) (Event, string, error) {
	if end, ok := r.Event.(TurnEnded); ok {
		end.Head = head
		return end, head, nil
	}
	if _, chained := linkOf(r.Event); !chained {
		return r.Event, head, nil
	}
	link := Link{V: linkVersion, Prev: head, Key: key}
	var err error
	if link.Head, err = headOf(r, link); err != nil {
		return nil, head, err
	}
	return withLink(r.Event, &link), link.Head, nil
}

// headOf computes the head that a record with this link should have.
func headOf(r Record, link Link) (string, error) {
	switch {
	case link.V > linkVersion:
		return "", fmt.Errorf("its link has version %d, and this build reads up to %d: %w: update gth-server", link.V, linkVersion, ErrNewer)
	case link.V < 1:
		return "", fmt.Errorf("its link has no version: %w", ErrBroken)
	case link.Key != nil && len(link.Key) != linkKeySize:
		return "", fmt.Errorf("the key of its link has %d bytes: %w", len(link.Key), ErrBroken)
	}
	have, err := fieldsOf(r.Event)
	if err != nil {
		return "", err
	}
	digests := map[string][]byte{}
	for name, value := range have {
		if salt := saltOf(link, name); salt != nil {
			digests[name] = digestOf(salt, name, value)
		} else if link.Digests[name] == nil || !blank(value) {
			return "", fmt.Errorf("its field %q is not covered: %w", name, ErrBroken)
		}
	}
	for name, d := range link.Digests {
		if digests[name] == nil {
			digests[name] = d
		}
	}
	h := sha256.New()
	part := func(b []byte) {
		h.Write(binary.AppendUvarint(nil, uint64(len(b))))
		h.Write(b)
	}
	for _, s := range []string{"gth-server decisions", fmt.Sprint(link.V), link.Prev, tagOf(r.Event), fmt.Sprint(r.Seq), r.At.UTC().Format(time.RFC3339Nano), r.Turn} {
		part([]byte(s))
	}
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		part([]byte(name))
		part(digests[name])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// saltOf returns the salt of a field: derived from the record's key, so
// that one salt says nothing of another. Nil for a redacted field.
func saltOf(link Link, name string) []byte {
	if link.Key == nil {
		return link.Salts[name]
	}
	m := hmac.New(sha256.New, link.Key)
	m.Write([]byte(name))
	return m.Sum(nil)
}

func digestOf(salt []byte, name string, value []byte) []byte {
	m := hmac.New(sha256.New, salt)
	m.Write(binary.AppendUvarint(nil, uint64(len(name))))
	m.Write([]byte(name))
	m.Write(value)
	return m.Sum(nil)
}

// fieldsOf lists what a chained event says as JSON values: its fields, and
// one level down those of fields that are objects. The event goes through
// its encoding first, so that what was read back gives the same values.
func fieldsOf(ev Event) (map[string]json.RawMessage, error) {
	ev = withLink(ev, nil)
	first, err := marshal(ev)
	if err != nil {
		return nil, err
	}
	if ev, err = storedKinds[reflect.TypeOf(ev)].decode(first); err != nil {
		return nil, err
	}
	again, err := marshal(ev)
	if err != nil {
		return nil, err
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(again, &top); err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	for name, value := range top {
		var inner map[string]json.RawMessage
		if value[0] != '{' || json.Unmarshal(value, &inner) != nil || len(inner) == 0 {
			fields[name] = value
			continue
		}
		for below, v := range inner {
			fields[name+"."+below] = v
		}
	}
	return fields, nil
}

// without returns a copy of ev that lacks the named fields.
func without(ev Event, names []string) (Event, error) {
	b, err := marshal(withLink(ev, nil))
	if err != nil {
		return nil, err
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(b, &top); err != nil {
		return nil, err
	}
	for _, name := range names {
		outer, below, nested := strings.Cut(name, ".")
		if !nested {
			delete(top, name)
			continue
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(top[outer], &inner) != nil {
			continue
		}
		delete(inner, below)
		if top[outer], err = marshal(inner); err != nil {
			return nil, err
		}
	}
	if b, err = marshal(top); err != nil {
		return nil, err
	}
	return storedKinds[reflect.TypeOf(ev)].decode(b)
}

func blank(v json.RawMessage) bool {
	switch string(bytes.TrimSpace(v)) {
	case "", `""`, "null", "[]", "{}":
		return true
	}
	return false
}

func tagOf(ev Event) string { return storedKinds[reflect.TypeOf(ev)].tag }

// linkOf returns an event's link, and whether its kind is chained.
func linkOf(ev Event) (*Link, bool) {
	switch e := ev.(type) {
	case Decided:
		return e.Link, true
	case Answered:
		return e.Link, true
	}
	return nil, false
}

func withLink(ev Event, l *Link) Event {
	switch e := ev.(type) {
	case Decided:
		e.Link = l
		return e
	case Answered:
		e.Link = l
		return e
	}
	return ev
}
