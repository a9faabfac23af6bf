package shellscan

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// Env holds facts of the session that words depend on. Empty fields mean
// unknown. Home and Cwd are absolute and cleaned.
type Env struct {
	Home string // value of ~ and $HOME
	User string // login name, for ~user
	Cwd  string // directory in which the command starts
	// RealPath returns a path without symlinks. Nil means that none are
	// followed.
	RealPath func(string) string
}

// Scan is what one text would do. It is immutable after Parse and safe for
// concurrent use; callers must not change its slices.
type Scan struct {
	// Unreadable says why there is no tree; all other fields are then empty.
	Unreadable string
	// Effects are in text order, outer commands before inner ones.
	Effects []effect.Effect
	// Static: every word of every simple command is known from the text.
	Static bool
	// Single: static, and exactly one simple command without redirect,
	// subshell or substitution.
	Single bool
	// Opaque: code runs that the text does not show.
	Opaque bool
	// Dynamic names the kinds of parts that keep the text from being
	// static (param, cmdsubst, procsubst, arith, glob, …), each once.
	Dynamic []string
	// Unresolved lists the parts of which not even the meaning is known;
	// no allow rule may match a text that has one.
	Unresolved []effect.Mechanism
	// Hiding lists the parts that another reader of the text may read
	// differently; such a text is never rated and never remembered.
	Hiding []effect.Mechanism

	Programs []string // programs that run, wrappers peeled; "?" when not static
	Wrappers []string // the wrappers peeled off
	Writes   []string // paths written, as written, "*" for dynamic parts
	Reads    []string // paths read by redirections and known operands
	Hosts    []string // hosts contacted, canonical, without port

	// Floor is the family that refuses the text, nil when there is none.
	Floor *effect.Floor

	// Canonical and Words are the print and the argv of a Single command:
	// two commands share them only if bash runs the same thing for both.
	// Words is nil when assignments stand before the command or a home
	// directory is not known.
	Canonical string
	Words     []string

	// EnvLeak lists the variables that are expanded into an argument of a
	// script; not empty means that the preflight script-env-leak fires.
	EnvLeak []string
	// OpenWorld lists the host literals in the text as written; not empty
	// means that the preflight open-world fires.
	OpenWorld []string

	file  *syntax.File // nil for ParseArgv and unreadable text
	text  string       // the text that file's positions refer to
	words resolver     // how this text's words are valued
}

// Parse scans the text of a command. The result is never nil.
func Parse(text string, env Env) (s *Scan) {
	defer failClosed(&s)
	s = &Scan{words: resolver{env: env, homeKnown: true, splitKnown: true}}
	text = trimBreaks(text)
	if why := refuseText(text); why != "" {
		s.Unreadable = why
		return s
	}
	file, text, err := parseText(text)
	if err != nil {
		s.Unreadable = syntaxReason(err)
		return s
	}
	s.file, s.text = file, text
	w := newWalker(s, text)
	w.rawHiding(text)
	w.controls(text)
	w.prepare(file)
	w.stmts(file.Stmts)
	w.finish()
	s.single(file, w)
	return s
}

// ParseArgv scans one command given as real words, as a guard sees it at
// run time. Every word is static; no word is expanded again.
func ParseArgv(argv []string, env Env) (s *Scan) {
	defer failClosed(&s)
	s = &Scan{words: resolver{env: env, homeKnown: true, splitKnown: true}}
	if len(argv) == 0 {
		s.Unreadable = "the command is empty"
		return s
	}
	vals := make([]value, len(argv))
	for i, a := range argv {
		vals[i] = value{text: a}
	}
	w := newWalker(s, "")
	w.at = 0
	w.simple(&simpleCmd{args: vals})
	w.finish()
	s.Single = true
	s.Words = argv
	return s
}

const scannerFailed = "the scanner failed on this text"

// failClosed turns a fault of the scanner into a text that nobody can read:
// it is refused, and the process goes on.
func failClosed(s **Scan) {
	if fault := recover(); fault != nil {
		*s = &Scan{Unreadable: fmt.Sprintf("%s (%v): write the command differently", scannerFailed, fault)}
	}
}

// finish fills the fields that need the whole text.
func (w *walker) finish() {
	s := w.s
	s.Static = w.flags&(fDynamic|fGlob|fFolded|fControl) == 0 && !slices.Contains(s.Programs, "?")
	s.Dynamic = dynamicKinds(w.flags)
	w.reevaluated()
	w.piped()
	s.Floor = w.floor()
	w.preflights()
}

var kindNames = []struct {
	flag flag
	name string
}{
	{fParam, "param"},
	{fSubst | fFolded, "cmdsubst"},
	{fProc, "procsubst"},
	{fArith, "arith"},
	{fGlob, "glob"},
	{fLimit, "limit"},
	{fControl, "control-char"},
}

func dynamicKinds(f flag) []string {
	var out []string
	for _, k := range kindNames {
		if f&k.flag != 0 {
			out = append(out, k.name)
		}
	}
	return out
}

// single fills Single, Canonical and Words.
func (s *Scan) single(file *syntax.File, w *walker) {
	const other = fDynamic | fGlob | fFolded | fBraced
	if len(file.Stmts) != 1 || w.flags&other != 0 || len(s.Hiding) > 0 {
		return
	}
	st := file.Stmts[0]
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || st.Background || st.Coprocess || st.Disown || len(st.Redirs) > 0 || len(call.Args) == 0 {
		return
	}
	budget := maxExpand
	words := make([]string, 0, len(call.Args))
	plainText := len(call.Assigns) == 0
	var vals []value
	for _, a := range call.Args {
		vals = s.words.fields(vals[:0], a, &budget)
		for _, v := range vals {
			words = append(words, v.text)
		}
		plainText = plainText && a.Lit() != "" && a.Lit() == words[len(words)-1]
	}
	// The printer changes these in assignments, so there is no canonical text.
	if strings.HasPrefix(words[0], "-") || len(call.Assigns) > 0 && strings.ContainsAny(s.text, "\f\v") {
		return
	}
	s.Single = true
	if len(call.Assigns) == 0 && w.flags&fTilde == 0 {
		s.Words = words
	}
	if plainText {
		s.Canonical = strings.Join(words, " ")
		return
	}
	s.Canonical, s.Single = canonicalText(call, words)
}

// canonicalText prints a simple command. The printer changes some control
// characters, so a command that has them is spelled word by word.
func canonicalText(call *syntax.CallExpr, words []string) (string, bool) {
	for _, w := range words {
		if strings.ContainsAny(w, "\f\v") || !utf8.ValidString(w) {
			return quoteWords(call, words)
		}
	}
	var b strings.Builder
	if err := syntax.NewPrinter().Print(&b, call); err != nil {
		return "", false
	}
	return b.String(), true
}

func quoteWords(call *syntax.CallExpr, words []string) (string, bool) {
	if len(call.Assigns) > 0 {
		return "", false
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		q, err := syntax.Quote(w, syntax.LangBash)
		if err != nil {
			return "", false
		}
		quoted[i] = q
	}
	return strings.Join(quoted, " "), true
}
