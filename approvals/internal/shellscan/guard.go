package shellscan

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// guarder rewrites a copy of a tree so that what is known only at run time
// goes through the guards. docs/shell.md, "Guards", has the rules.
type guarder struct {
	opts  PrintOptions
	words *resolver
	depth int  // scripts within scripts
	count int  // guards placed
	read  *int // bytes of scripts within scripts so far
	moves bool // relative paths may lie elsewhere than the text shows
	// settled tells that relative paths are taken as the text shows them.
	settled bool
}

// rewrite places the guards in tree. The error names what cannot be guarded
// or what would weaken the guards.
func (g *guarder) rewrite(tree *syntax.File) error {
	var stmts []*syntax.Stmt
	var redirs []*syntax.Redirect
	var err error
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case nil:
			return true
		case *syntax.Stmt:
			stmts = append(stmts, n)
		case *syntax.Redirect:
			redirs = append(redirs, n)
		}
		if err == nil {
			err = g.refuseNode(n)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	g.moves = !g.settled && (g.moves || g.opts.Function != "" && g.changesPlace(stmts))
	for _, st := range stmts {
		if err := g.stmt(st); err != nil {
			return err
		}
	}
	for _, r := range redirs {
		if err := g.redirect(r); err != nil {
			return err
		}
	}
	return nil
}

// stmt guards the command of a statement, if it is a simple one.
func (g *guarder) stmt(st *syntax.Stmt) error {
	switch cmd := st.Cmd.(type) {
	case *syntax.DeclClause:
		return g.declare(cmd)
	case *syntax.CallExpr:
		if len(cmd.Args) == 0 {
			return nil
		}
		return g.call(st, cmd)
	}
	return nil
}

// guardArg is a word of a simple command as far as the text shows it.
type guardArg struct {
	text  string
	known bool // text is exactly the word, and one word
	lead  bool // text starts as the word does, whatever follows
	tame  bool // what is not known are numbers that bash counts itself
}

func (g *guarder) args(words []*syntax.Word) []guardArg {
	out := make([]guardArg, len(words))
	for i, w := range words {
		out[i] = g.arg(w)
	}
	return out
}

// arg is stricter than static: a home directory, a pattern and a brace
// expansion are given to the checker as bash sees them.
func (g *guarder) arg(w *syntax.Word) guardArg {
	v := g.words.word(w)
	a := guardArg{text: v.text, known: v.known() && v.written == "", tame: counts(w)}
	if a.known && hasBrace(w) {
		cp := *w
		syntax.SplitBraces(&cp)
		a.known = !slices.ContainsFunc(cp.Parts, func(p syntax.WordPart) bool {
			_, ok := p.(*syntax.BraceExp)
			return ok
		})
	}
	for _, p := range w.Parts {
		if q, ok := p.(*syntax.DblQuoted); ok && q.Dollar {
			a.known = false // a catalogue of the locale may translate it
		}
	}
	switch p := w.Parts[0].(type) {
	case *syntax.Lit:
		a.lead = p.Value != "" && plain(p.Value[:1])
	case *syntax.SglQuoted:
		a.lead = !p.Dollar && p.Value != ""
	case *syntax.DblQuoted:
		if len(p.Parts) > 0 {
			_, a.lead = p.Parts[0].(*syntax.Lit)
		}
	}
	a.lead = a.lead || a.known
	return a
}

// counts reports whether w is nothing but a process id, a status or a count:
// digits, which are neither a path nor an option.
func counts(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	p, ok := w.Parts[0].(*syntax.ParamExp)
	if q, quoted := w.Parts[0].(*syntax.DblQuoted); quoted && len(q.Parts) == 1 {
		p, ok = q.Parts[0].(*syntax.ParamExp)
	}
	return ok && p.Param != nil && bare(p) && strings.Contains("$?#", p.Param.Value)
}

func allTame(args []guardArg) bool {
	for _, a := range args {
		if !a.known && !a.tame {
			return false
		}
	}
	return true
}

func allKnown(args []guardArg) bool {
	for _, a := range args {
		if !a.known {
			return false
		}
	}
	return true
}

