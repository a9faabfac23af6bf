package shellscan

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// This file knows the builtins and assignments that evaluate a value a
// second time; see docs/shell.md, "Second evaluations".

// nameOperand checks a word that a builtin takes as the name of a
// variable: an index in it is evaluated as arithmetic.
func (w *walker) nameOperand(v value, pos int) {
	switch {
	case !v.known():
		if v.flags&fDynamic != 0 || strings.IndexByte(v.text, '[') >= 0 {
			w.unresolved("second-evaluation", v.text, pos)
		}
	case strings.IndexByte(v.text, '[') >= 0:
		if strings.ContainsAny(v.text, "$`") {
			w.s.Opaque = true
			w.unresolved("second-evaluation", v.text, pos)
			w.latentWord(v.text)
			return
		}
		_, index, _ := strings.Cut(v.text, "[")
		index = strings.TrimSuffix(index, "]")
		if index != "@" && index != "*" && !digitsOnly(index) && !w.facts.number(index) {
			w.unresolved("second-evaluation", v.text, pos)
		}
	}
}

func (w *walker) testClause(c *syntax.TestClause) {
	w.programs("[[")
	w.cmds++
	w.testExpr(c.X)
}

func (w *walker) testExpr(x syntax.TestExpr) {
	switch x := x.(type) {
	case *syntax.Word:
		w.testWord(x)
	case *syntax.ParenTest:
		w.testExpr(x.X)
	case *syntax.UnaryTest:
		if wd, ok := x.X.(*syntax.Word); ok && (x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar) {
			w.nameOperand(w.r.word(wd), w.pos(wd))
		}
		w.testExpr(x.X)
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			w.testNumber(x.X)
			w.testNumber(x.Y)
		}
		w.testExpr(x.X)
		w.testExpr(x.Y)
	}
}

// testWord reads an operand of [[ ]], where nothing is split or matched
// against files.
func (w *walker) testWord(wd *syntax.Word) {
	w.flags |= w.r.word(wd).flags &^ fGlob
	w.inner(wd)
}

// testNumber reads an operand of -eq and its kin, which is arithmetic.
func (w *walker) testNumber(x syntax.TestExpr) {
	wd, ok := x.(*syntax.Word)
	if !ok {
		return
	}
	for _, p := range wd.Parts {
		if q, ok := p.(*syntax.DblQuoted); ok && len(wd.Parts) == 1 && len(q.Parts) == 1 {
			p = q.Parts[0]
		}
		if pe, ok := p.(*syntax.ParamExp); ok {
			if numeric(pe) || pe.Param != nil && bare(pe) && w.facts.number(pe.Param.Value) {
				continue
			}
		}
		if _, ok := p.(*syntax.ArithmExp); ok {
			continue
		}
		v := w.r.word(wd)
		if v.known() && digitsOnly(v.text) {
			return
		}
		if v.known() && evaluates(v.text) {
			w.s.Opaque = true
		}
		w.unresolved("second-evaluation", w.source(wd), w.pos(wd))
		return
	}
}

func (w *walker) declClause(c *syntax.DeclClause) {
	w.programs(c.Variant.Value)
	w.wrapExec(c)
	integer, ref := false, c.Variant.Value == "nameref"
	for _, a := range c.Args {
		if a.Naked && a.Name == nil && a.Value != nil {
			v := w.r.word(a.Value)
			w.flags |= v.flags
			if strings.HasPrefix(v.text, "-") {
				integer = integer || strings.ContainsRune(v.text, 'i')
				ref = ref || strings.ContainsRune(v.text, 'n')
				continue
			}
			w.nameOperand(v, w.pos(a))
			if name, val, ok := strings.Cut(v.text, "="); ok {
				w.assignment(name, value{text: val, flags: v.flags}, false)
			}
		}
	}
	w.assigns(c.Args, false)
	if ref {
		w.references(c.Args)
	}
	if integer {
		for _, a := range c.Args {
			if a.Value == nil || a.Naked {
				continue
			}
			if v := w.r.word(a.Value); !v.known() || !digitsOnly(v.text) {
				w.unresolved("second-evaluation", w.source(a), w.pos(a))
			}
		}
	}
	w.assignsInner(c.Args)
}

// references checks the names that declare -n gives another name to: using
// the new one evaluates an index in the old one.
func (w *walker) references(list []*syntax.Assign) {
	for _, a := range list {
		if a.Value != nil && a.Name != nil {
			w.nameOperand(w.r.word(a.Value), w.pos(a))
		}
	}
}

func (w *walker) letClause(c *syntax.LetClause) {
	w.programs("let")
	w.cmds++
	for _, x := range c.Exprs {
		w.arithm(x)
	}
}

// assigns notes assignments that make programs or the shell run code.
// prefix tells that they hold for one command only.
func (w *walker) assigns(list []*syntax.Assign, prefix bool) {
	for _, a := range list {
		if a.Name == nil || a.Naked {
			continue
		}
		v := value{}
		if a.Value != nil {
			v = w.r.word(a.Value)
			w.flags |= v.flags &^ fGlob
		}
		w.assignment(a.Name.Value, v, prefix)
	}
}

func (w *walker) assignment(name string, v value, prefix bool) {
	if name == "PS4" && (!v.known() || strings.ContainsAny(v.text, "$`")) {
		w.s.Opaque = true
		w.unresolved("second-evaluation", name+"="+v.text, max(w.at, 0))
	}
	if name == "BASH_ALIASES" {
		w.unresolved("alias", name, max(w.at, 0))
	}
	if carriesCode(name, v) {
		if prefix {
			w.codeNext = true
		} else {
			w.tainted = true
		}
	}
}

// carriesCode reports whether a variable makes programs run other code.
// Pagers and editors that only pass text through do not count.
func carriesCode(name string, v value) bool {
	switch name {
	case "PATH", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "IFS",
		"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT", "NODE_OPTIONS", "NODE_PATH", "PERL5LIB", "PERL5OPT", "PERL5DB",
		"RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH",
		"RUSTC_WRAPPER", "RUSTC", "RUSTC_WORKSPACE_WRAPPER", "MAKEFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "GCONV_PATH",
		"LESSOPEN", "LESSCLOSE", "SUDO_ASKPASS", "SSH_ASKPASS", "GREP_OPTIONS", "TAR_OPTIONS", "RIPGREP_CONFIG_PATH",
		"CC", "CXX", "LD", "AR", "SHELL", "GOFLAGS", "CARGO_BUILD_RUSTC", "npm_config_script_shell", "TERMINFO", "ZDOTDIR", "OPENSSL_CONF", "LUA_INIT", "PHPRC":
		return true
	case "PAGER", "MANPAGER", "GIT_PAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "BROWSER", "SYSTEMD_PAGER":
		if v.known() {
			switch v.text {
			case "", "cat", "true", ":", "less", "more":
				return false
			}
		}
		return true
	case "GIT_TERMINAL_PROMPT", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME",
		"GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE", "GIT_OPTIONAL_LOCKS", "GIT_MERGE_AUTOEDIT", "GIT_TRACE":
		return false
	}
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") || strings.HasPrefix(name, "GIT_") ||
		strings.HasPrefix(name, "BASH_FUNC_") || strings.HasPrefix(name, "CARGO_TARGET_") && strings.HasSuffix(name, "_RUNNER")
}
