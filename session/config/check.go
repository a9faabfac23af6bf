package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/gth-server/gth-server/approvals"
)

const (
	maxBrackets = 20_000 // a file with more nests too deep or is not ours
	maxProblems = 50     // reported of one file
)

// checker validates one file against the table and turns it into a tree.
type checker struct {
	file     string // as shown in errors
	src      []byte
	dir      string // where relative paths start
	home     string // what ~/ stands for, perhaps empty
	lines    []int  // offsets of line starts
	problems []problem
}

// problem is one error and the offset that it is about.
type problem struct {
	offset int
	text   string
}

// parse reads c.src as strict JSONC of the shape s. at names the value in
// errors. The tree is nil unless everything is valid.
func (c *checker) parse(s *spec, at string) (*tree, error) {
	file, src := c.file, c.src
	if i := invalidUTF8(src); i >= 0 {
		c.problem(i, "the text is not UTF-8: save the file as UTF-8")
		return nil, c.err()
	}
	if n := bytes.Count(src, []byte("{")) + bytes.Count(src, []byte("[")); n > maxBrackets {
		return nil, fmt.Errorf("%s: the file has %d opening brackets and may have %d: make it smaller", file, n, maxBrackets)
	}
	c.src = bytes.TrimPrefix(src, []byte("\ufeff"))
	v, err := hujson.Parse(c.src)
	if err != nil {
		return nil, c.syntax(err)
	}
	t := c.check(&v, s, at)
	if err := c.err(); err != nil {
		return nil, err
	}
	return t, nil
}

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

var (
	syntaxPlace = regexp.MustCompile(`^hujson: line (\d+), column (\d+): (.*)`)
	quotesText  = regexp.MustCompile(`(?s)^(invalid literal): .*`)
)

// syntax words an error of the parser without repeating text of the file.
func (c *checker) syntax(err error) error {
	m := syntaxPlace.FindStringSubmatch(err.Error())
	if m == nil {
		return fmt.Errorf("%s: the file is not valid JSONC: check quotes, commas and brackets", c.file)
	}
	return fmt.Errorf("%s:%s:%s: the file is not valid JSONC: %s", c.file, m[1], m[2], quotesText.ReplaceAllString(m[3], "$1"))
}

func (c *checker) err() error {
	slices.SortStableFunc(c.problems, func(a, b problem) int { return a.offset - b.offset })
	var errs []error
	for i, p := range c.problems {
		if i == maxProblems {
			errs = append(errs, fmt.Errorf("%s: and %d more errors", c.file, len(c.problems)-i))
			break
		}
		line := c.line(p.offset)
		col := 1 + utf8.RuneCount(c.src[c.lines[line-1]:p.offset])
		errs = append(errs, fmt.Errorf("%s:%d:%d: %s", c.file, line, col, p.text))
	}
	return errors.Join(errs...)
}

func (c *checker) problem(offset int, format string, args ...any) {
	c.problems = append(c.problems, problem{offset, fmt.Sprintf(format, args...)})
}

// line returns the number of the line that holds offset.
func (c *checker) line(offset int) int {
	if c.lines == nil {
		c.lines = []int{0}
		for i, b := range c.src {
			if b == '\n' {
				c.lines = append(c.lines, i+1)
			}
		}
	}
	i, found := slices.BinarySearch(c.lines, offset)
	if found {
		i++
	}
	return i
}

func (c *checker) source(offset int) string {
	return c.file + ":" + strconv.Itoa(c.line(offset))
}

// check validates v and returns its tree. After a problem the tree may be
// incomplete.
func (c *checker) check(v *hujson.Value, s *spec, at string) *tree {
	if s.kind == kindUnion {
		for _, a := range s.alts {
			if jsonKinds[v.Value.Kind()] == shape(a.kind) {
				return c.check(v, a, at)
			}
		}
		return c.wrongType(v, s, at)
	}
	if s.kind == kindEntry {
		return c.entry(v, s, at)
	}
	if jsonKinds[v.Value.Kind()] != shape(s.kind) {
		return c.wrongType(v, s, at)
	}
	t := &tree{source: c.source(v.StartOffset)}
	switch val := v.Value.(type) {
	case *hujson.Object:
		c.object(val, s, at, t)
		if s.kind == kindObject {
			c.wholeObject(v, s, at, t)
		}
	case *hujson.Array:
		t.list = []*tree{}
		for i := range val.Elements {
			t.list = append(t.list, c.check(&val.Elements[i], s.elem, fmt.Sprintf("%s[%d]", at, i)))
		}
	case hujson.Literal:
		t.raw = string(val)
		c.literal(v, val, s, at, t)
	}
	return t
}

