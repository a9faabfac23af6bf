package shellscan

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// inner reads the commands within a word: substitutions, and whatever
// stands in expansions and arithmetic.
func (w *walker) inner(wd *syntax.Word) {
	if wd == nil {
		return
	}
	for _, p := range wd.Parts {
		w.innerPart(p, false)
	}
}

func (w *walker) innerPart(p syntax.WordPart, quoted bool) {
	switch p := p.(type) {
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			w.innerPart(q, true)
		}
	case *syntax.CmdSubst:
		if p.TempFile || p.ReplyVar {
			w.unresolved("unknown-syntax", w.source(p), w.pos(p))
		}
		if _, ok := w.r.foldCat(p); ok {
			w.programs("cat")
			return
		}
		w.subshell(p.Stmts)
	case *syntax.ProcSubst:
		w.subshell(p.Stmts)
	case *syntax.ArithmExp:
		w.arithm(p.X)
	case *syntax.ParamExp:
		w.innerParam(p, quoted)
	case *syntax.ExtGlob:
		if strings.ContainsAny(p.Pattern.Value, "$`") {
			w.unresolved("pattern-expansion", w.source(p), w.pos(p))
		}
	}
}

// subshell reads commands whose output or input is part of the command
// that is being read.
func (w *walker) subshell(list []*syntax.Stmt) {
	keep, dirs := w.flow, w.dirs
	w.flow.held = true
	wraps := w.wraps
	w.wraps = nil
	w.stmts(list)
	w.wraps = wraps
	w.flow, w.dirs = keep, dirs
}

func (w *walker) innerParam(p *syntax.ParamExp, quoted bool) {
	if p.Excl && p.Names == 0 {
		w.unresolved("indirect-parameter", w.source(p), w.pos(p))
	}
	if p.Index != nil {
		w.subscript(p.Index)
	}
	if p.Slice != nil {
		w.arithm(p.Slice.Offset)
		w.arithm(p.Slice.Length)
	}
	if p.Repl != nil {
		w.expansionWord(p.Repl.Orig, quoted)
		w.expansionWord(p.Repl.With, quoted)
	}
	if p.Exp != nil {
		if p.Exp.Op == syntax.OtherParamOps && p.Exp.Word != nil && p.Exp.Word.Lit() == "P" {
			w.secondEval("prompt-expansion", w.source(p), w.pos(p))
		}
		w.expansionWord(p.Exp.Word, quoted)
	}
	if p.NestedParam != nil {
		w.innerPart(p.NestedParam, quoted)
	}
}

// expansionWord reads the word of ${x-word}. Within double quotes bash
// and the parser disagree about the quotes in it.
func (w *walker) expansionWord(wd *syntax.Word, quoted bool) {
	if wd == nil {
		return
	}
	if quoted {
		for _, p := range wd.Parts {
			w.quoteInQuotes(p)
		}
	}
	for _, p := range wd.Parts {
		w.innerPart(p, quoted)
	}
}

func (w *walker) quoteInQuotes(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.SglQuoted:
		w.hiding("quote-in-expansion", w.source(p), w.pos(p))
		w.hidden(p.Value)
	case *syntax.Lit:
		if strings.IndexByte(p.Value, '\'') >= 0 {
			w.hiding("quote-in-expansion", p.Value, w.pos(p))
		}
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			w.quoteInQuotes(q)
		}
	}
}

// hidden reads text that the parser took for quoted and bash expands, so
// that the commands in it are judged with the rest.
func (w *walker) hidden(text string) {
	if strings.IndexByte(text, '$') < 0 && strings.IndexByte(text, '`') < 0 {
		return
	}
	if w.depth >= maxDepth || len(text) > w.nested || deepest(text) > maxOpen {
		w.unresolved("nested-too-deep", text, max(w.at, 0))
		return
	}
	w.nested -= len(text)
	p := parsers.Get().(*syntax.Parser)
	doc, err := p.Document(strings.NewReader(text))
	parsers.Put(p)
	if err != nil {
		w.unresolved("nested-syntax", text, max(w.at, 0))
		return
	}
	keepText, keepAt := w.text, w.at
	w.at, w.text = max(w.at, 0), text
	w.depth++
	w.inner(doc)
	w.depth--
	w.text, w.at = keepText, keepAt
}

