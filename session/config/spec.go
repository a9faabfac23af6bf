package config

import "strings"

// kind is the shape of a JSON value.
type kind uint8

const (
	kindObject kind = iota + 1 // fixed keys
	kindMap                    // any keys, one spec for all values
	kindList
	kindString
	kindInt
	kindNumber
	kindBool
	kindEntry // a rule; approvals knows its grammar
	kindUnion // one of several specs of different JSON types
)

var kindNouns = map[kind]string{
	kindObject: "an object", kindMap: "an object", kindList: "a list", kindString: "a string",
	kindInt: "a whole number", kindNumber: "a number", kindBool: "true or false", kindEntry: "an object",
}

// spec describes the values of a key: what is valid, and what documentation
// and schema say about it. Validation and schema read the same specs.
type spec struct {
	kind kind
	noun string // for errors, instead of the kind's
	doc  string

	fields   []field           // kindObject, kindEntry
	required []string          // kindObject, kindEntry
	retired  map[string]string // kindObject: former keys and what to use instead
	closed   bool              // kindObject: an unknown key is answered with all keys
	elem     *spec             // kindMap, kindList
	badKey   func(string) string
	alts     []*spec // kindUnion

	enum     []string          // kindString
	renamed  map[string]string // kindString: former values and what to use instead
	pattern  string            // kindString: RE2, must match the whole text
	mustBe   string            // kindString: what pattern and test stand for
	test     func(string) string
	path     bool    // kindString: made absolute
	min, max float64 // kindInt, kindNumber
	fallback any     // shown as the default

	// accept looks at a valid object as a whole and returns what is wrong.
	accept func(*tree) string
	// wrongType replaces the message for a value of another JSON type.
	wrongType string
}

// field is one key of an object.
type field struct {
	name string
	spec *spec
}

func (s *spec) field(name string) *spec {
	for _, f := range s.fields {
		if f.name == name {
			return f.spec
		}
	}
	return nil
}

func (s *spec) names() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

// describe names the values that s accepts.
func (s *spec) describe() string {
	if s.noun != "" {
		return s.noun
	}
	if s.kind != kindUnion {
		return kindNouns[s.kind]
	}
	var nouns []string
	for _, a := range s.alts {
		nouns = append(nouns, a.describe())
	}
	return orList(nouns)
}

// orList joins words: "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// nearest returns the candidate that a typing error would turn into got, or
// "" when none is close.
func nearest(got string, candidates []string) string {
	best, least := "", 1+max(1, len(got)/3)
	low := strings.ToLower(got)
	for _, c := range candidates {
		if d := distance(low, strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	if best != "" || len(got) < 3 {
		return best
	}
	for _, c := range candidates {
		if strings.Contains(strings.ToLower(c), low) || len(c) > 3 && strings.Contains(low, strings.ToLower(c)) {
			return c
		}
	}
	return ""
}

// distance counts insertions, deletions, substitutions and swaps of
// neighbours between a and b. Long texts are far from everything.
func distance(a, b string) int {
	const most = 64
	if len(a) > most || len(b) > most {
		return most
	}
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			same := 1
			if x[i-1] == y[j-1] {
				same = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(x)][len(y)]
}