// jsonKinds maps the parser's kinds to words; shape maps ours to the same.
var jsonKinds = map[hujson.Kind]string{
	'n': "null", 'f': "true or false", 't': "true or false", '"': "a string", '0': "a number", '{': "an object", '[': "a list",
}

func shape(k kind) string {
	if k == kindInt {
		return kindNouns[kindNumber]
	}
	return kindNouns[k]
}

func (c *checker) wrongType(v *hujson.Value, s *spec, at string) *tree {
	what := s.wrongType
	if what == "" {
		what = fmt.Sprintf("must be %s, not %s", s.describe(), jsonKinds[v.Value.Kind()])
	}
	c.problem(v.StartOffset, "%s %s", pathName(at), what)
	return nil
}

func pathName(at string) string {
	if at == "" {
		return "the file"
	}
	return at
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

func (c *checker) object(o *hujson.Object, s *spec, at string, t *tree) {
	t.keys = map[string]*tree{}
	for key, m := range c.members(o, at) {
		value := s.elem
		if s.kind != kindMap {
			if value = s.field(key); value == nil {
				c.unknown(m.Name.StartOffset, key, s, at)
				continue
			}
		} else if s.badKey != nil {
			if bad := s.badKey(key); bad != "" {
				c.problem(m.Name.StartOffset, "%s: %s", pathName(at), bad)
				continue
			}
		}
		if sub := c.check(&m.Value, value, join(at, key)); sub != nil {
			t.keys[key] = sub
		}
	}
}

// members yields the members in order and reports repeated keys.
func (c *checker) members(o *hujson.Object, at string) func(func(string, *hujson.ObjectMember) bool) {
	return func(yield func(string, *hujson.ObjectMember) bool) {
		first := map[string]int{}
		for i := range o.Members {
			m := &o.Members[i]
			key := literalText(m.Name.Value)
			if line, ok := first[key]; ok {
				c.problem(m.Name.StartOffset, "key %s in %s is written twice, first at line %d: keep one", shown(key), objectName(at), line)
				continue
			}
			first[key] = c.line(m.Name.StartOffset)
			if !yield(key, m) {
				return
			}
		}
	}
}

func literalText(v hujson.ValueTrimmed) string {
	if lit, ok := v.(hujson.Literal); ok && lit.Kind() == '"' {
		return lit.String()
	}
	return ""
}

// shown quotes a key, cut to a length that fits a message.
func shown(key string) string {
	const most = 60
	if r := []rune(key); len(r) > most {
		return strconv.Quote(string(r[:most])) + "…"
	}
	return strconv.Quote(key)
}

func objectName(at string) string {
	if at == "" {
		return "the top level"
	}
	return at
}

func (c *checker) unknown(offset int, key string, s *spec, at string) {
	if why, ok := s.retired[key]; ok {
		c.problem(offset, "%s %s", join(at, key), why)
		return
	}
	in := "in " + at
	if at == "" {
		in = "at the top level"
	}
	if near := nearest(key, s.names()); near != "" && !s.closed {
		c.problem(offset, "unknown key %s %s: did you mean %q?", shown(key), in, near)
		return
	}
	c.problem(offset, "unknown key %s %s: use %s", shown(key), in, orList(s.names()))
}

// wholeObject checks what concerns several keys.
func (c *checker) wholeObject(v *hujson.Value, s *spec, at string, t *tree) {
	before := len(c.problems)
	for _, key := range s.required {
		if t.keys[key] == nil && !c.stated(v, key) {
			c.problem(v.StartOffset, "%s needs %s: %s", pathName(at), key, strings.ToLower(s.field(key).doc[:1])+s.field(key).doc[1:])
		}
	}
	if s.accept != nil && before == len(c.problems) {
		if bad := s.accept(t); bad != "" {
			c.problem(v.StartOffset, "%s %s", pathName(at), bad)
		}
	}
}

func (c *checker) stated(v *hujson.Value, key string) bool {
	o, ok := v.Value.(*hujson.Object)
	return ok && slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool { return literalText(m.Name.Value) == key })
}