// redirectInner reads the commands within redirections.
func (w *walker) redirectInner(list []*syntax.Redirect) {
	for _, rd := range list {
		w.inner(rd.Word)
		if rd.Hdoc != nil && !quotedWord(rd.Word) {
			for _, p := range rd.Hdoc.Parts {
				w.innerPart(p, true)
			}
		}
	}
}

func (w *walker) assignsInner(list []*syntax.Assign) {
	for _, a := range list {
		w.inner(a.Value)
		if a.Index != nil {
			w.subscript(a.Index)
		}
		if a.Array != nil {
			for _, e := range a.Array.Elems {
				if e.Index != nil {
					w.subscript(e.Index)
				}
				w.plainWord(e.Value)
			}
		}
	}
}

// arithm reads an arithmetic expression. Bash evaluates the value of each
// name in it again, so every name must be known to hold a number.
func (w *walker) arithm(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryArithm:
		if assigns(x.Op) {
			if wd, ok := x.X.(*syntax.Word); ok && wd.Lit() != "" && !strings.ContainsAny(wd.Lit(), "[$") {
				if x.Op != syntax.Assgn {
					w.operand(wd)
				}
				w.arithm(x.Y)
				return
			}
		}
		w.arithm(x.X)
		w.arithm(x.Y)
	case *syntax.UnaryArithm:
		w.arithm(x.X)
	case *syntax.ParenArithm:
		w.arithm(x.X)
	case *syntax.FlagsArithm:
		w.arithm(x.X)
	case *syntax.Word:
		w.operand(x)
	}
}

func assigns(op syntax.BinAritOperator) bool {
	switch op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
		syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		return true
	}
	return false
}

// subscript reads an array index, where a bare key may be a string.
func (w *walker) subscript(x syntax.ArithmExpr) {
	if wd, ok := x.(*syntax.Word); ok {
		if l := wd.Lit(); l == "@" || l == "*" {
			return
		}
	}
	w.arithm(x)
}

// operand reads one word of an arithmetic expression.
func (w *walker) operand(wd *syntax.Word) {
	for _, p := range wd.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			w.arithmName(p.Value, wd)
		case *syntax.ParamExp:
			w.flags |= fArith
			if !numeric(p) {
				name := ""
				if p.Param != nil && bare(p) {
					name = p.Param.Value
				}
				if name == "" || !w.facts.number(name) {
					w.evalName(name, wd)
				}
			}
		case *syntax.SglQuoted:
			w.hiding("quote-in-arithmetic", w.source(p), w.pos(p))
			w.hidden(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				w.quoteInQuotes(q)
				if pe, ok := q.(*syntax.ParamExp); ok && !numeric(pe) {
					w.evalName("", wd)
				}
			}
		case *syntax.CmdSubst:
			// Its output is evaluated as arithmetic in turn.
			w.unresolved("second-evaluation", w.source(wd), w.pos(wd))
		}
		w.innerPart(p, true)
	}
}

// arithmName checks the names in literal arithmetic text.
func (w *walker) arithmName(s string, wd *syntax.Word) {
	i := 0
	for i < len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			for i < len(s) && (wordByte(s[i]) || s[i] == '#') {
				i++
			}
		case wordByte(c) && c != '-':
			j := i
			for j < len(s) && wordByte(s[j]) && s[j] != '-' {
				j++
			}
			if !w.facts.number(s[i:j]) {
				w.evalName(s[i:j], wd)
			}
			i = j
		default:
			i++
		}
	}
}

// evalName notes that the value of a name is evaluated as code.
func (w *walker) evalName(name string, wd *syntax.Word) {
	if name != "" && w.facts.hostile[name] != "" {
		w.s.Opaque = true
	}
	w.unresolved("second-evaluation", w.source(wd), w.pos(wd))
}

// secondEval notes a place where bash evaluates a value again.
func (w *walker) secondEval(_, text string, pos int) {
	w.unresolved("second-evaluation", text, pos)
}

// numeric reports whether an expansion is always a number.
func numeric(p *syntax.ParamExp) bool {
	if p.Length {
		return true
	}
	if p.Param == nil || !bare(p) {
		return false
	}
	switch p.Param.Value {
	case "#", "?", "$", "!", "RANDOM", "SECONDS", "LINENO", "BASHPID", "PPID", "UID", "EUID", "SRANDOM", "EPOCHSECONDS", "OPTIND", "SHLVL", "COLUMNS", "LINES":
		return true
	}
	return false
}