func (g *guarder) call(st *syntax.Stmt, c *syntax.CallExpr) error {
	args := g.args(c.Args)
	if !args[0].known {
		return g.through(st, c)
	}
	if err := g.refuseTampering(args); err != nil {
		return err
	}
	name := args[0].text
	if guardScope[name] {
		return g.scopeBuiltin(c, args)
	}
	if done, err := g.nestedShell(st, c, args); err != nil || done {
		return err
	}
	if allKnown(args) && g.moves && g.placed(args) {
		return g.through(st, c)
	}
	if allKnown(args) || guardOwn[name] || !g.guards(name) || allTame(args) && !g.named(name) {
		return nil
	}
	return g.through(st, c)
}

// guardOwn touch nothing but the shell itself, and would touch the wrong
// scope inside the guard function.
var guardOwn = guardSet(`: alias break caller continue declare enable exit
	export false getopts hash let local mapfile readarray readonly return set
	shift shopt true typeset unalias unset`)

// guards reports whether a program is guarded when a word is not known.
func (g *guarder) guards(program string) bool {
	return guardCarriers[path.Base(program)] || sensitive(program) || g.named(program)
}

// named reports whether the rules name a program.
func (g *guarder) named(program string) bool {
	return g.opts.Guard != nil && (g.opts.Guard(program) || g.opts.Guard(path.Base(program)))
}

// through puts the guard function before the words of c. Assignments and
// redirects stay: they hold for a function as for a program.
func (g *guarder) through(st *syntax.Stmt, c *syntax.CallExpr) error {
	name, err := g.guard(g.opts.Function)
	if err != nil {
		return err
	}
	if st.Background {
		name += "_x"
	}
	c.Args = append([]*syntax.Word{litWord(name)}, c.Args...)
	return nil
}

func (g *guarder) guard(name string) (string, error) {
	if name == "" {
		return "", errors.New("a part of it is known only at run time and there is no guard for it")
	}
	g.count++
	return name, nil
}

// changesPlace reports whether a script may change its directory, or make a
// link: then relative paths mean what only the running script knows.
func (g *guarder) changesPlace(stmts []*syntax.Stmt) bool {
	for _, st := range stmts {
		c, ok := stmtCall(st)
		if !ok {
			continue
		}
		a := g.arg(c.Args[0])
		if !a.known {
			return true
		}
		switch path.Base(a.text) {
		case "cd", "pushd", "popd", "eval", "source", ".", "builtin", "command", "ln":
			return true
		}
	}
	return false
}

// placed reports whether a command that is known word by word changes files
// under a relative path.
func (g *guarder) placed(args []guardArg) bool {
	for i, a := range args {
		if changer(a.text) || g.named(a.text) {
			return slices.ContainsFunc(args[i+1:], func(o guardArg) bool { return relative(o.text) })
		}
		if wrappers[baseName(args[0].text)] == nil {
			return false
		}
	}
	return false
}

// changer reports whether it is a program's business to change files.
func changer(program string) bool {
	p := lookup(baseName(program))
	if p == nil {
		return false
	}
	switch p.role {
	case opWrite, opRemove, opChange, opCopy, opMove, opWriteLast, opWriteRest:
		return true
	}
	return p.extra == spFind || p.extra == spDD || p.extra == spSed
}

// relative reports whether a word may be a path that depends on the
// directory. A dash can start an option that holds one.
func relative(word string) bool {
	return word != "" && word[0] != '/' && (word[0] != '-' || strings.ContainsAny(word, "=/."))
}

// guardScope run text or change the shell where they stand, so that they
// cannot run inside a function.
var guardScope = map[string]bool{"eval": true, "source": true, ".": true, "trap": true}

