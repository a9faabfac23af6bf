package approvals

import (
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// rule is a compiled entry of one list.
type rule struct {
	entry  Entry
	list   string
	source string
	rates  bool

	text textPattern // shell and tool names; folded for shell on deny and escalate
	// normal is the normal form of an exact shell pattern where it differs.
	normal string
	words  []string // exec; and shell exact on allow
	path   pathPattern
	host   hostPattern
	// canon is the pattern in the canonical spelling of the option table,
	// for deny and escalate; canonMore asks for a word behind it.
	canon     []string
	canonFull bool
	canonMore bool
}

// The lists.
const (
	listDeny     = "deny"
	listEscalate = "escalate"
	listAllow    = "allow"
)

func compileRule(e Entry, list, source string) (*rule, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	r := &rule{entry: e, list: list, source: source, rates: list == listAllow && e.Rates()}
	switch e.Type {
	case typeShell:
		r.compileShell()
	case typeTool, typeMCP:
		if e.Matcher != matchHint {
			r.text = compileText(e.Matcher, e.Pattern, false)
		}
	case typeExec:
		r.words, _ = splitWords(e.Pattern) // validated above
		r.canon, r.canonFull = canonicalWords(r.words), e.Matcher == matchExact
	case typeRead, typeWrite:
		r.path = compilePath(e.Matcher, e.Pattern)
	case typeConnect:
		r.host, _ = parseHostPattern(e.Pattern, e.Matcher) // validated above
	}
	return r, nil
}

func (r *rule) compileShell() {
	e := r.entry
	if r.list == listAllow {
		r.text = compileText(e.Matcher, e.Pattern, false)
		if e.Matcher == matchExact {
			r.words = singleWords(e.Pattern)
		}
		return
	}
	r.text = compileText(e.Matcher, e.Pattern, true)
	if e.Matcher == matchExact {
		if n := strings.ToLower(normalForm(e.Pattern)); n != r.text.exact {
			r.normal = n
		}
	}
	r.compileCanon()
}

// compileCanon reads an exact pattern, or a glob whose only star is the last
// character, as the beginning of an argv, so that other spellings of the
// same options match too.
func (r *rule) compileCanon() {
	p := r.entry.Pattern
	switch r.entry.Matcher {
	case matchExact:
		r.canonFull = true
	case matchGlob:
		head, ok := strings.CutSuffix(p, "*")
		if !ok || strings.Contains(head, "*") {
			return
		}
		r.canonMore = strings.HasSuffix(head, " ")
		p = head
	default:
		return
	}
	if words, err := splitWords(p); err == nil {
		r.canon = canonicalWords(words)
	}
}

// answer is what a rule says of a call.
type answer uint8

const (
	answerNo answer = iota
	answerMaybe
	answerYes
)

// forbids is the deny and escalate side: one effect that matches is enough.
func (r *rule) forbids(c *Reading) answer {
	switch r.entry.Type {
	case typeShell:
		if c.subject.Kind == SubjectShell && (r.text.matchesAny(c.texts) || r.normalAny(c) || r.canonicalAny(c)) {
			return answerYes
		}
	case typeTool, typeMCP:
		if r.names(c.subject) {
			return answerYes
		}
	case typeExec:
		return r.forbidsExec(c)
	case typeRead, typeWrite:
		if r.reaches(c) {
			return answerYes
		}
	case typeConnect:
		hit := func(e Effect) bool { return e.Kind == effect.Connect && r.host.matches(e.Host, e.Port, false) }
		if slices.ContainsFunc(c.effects, hit) {
			return answerYes
		}
	}
	return answerNo
}

// names compares a tool entry with the subject of a call.
func (r *rule) names(s Subject) bool {
	e := &r.entry
	switch {
	case string(s.Kind) != e.Type:
		return false
	case e.Type == typeMCP && e.Server != anyServer && e.Server != s.Server:
		return false
	case e.Host != "" && !sameHost(e.Host, s.Host):
		return false
	case e.Matcher != matchHint:
		return r.text.match(s.Name)
	}
	have := annotationsOf(s)
	for name, want := range e.Hints {
		if have.hint(name) != want {
			return false
		}
	}
	return true
}

func sameHost(a, b string) bool {
	canon, ok := canonicalHost(a)
	return b != "" && ok && canon == b
}

func (r *rule) reaches(c *Reading) bool {
	kind := effect.Read
	if r.entry.Type == typeWrite {
		kind = effect.Write
	}
	for i := range c.targets {
		if t := &c.targets[i]; t.effect.Kind == kind && r.path.matchTarget(t, c.sur, false) {
			return true
		}
	}
	return false
}

func (r *rule) forbidsExec(c *Reading) answer {
	out := answerNo
	for i := range c.effects {
		if c.effects[i].Kind == effect.Exec {
			out = max(out, r.forbidsArgv(&c.effects[i]))
		}
	}
	return out
}

// forbidsArgv compares with one command: as written, with each of its
// wrappers as the program, and in canonical spelling. A word that is known
// only at run time is judged then; where that is impossible (arguments that
// arrive on standard input) the answer stays open.
func (r *rule) forbidsArgv(e *Effect) answer {
	full := r.entry.Matcher == matchExact
	for i := 0; i <= len(e.Wrappers); i++ {
		if r.hasPrefix(e.Wrappers[i:], e.Argv) && (!full || len(e.Wrappers)-i+len(e.Argv) == len(r.words)) {
			return answerYes
		}
	}
	if r.canonical(e) {
		return answerYes
	}
	if split := gitCommand(e.Argv); split != nil {
		return r.forbidsArgv(&Effect{Argv: split})
	}
	if readsArguments(e.Wrappers) && r.mayBegin(e.Argv) {
		return answerMaybe
	}
	return answerNo
}

// mayBegin reports whether argv begins with the words of the rule as far as
// it is known.
func (r *rule) mayBegin(argv []Word) bool {
	for i, want := range r.words {
		switch {
		case i == len(argv), !argv[i].Static:
			return true
		case want != argv[i].Text && (i > 0 || want != baseName(argv[0].Text)):
			return false
		}
	}
	return false
}

// gitCommand splits the program git-x into git and x, nil for every other.
func gitCommand(argv []Word) []Word {
	if len(argv) == 0 || !argv[0].Static {
		return nil
	}
	sub, ok := strings.CutPrefix(baseName(argv[0].Text), "git-")
	if !ok {
		return nil
	}
	return append([]Word{{Text: "git", Static: true}, {Text: sub, Static: true}}, argv[1:]...)
}

func readsArguments(wrappers []string) bool {
	return slices.Contains(wrappers, "xargs") || slices.Contains(wrappers, "parallel")
}

// hasPrefix reports whether wrappers and argv together begin with the words
// of the rule; programs compare by base name.
func (r *rule) hasPrefix(wrappers []string, argv []Word) bool {
	if len(r.words) > len(wrappers)+len(argv) {
		return false
	}
	for i, want := range r.words {
		switch {
		case i < len(wrappers):
			if want != baseName(wrappers[i]) && want != wrappers[i] {
				return false
			}
		case !argv[i-len(wrappers)].Static:
			return false
		case i == len(wrappers):
			if text := argv[0].Text; want != text && want != baseName(text) {
				return false
			}
		case want != argv[i-len(wrappers)].Text:
			return false
		}
	}
	return true
}

func sameWords(argv []Word, words []string) bool {
	for i, w := range argv {
		if !w.Static || (w.Text != words[i] && (i > 0 || baseName(w.Text) != words[0])) {
			return false
		}
	}
	return true
}

func baseName(program string) string { return program[strings.LastIndexByte(program, '/')+1:] }

func (r *rule) normalAny(c *Reading) bool {
	return r.normal != "" && slices.ContainsFunc(c.texts, func(t foldedText) bool { return t.lower == r.normal })
}

func (r *rule) canonicalAny(c *Reading) bool {
	if r.canon == nil {
		return false
	}
	return slices.ContainsFunc(c.effects, func(e Effect) bool { return e.Kind == effect.Exec && r.canonical(&e) })
}

// canonical compares in the spelling of the option table: the operands of
// the rule have to come first and in order, its options somewhere.
func (r *rule) canonical(e *Effect) bool {
	if r.canon == nil || e.Canonical == nil || r.canon[0] != e.Canonical[0] {
		return false
	}
	wantOps, wantOpts := splitOptions(r.canon[1:])
	ops, opts := splitOptions(e.Canonical[1:])
	if len(wantOps) > len(ops) || !slices.Equal(wantOps, ops[:len(wantOps)]) {
		return false
	}
	for _, o := range wantOpts {
		if !slices.Contains(opts, o) {
			return false
		}
	}
	extra := len(ops) + len(opts) - len(wantOps) - len(wantOpts)
	return (!r.canonFull || extra == 0) && (!r.canonMore || extra > 0)
}

func splitOptions(words []string) (operands, options []string) {
	for _, w := range words {
		if len(w) > 1 && w[0] == '-' {
			options = append(options, w)
		} else {
			operands = append(operands, w)
		}
	}
	return operands, options
}

// match describes the rule for verdicts and records.
func (r *rule) match() *RuleMatch {
	return &RuleMatch{List: r.list, Entry: r.entry, Source: r.source, Rate: r.rates}
}
