package approvals

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const maxArgumentDepth = 64

var errNotObject = errors.New("arguments are not one JSON object: send a single object such as {\"path\": \"a.txt\"}")

// CanonicalArguments returns args as one JSON object with sorted keys and no
// insignificant space; numbers keep their digits. It is an error when args
// is not exactly one object, repeats a key or holds text that is not UTF-8:
// readers of such text would differ about what it says.
func CanonicalArguments(args json.RawMessage) (json.RawMessage, error) {
	trimmed := bytes.TrimSpace(args)
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, errNotObject
	}
	if !utf8.Valid(trimmed) {
		return nil, errors.New("arguments are not valid UTF-8: send them again")
	}
	if halfCharacter(trimmed) {
		return nil, errors.New("arguments hold half of a character (a lone surrogate escape): send them again")
	}
	dec := json.NewDecoder(bytes.NewReader(trimmed))
	dec.UseNumber()
	var out bytes.Buffer
	if err := canonicalValue(dec, &out, 0); err != nil {
		return nil, fmt.Errorf("arguments are no valid JSON object: %w: send them again", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errNotObject
	}
	return out.Bytes(), nil
}

// halfCharacter reports whether an escape names one half of a surrogate pair
// without the other. Readers put different characters in its place.
func halfCharacter(b []byte) bool {
	escape := func(i int) rune {
		if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(b[i+2:i+6]), 16, 32)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		r := escape(i)
		if !utf16.IsSurrogate(r) {
			i++ // also skips an escaped backslash
			continue
		}
		if utf16.DecodeRune(r, escape(i+6)) == utf8.RuneError {
			return true
		}
		i += 11
	}
	return false
}

func canonicalValue(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	if depth > maxArgumentDepth {
		return fmt.Errorf("nested deeper than %d", maxArgumentDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	switch x := tok.(type) {
	case json.Delim:
		if x == '{' {
			return canonicalObject(dec, out, depth)
		}
		return canonicalArray(dec, out, depth)
	case string:
		out.WriteString(quoted(x))
	case json.Number:
		out.WriteString(x.String())
	case bool:
		fmt.Fprint(out, x)
	default:
		out.WriteString("null")
	}
	return nil
}

func canonicalObject(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	members := map[string]string{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		key := fmt.Sprint(tok)
		if _, ok := members[key]; ok {
			return fmt.Errorf("key %q is repeated", key)
		}
		var v bytes.Buffer
		if err := canonicalValue(dec, &v, depth+1); err != nil {
			return err
		}
		members[key] = v.String()
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	keys := make([]string, 0, len(members))
	for k := range members {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(quoted(k) + ":" + members[k])
	}
	out.WriteByte('}')
	return nil
}

func canonicalArray(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	out.WriteByte('[')
	for i := 0; dec.More(); i++ {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := canonicalValue(dec, out, depth+1); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	_, err := dec.Token()
	return err
}

// digestOf identifies what will run. Parts carry their length, so no two
// calls share a digest by moving text from one part to the next.
func digestOf(c Call, cwd string) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(c.Tool), []byte(c.Server), []byte(c.Name), c.Arguments, []byte(cwd)} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}