// scopeBuiltin guards eval, source and trap. A literal script is guarded in
// place; else the real words come back from the guard, quoted, and eval runs
// them in the scope they stand in.
func (g *guarder) scopeBuiltin(c *syntax.CallExpr, args []guardArg) error {
	if !allKnown(args) {
		if sub := substitutes(c.Args); sub && args[0].text != "eval" && args[0].text != "trap" {
			return nil // code from a process has no name to judge
		} else if sub {
			return fmt.Errorf("%s with a process substitution: write the script to a file", args[0].text)
		}
		name, err := g.guard(g.opts.Function)
		if err != nil {
			return err
		}
		inner := &syntax.CallExpr{Args: append([]*syntax.Word{litWord(name + "_q")}, c.Args...)}
		c.Args = []*syntax.Word{litWord("eval"), substWord(inner)}
		return nil
	}
	first := 1
	if len(args) > 1 && args[1].text == "--" {
		first = 2
	}
	if len(args) <= first {
		return nil
	}
	switch args[0].text {
	case "eval":
		texts := make([]string, 0, len(args))
		for _, a := range args[first:] {
			texts = append(texts, a.text)
		}
		text, err := g.nested("eval", strings.Join(texts, " "))
		if err != nil {
			return err
		}
		c.Args = append(c.Args[:first:first], quotedWordOf(text))
	case "trap":
		if t := args[first].text; t == "" || strings.HasPrefix(t, "-") || len(args) == first+1 {
			return nil // resets, lists or ignores
		}
		text, err := g.nested("trap", args[first].text)
		if err != nil {
			return err
		}
		c.Args[first] = quotedWordOf(text)
	}
	return nil
}

// substitutes reports whether a word is a process substitution, whose
// descriptor would be gone once a guard repeats its name.
func substitutes(words []*syntax.Word) bool {
	for _, w := range words {
		for _, p := range w.Parts {
			if _, ok := p.(*syntax.ProcSubst); ok {
				return true
			}
		}
	}
	return false
}

// nested guards a script that runs in the same shell.
func (g *guarder) nested(what, text string) (string, error) {
	file, err := g.parseNested(what, text)
	if err != nil {
		return "", err
	}
	in := *g
	in.depth++
	out, err := in.script(file)
	if err != nil {
		return "", fmt.Errorf("in the script of %s: %w", what, err)
	}
	g.count = in.count
	if strings.TrimSpace(out) == "" {
		return ":", nil
	}
	return out, nil
}

func (g *guarder) parseNested(what, text string) (*syntax.File, error) {
	if g.depth >= maxDepth {
		return nil, fmt.Errorf("the script of %s lies more than %d scripts deep: flatten it", what, maxDepth)
	}
	if *g.read += len(text); *g.read > maxNested {
		return nil, fmt.Errorf("the scripts within the script are longer than %d bytes together: put them into files", maxNested)
	}
	if why := refuseText(text); why != "" {
		return nil, fmt.Errorf("the script of %s: %s", what, why)
	}
	file, err := parseTree(text)
	if err != nil {
		return nil, fmt.Errorf("the script of %s: %s", what, syntaxReason(err))
	}
	return file, nil
}

// redirect guards a target that is not known. Here-documents and strings
// have none, and a process substitution is no path.
func (g *guarder) redirect(r *syntax.Redirect) error {
	mode := ""
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return nil
	case syntax.RdrIn:
		mode = "read"
	case syntax.DplIn, syntax.DplOut:
		mode = "dup"
	default:
		mode = "write"
	}
	if a := g.arg(r.Word); a.known && !(g.moves && mode != "dup" && relative(a.text)) {
		return nil
	}
	for _, p := range r.Word.Parts {
		if _, ok := p.(*syntax.ProcSubst); ok {
			if len(r.Word.Parts) == 1 {
				return nil
			}
			return errors.New("a redirect target mixes a process substitution with text: write the target alone")
		}
	}
	name, err := g.guard(g.opts.Redirect)
	if err != nil {
		return err
	}
	r.Word = substWord(&syntax.CallExpr{Args: []*syntax.Word{litWord(name), litWord(mode), r.Word}})
	return nil
}

func litWord(s string) *syntax.Word {
	return &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: s}}}
}

// substWord returns "$(c)".
func substWord(c *syntax.CallExpr) *syntax.Word {
	return &syntax.Word{Parts: []syntax.WordPart{&syntax.DblQuoted{Parts: []syntax.WordPart{
		&syntax.CmdSubst{Stmts: []*syntax.Stmt{{Cmd: c}}},
	}}}}
}

// quotedWordOf returns a word whose value is text.
func quotedWordOf(text string) *syntax.Word {
	w := &syntax.Word{}
	for i, part := range strings.Split(text, "'") {
		if i > 0 {
			w.Parts = append(w.Parts, &syntax.Lit{Value: `\'`})
		}
		if part != "" {
			w.Parts = append(w.Parts, &syntax.SglQuoted{Value: part})
		}
	}
	if len(w.Parts) == 0 {
		w.Parts = []syntax.WordPart{&syntax.SglQuoted{}}
	}
	return w
}
