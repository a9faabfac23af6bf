package shellscan

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// flag says what keeps a value from being known.
type flag uint16

const (
	fParam  flag = 1 << iota // a parameter other than HOME
	fSubst                   // command substitution
	fProc                    // process substitution
	fArith                   // arithmetic expansion
	fGlob                    // pathname pattern; the pattern itself is known
	fLimit                   // too many words from braces, or bytes bash cannot hold
	fTilde                   // ~user, whose home is not known here; text keeps it
	fFolded                  // a literal here-document stood in a substitution
	fBraced                  // ${HOME}
	fQuoted                  // some part is quoted
	fSplit                   // may become any number of words

	fDynamic = fParam | fSubst | fProc | fArith | fLimit
)

// value is what one word stands for. In text, "*" stands for each part
// that is not known. written is the same with ~ and $HOME left as they
// are; empty when it equals text.
type value struct {
	text    string
	written string
	flags   flag
	node    *syntax.Word // nil for real words
}

// known reports whether text is the very word that bash passes on.
func (v value) known() bool { return v.flags&(fDynamic|fGlob|fTilde) == 0 }

// pattern reports whether text is known but for pathname expansion.
func (v value) pattern() bool { return v.flags&(fDynamic|fTilde) == 0 }

func (v value) asWritten() string {
	if v.written != "" {
		return v.written
	}
	return v.text
}

// resolver turns words of the tree into values. It never changes the tree.
type resolver struct {
	env        Env
	homeKnown  bool // no assignment to HOME in the text
	splitKnown bool // no assignment to IFS in the text
	catShadow  bool // the text defines a function or alias cat
}

// static returns the value of w if the text shows it.
func (r *resolver) static(w *syntax.Word) (string, bool) {
	v := r.word(w)
	return v.text, v.known()
}

// value resolves a word as one word, without brace expansion.
func (r *resolver) word(w *syntax.Word) value {
	if w == nil {
		return value{}
	}
	if len(w.Parts) == 1 {
		if l, ok := w.Parts[0].(*syntax.Lit); ok && plain(l.Value) {
			return value{text: l.Value, node: w}
		}
	}
	b := wordBuilder{r: r}
	b.parts(w.Parts)
	return b.value(w)
}

// plain reports whether a literal is its own value.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\', '~', '*', '?', '[', '{':
			return false
		}
	}
	return true
}

// fields appends the words that w becomes by brace expansion. *budget is
// lowered by what that took; a word that does not fit is dynamic.
func (r *resolver) fields(dst []value, w *syntax.Word, budget *int) []value {
	braces := countBraces(w)
	if braces == 0 {
		return append(dst, r.word(w))
	}
	if braces > maxBraceParts {
		return append(dst, r.unexpanded(w))
	}
	return r.expand(dst, w, budget)
}

// expand appends the words of a brace expansion. It stands apart because
// its loop moves what it captures to the heap.
func (r *resolver) expand(dst []value, w *syntax.Word, budget *int) []value {
	cp := *w
	if !syntax.SplitBraces(&cp) {
		return append(dst, r.word(w))
	}
	start := len(dst)
	for part, err := range expand.BracesSeq(nil, &cp) {
		*budget--
		if err != nil || len(dst)-start >= maxBraces || *budget < 0 {
			return append(dst[:start], r.unexpanded(w))
		}
		v := r.word(part)
		v.node = w
		dst = append(dst, v)
	}
	return dst
}

// unexpanded is the value of a word with too many braces.
func (r *resolver) unexpanded(w *syntax.Word) value {
	v := r.word(w)
	v.text, v.written = "*", ""
	v.flags |= fLimit | fSplit
	return v
}

func countBraces(w *syntax.Word) int {
	n := 0
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			n += strings.Count(l.Value, "{")
		}
	}
	return n
}

// wordBuilder collects a value part by part. mark is set once ~ or $HOME
// was replaced; from then on orig runs beside text.
type wordBuilder struct {
	r     *resolver
	text  []byte
	orig  []byte
	mark  bool
	flags flag
	open  bool // an unquoted [ that a later ] makes a pattern
	first bool // the next literal is at the start of the word
}

func (b *wordBuilder) value(w *syntax.Word) value {
	v := value{text: string(b.text), flags: b.flags, node: w}
	if b.mark {
		v.written = string(b.orig)
	}
	return v
}

func (b *wordBuilder) add(s string) {
	b.text = append(b.text, s...)
	if b.mark {
		b.orig = append(b.orig, s...)
	}
}

func (b *wordBuilder) addByte(c byte) {
	b.text = append(b.text, c)
	if b.mark {
		b.orig = append(b.orig, c)
	}
}

// home adds the home directory, which was written as orig.
func (b *wordBuilder) home(orig string) {
	if !b.mark {
		b.mark = true
		b.orig = append(b.orig, b.text...)
	}
	b.orig = append(b.orig, orig...)
	b.text = append(b.text, b.r.env.Home...)
}

func (b *wordBuilder) dynamic(f flag) {
	b.flags |= f
	if n := len(b.text); n == 0 || b.text[n-1] != '*' {
		b.add("*")
	}
}

func (b *wordBuilder) parts(parts []syntax.WordPart) {
	b.first = true
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.literal(p.Value, i == len(parts)-1)
		case *syntax.SglQuoted:
			b.flags |= fQuoted
			b.single(p)
		case *syntax.DblQuoted:
			b.flags |= fQuoted
			b.double(p.Parts)
		case *syntax.ParamExp:
			b.param(p, false)
		case *syntax.CmdSubst:
			b.subst(p, false)
		case *syntax.ArithmExp:
			b.dynamic(fArith)
		case *syntax.ProcSubst:
			b.dynamic(fProc)
		case *syntax.ExtGlob:
			b.flags |= fGlob
			b.add("*")
		default:
			b.dynamic(fLimit)
		}
		b.first = false
	}
}