func (c *checker) literal(v *hujson.Value, lit hujson.Literal, s *spec, at string, t *tree) {
	bad := ""
	switch s.kind {
	case kindString:
		t.text = lit.String()
		if bad = s.badText(t.text); bad == "" && s.path {
			bad = c.resolve(t)
		}
	case kindInt:
		n, err := strconv.ParseInt(string(lit), 10, 64)
		if err != nil || float64(n) < s.min || float64(n) > s.max {
			bad = fmt.Sprintf("must be a whole number from %.0f to %.0f", s.min, s.max)
		}
	case kindNumber:
		if n, err := strconv.ParseFloat(string(lit), 64); err != nil || n < s.min || n > s.max {
			bad = fmt.Sprintf("must be a number from %v to %v", s.min, s.max)
		}
	}
	if bad != "" {
		c.problem(v.StartOffset, "%s %s", pathName(at), bad)
	}
}

// resolve makes a path absolute.
func (c *checker) resolve(t *tree) string {
	switch rest, ok := strings.CutPrefix(t.text, "~/"); {
	case ok && c.home == "":
		return "starts with ~/ and HOME is not set: write the full path"
	case ok:
		t.setText(filepath.Join(c.home, rest))
	case !filepath.IsAbs(t.text):
		t.setText(filepath.Join(c.dir, t.text))
	}
	return ""
}

// badText says what is wrong with a string, or returns "".
func (s *spec) badText(text string) string {
	if why, ok := s.renamed[text]; ok {
		return fmt.Sprintf("%q %s", text, why)
	}
	if len(s.enum) > 0 && !slices.Contains(s.enum, text) {
		if near := nearest(text, s.enum); near != "" {
			return fmt.Sprintf("%s is unknown: did you mean %q?", shown(text), near)
		}
		return fmt.Sprintf("%s is unknown: use %s", shown(text), orList(s.enum))
	}
	if s.pattern != "" && !regexp.MustCompile(`^(?:`+s.pattern+`)$`).MatchString(text) {
		return "must be " + s.mustBe
	}
	if s.test != nil {
		return s.test(text)
	}
	return ""
}

// entry checks the keys of a rule here, where their place is known, and
// leaves the grammar to approvals.
func (c *checker) entry(v *hujson.Value, s *spec, at string) *tree {
	before := len(c.problems)
	o, _ := v.Value.(*hujson.Object)
	places := map[string]int{}
	if o != nil {
		for key, m := range c.members(o, at) {
			places[key] = m.Value.StartOffset
			if s.field(key) == nil {
				c.unknown(m.Name.StartOffset, key, s, at)
			}
		}
	}
	if len(c.problems) > before {
		return nil
	}
	plain := v.Clone()
	plain.BeforeExtra, plain.AfterExtra = nil, nil
	plain.Standardize()
	t := &tree{source: c.source(v.StartOffset), raw: string(bytes.TrimSpace(plain.Pack()))}
	if err := checkEntry(t.raw); err != nil {
		offset := v.StartOffset
		var f *approvals.FieldError
		if errors.As(err, &f) {
			if at, ok := places[f.Field]; ok {
				offset = at
			}
			err = f
		}
		c.problem(offset, "%s: %v", at, err)
		return nil
	}
	return t
}

// checkEntry decodes and compiles one rule.
func checkEntry(raw string) error {
	var e approvals.Entry
	if err := json.Unmarshal([]byte(raw), &e); err != nil {
		return err
	}
	_, err := approvals.Compile(approvals.Rules{Deny: []approvals.SourcedEntry{{Entry: e}}})
	return err
}
