package approvals

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Entry is one rule of a list as a person writes it; see docs/rules.md.
// Exactly one of Pattern and Hints is set.
type Entry struct {
	Type    string          // shell, tool, mcpTool; exec, read, write, connect
	Matcher string          // exact, glob, regexp, hint, prefix
	Server  string          // mcpTool only; "*" is every server
	Pattern string          // all matchers but hint
	Hints   map[string]bool // matcher hint
	Host    string          // tool and mcpTool only
	Rate    *bool           // nil is the default of the type and matcher
}

// The words of the grammar.
const (
	typeShell   = "shell"
	typeTool    = "tool"
	typeMCP     = "mcpTool"
	typeExec    = "exec"
	typeRead    = "read"
	typeWrite   = "write"
	typeConnect = "connect"

	matchExact  = "exact"
	matchGlob   = "glob"
	matchRegexp = "regexp"
	matchHint   = "hint"
	matchPrefix = "prefix"

	anyServer      = "*"
	maxRegexpChars = 200
)

// entryType says what an entry of a type may hold.
type entryType struct {
	matchers     []string
	server, host bool
}

var (
	entryTypeNames = []string{typeShell, typeTool, typeMCP, typeExec, typeRead, typeWrite, typeConnect}
	entryTypes     = map[string]entryType{
		typeShell:   {matchers: []string{matchExact, matchGlob, matchRegexp}},
		typeTool:    {matchers: []string{matchExact, matchGlob, matchRegexp, matchHint}, host: true},
		typeMCP:     {matchers: []string{matchExact, matchGlob, matchRegexp, matchHint}, host: true, server: true},
		typeExec:    {matchers: []string{matchPrefix, matchExact}},
		typeRead:    {matchers: []string{matchExact, matchGlob}},
		typeWrite:   {matchers: []string{matchExact, matchGlob}},
		typeConnect: {matchers: []string{matchExact, matchGlob}},
	}
	hintNames = []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
)

// FieldError says which field of an entry breaks the grammar, and how to
// write it instead.
type FieldError struct {
	Field  string // empty when the entry as a whole is wrong
	Reason string
}

// Error returns "field: reason", or the reason alone.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return fmt.Sprintf("field %q: %s", e.Field, e.Reason)
}

func fieldErr(field, format string, args ...any) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// Rates reports whether a match of e on an allow list is still rated at a
// rated rung. An exact shell entry shows the whole command, so it is not.
func (e Entry) Rates() bool {
	if e.Rate != nil {
		return *e.Rate
	}
	return e.Type != typeShell || e.Matcher != matchExact
}

// Validate checks e against the grammar. The error is a [*FieldError].
func (e Entry) Validate() error {
	spec, ok := entryTypes[e.Type]
	if !ok {
		return fieldErr("type", "%q is unknown: use one of %s", e.Type, strings.Join(entryTypeNames, ", "))
	}
	if !slices.Contains(spec.matchers, e.Matcher) {
		return fieldErr("matcher", "%q does not exist for type %s: use one of %s", e.Matcher, e.Type, strings.Join(spec.matchers, ", "))
	}
	if spec.server && e.Server == "" {
		return fieldErr("server", "is required for type %s: name the server, or \"*\" for every server", e.Type)
	}
	if !spec.server && e.Server != "" {
		return fieldErr("server", "belongs to type mcpTool only: remove it")
	}
	if !spec.host && e.Host != "" {
		return fieldErr("host", "belongs to types tool and mcpTool only: remove it, or add a connect entry")
	}
	if e.Matcher == matchHint {
		return e.validateHints()
	}
	return e.validatePattern()
}

func (e Entry) validateHints() error {
	if e.Pattern != "" {
		return fieldErr("pattern", "must be an object of hints when matcher is hint")
	}
	if len(e.Hints) == 0 {
		return fieldErr("pattern", "needs at least one hint, such as {\"readOnlyHint\": true}")
	}
	for name := range e.Hints {
		if !slices.Contains(hintNames, name) {
			return fieldErr("pattern", "hint %q is unknown: use one of %s", name, strings.Join(hintNames, ", "))
		}
	}
	return nil
}

func (e Entry) validatePattern() error {
	if len(e.Hints) > 0 {
		return fieldErr("pattern", "must be a string unless matcher is hint")
	}
	if e.Pattern == "" {
		return fieldErr("pattern", "is empty: write what the entry should match")
	}
	switch {
	case e.Matcher == matchRegexp:
		return checkRegexp(e.Pattern)
	case e.Type == typeExec:
		_, err := splitWords(e.Pattern)
		return err
	case e.Type == typeRead, e.Type == typeWrite:
		return checkPathPattern(e.Pattern, e.Matcher)
	case e.Type == typeConnect:
		_, err := parseHostPattern(e.Pattern, e.Matcher)
		return err
	}
	return nil
}

func checkRegexp(pattern string) error {
	if n := len([]rune(pattern)); n > maxRegexpChars {
		return fieldErr("pattern", "has %d characters, at most %d are allowed: split it into several entries", n, maxRegexpChars)
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return fieldErr("pattern", "%q does not compile (RE2 has no look-around and no back-references): %v", pattern, err)
	}
	return nil
}

func checkPathPattern(pattern, matcher string) error {
	if strings.ContainsRune(pattern, 0) {
		return fieldErr("pattern", "holds a NUL byte, which no path can: remove it")
	}
	if matcher == matchGlob && !doublestar.ValidatePattern(pattern) {
		return fieldErr("pattern", "%q is no valid glob: close every [ and {", pattern)
	}
	if slices.Contains(strings.Split(pattern, "/"), "..") {
		return fieldErr("pattern", "%q goes up with ..: write the absolute path instead", pattern)
	}
	return nil
}