// literal adds unquoted text: escapes go, patterns are noted, a tilde at
// the start of the word (or of a value in an assignment) becomes a home.
func (b *wordBuilder) literal(s string, last bool) {
	i := 0
	if b.first {
		i = b.tilde(s, last)
	}
	for i < len(s) {
		switch c := s[i]; c {
		case '\\':
			i++
			if i < len(s) && s[i] != '\n' {
				b.addByte(s[i])
			}
			i++
		case '*', '?':
			b.flags |= fGlob
			b.addByte(c)
			i++
		case '[':
			b.open = true
			b.addByte(c)
			i++
		case ']':
			if b.open {
				b.flags |= fGlob
			}
			b.addByte(c)
			i++
		case '=', ':':
			b.addByte(c)
			i++
			if i < len(s) && s[i] == '~' && assignment(s[:i], c) {
				i += b.tilde(s[i:], last)
			}
		default:
			b.addByte(c)
			i++
		}
	}
}

// assignment reports whether s, which ends in sep, starts a word that bash
// treats like an assignment when it expands tildes.
func assignment(s string, sep byte) bool {
	eq := strings.IndexByte(s, '=')
	if eq <= 0 || sep == '=' && eq != len(s)-1 {
		return false
	}
	for i := 0; i < eq; i++ {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// tilde expands a tilde prefix at the start of s and returns its length.
func (b *wordBuilder) tilde(s string, last bool) int {
	if s == "" || s[0] != '~' {
		return 0
	}
	end := strings.IndexAny(s, "/:")
	if end < 0 {
		if !last {
			b.add("~") // a quote or expansion follows: no tilde prefix
			return 1
		}
		end = len(s)
	}
	name := s[1:end]
	switch {
	case strings.ContainsAny(name, "\\*?[{"):
		return 0
	case name == "":
		b.ownHome("~", false)
	case name == b.r.env.User && b.r.env.Home != "":
		b.home(s[:end])
	case name == "root":
		b.flags |= fTilde
		b.add("~root")
	case name == "+" || name == "-" || name[0] >= '0' && name[0] <= '9':
		b.dynamic(fParam)
	default:
		b.flags |= fTilde
		b.add(s[:end])
	}
	return end
}

// ownHome adds the user's home. Unquoted parameters are split and matched
// as patterns, so an odd home is not known there.
func (b *wordBuilder) ownHome(orig string, split bool) {
	switch {
	case !b.r.homeKnown:
		b.dynamic(fParam)
	case b.r.env.Home == "":
		b.flags |= fTilde
		b.add(orig)
	case split && (!b.r.splitKnown || strings.ContainsAny(b.r.env.Home, " \t\n*?[\\")):
		b.dynamic(fParam | fSplit)
	default:
		b.home(orig)
	}
}

func (b *wordBuilder) param(p *syntax.ParamExp, quoted bool) {
	if p.Param != nil && p.Param.Value == "HOME" && bare(p) {
		orig := "$HOME"
		if !p.Short {
			orig = "${HOME}"
			b.flags |= fBraced
		}
		b.ownHome(orig, !quoted)
		return
	}
	b.dynamic(fParam)
	if !quoted || p.Param != nil && p.Param.Value == "@" || p.Index != nil {
		b.flags |= fSplit
	}
}

// bare reports whether p is ${name} and nothing more.
func bare(p *syntax.ParamExp) bool {
	return p.Flags == nil && !p.Excl && !p.Length && !p.Width && !p.IsSet && p.NestedParam == nil &&
		p.Index == nil && len(p.Modifiers) == 0 && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
}

// double adds the parts of double quotes, or of a here-document, where
// only some characters can be escaped.
func (b *wordBuilder) double(parts []syntax.WordPart) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.escaped(p.Value, "$`\"\\")
		case *syntax.ParamExp:
			b.param(p, true)
		case *syntax.CmdSubst:
			b.subst(p, true)
		case *syntax.ArithmExp:
			b.dynamic(fArith)
		default:
			b.dynamic(fLimit)
		}
	}
}

func (b *wordBuilder) escaped(s, special string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if s[i+1] == '\n' {
				i++
				continue
			}
			if strings.IndexByte(special, s[i+1]) >= 0 {
				i++
			}
		}
		b.addByte(s[i])
	}
}

func (b *wordBuilder) single(q *syntax.SglQuoted) {
	if !q.Dollar {
		b.add(q.Value)
		return
	}
	s, ok := ansiC(q.Value)
	if !ok {
		b.dynamic(fLimit)
		return
	}
	b.add(s)
}

// subst adds a command substitution. One that only repeats a literal
// here-document is that text.
func (b *wordBuilder) subst(c *syntax.CmdSubst, quoted bool) {
	if s, ok := b.r.foldCat(c); ok && (quoted || s != "" && !strings.ContainsAny(s, " \t\n*?[\\")) {
		b.flags |= fFolded
		b.add(s)
		return
	}
	b.dynamic(fSubst)
	if !quoted {
		b.flags |= fSplit
	}
}

// hasBrace reports whether a word may become several by brace expansion.
func hasBrace(w *syntax.Word) bool { return countBraces(w) > 0 }
