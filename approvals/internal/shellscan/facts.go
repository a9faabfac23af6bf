package shellscan

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// facts are true of a text as a whole and gathered before it is walked.
type facts struct {
	chdir   bool              // changes directory somewhere
	funcs   map[string]bool   // functions that it defines
	numbers map[string]bool   // names that only ever hold numbers
	hostile map[string]string // names with an assigned value that would run code when evaluated
	aliases bool              // aliases are switched on
}

func (f *facts) number(name string) bool { return f.numbers[name] }

// prepare gathers the facts of a tree. Most texts need no look at all.
func (w *walker) prepare(f *syntax.File) {
	if !needsFacts(w.text) {
		return
	}
	g := gatherer{f: &w.facts, r: w.r, other: map[string]bool{}}
	syntax.Walk(f, func(n syntax.Node) bool {
		g.node(n)
		return true
	})
	for n := range g.other {
		delete(w.facts.numbers, n)
	}
	if w.facts.chdir && len(w.facts.funcs) > 0 {
		w.dirs = nil // a function may change directory wherever it is called
	}
	if w.facts.aliases {
		w.unresolved("alias", "", 0)
	}
}

var factWords = []string{"HOME", "IFS", "cd", "pushd", "popd", "()", "function", "((", "$[", "let", "-eq", "-ne", "-lt", "-gt", "-le", "-ge", "alias", "cat", "BASH_ALIASES", "["}

func needsFacts(text string) bool {
	for _, s := range factWords {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

type gatherer struct {
	f     *facts
	r     *resolver
	other map[string]bool
}

func (g *gatherer) node(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.FuncDecl:
		if n.Name != nil {
			if g.f.funcs == nil {
				g.f.funcs = map[string]bool{}
			}
			g.f.funcs[n.Name.Value] = true
			g.r.catShadow = g.r.catShadow || n.Name.Value == "cat"
		}
	case *syntax.CallExpr:
		for _, a := range n.Assigns {
			g.assign(a)
		}
		g.call(n)
	case *syntax.DeclClause:
		for _, a := range n.Args {
			g.assign(a)
		}
	case *syntax.WordIter:
		g.name(n.Name.Value)
		all := len(n.Items) > 0
		for _, it := range n.Items {
			all = all && digitsOnly(g.r.word(it).text)
		}
		g.set(n.Name.Value, all)
	case *syntax.BinaryArithm:
		if wd, ok := n.X.(*syntax.Word); ok && assigns(n.Op) {
			g.name(wd.Lit())
			g.set(wd.Lit(), true)
		}
	case *syntax.UnaryArithm:
		if wd, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.Inc || n.Op == syntax.Dec) {
			g.name(wd.Lit())
		}
	}
}

func (g *gatherer) assign(a *syntax.Assign) {
	if a.Name == nil {
		if a.Value != nil {
			g.word(a.Value)
		}
		return
	}
	name := a.Name.Value
	g.name(name)
	if a.Naked {
		return
	}
	if a.Value == nil || a.Array != nil || a.Append {
		g.set(name, false)
		return
	}
	v := g.r.word(a.Value)
	g.set(name, v.known() && digitsOnly(v.text) || arithOnly(a.Value))
	if v.known() && evaluates(v.text) {
		if g.f.hostile == nil {
			g.f.hostile = map[string]string{}
		}
		g.f.hostile[name] = v.text
	}
}

// evaluates reports whether a value runs code when bash evaluates it as
// arithmetic or as the name of an array element.
func evaluates(s string) bool {
	return strings.IndexByte(s, '[') >= 0 && (strings.Contains(s, "$") || strings.Contains(s, "`"))
}

func (g *gatherer) set(name string, number bool) {
	if !number {
		g.other[name] = true
		return
	}
	if g.f.numbers == nil {
		g.f.numbers = map[string]bool{}
	}
	g.f.numbers[name] = true
}

// name notes that a variable is assigned.
func (g *gatherer) name(name string) {
	switch name {
	case "HOME":
		g.r.homeKnown = false
	case "IFS":
		g.r.splitKnown = false
	case "CDPATH":
		g.f.chdir = true
	}
}

// word notes names that a builtin may assign.
func (g *gatherer) word(wd *syntax.Word) {
	v := g.r.word(wd)
	if !strings.HasPrefix(v.text, "HOME") && !strings.HasPrefix(v.text, "IFS") {
		return
	}
	name, _, _ := strings.Cut(v.text, "=")
	g.name(strings.TrimSuffix(name, "+"))
}

func (g *gatherer) call(c *syntax.CallExpr) {
	for i, a := range c.Args {
		g.word(a)
		if i > 8 && i < len(c.Args)-8 {
			continue
		}
		switch l := a.Lit(); l {
		case "cd", "pushd", "popd":
			g.f.chdir = true
		case "expand_aliases":
			g.f.aliases = true
		case "read", "mapfile", "readarray", "getopts":
			if i == 0 {
				g.reads(c.Args[1:])
			}
		}
	}
	if len(c.Args) > 1 && c.Args[0].Lit() == "alias" && strings.HasPrefix(c.Args[1].Lit(), "cat") {
		g.r.catShadow = true
	}
	if len(c.Args) > 2 && c.Args[0].Lit() == "set" {
		for _, a := range c.Args[1:] {
			if a.Lit() == "posix" {
				g.f.aliases = true
			}
		}
	}
}

func (g *gatherer) reads(args []*syntax.Word) {
	for _, a := range args {
		if l := a.Lit(); l != "" && l[0] != '-' {
			g.set(l, false)
		}
	}
}

func arithOnly(wd *syntax.Word) bool {
	if len(wd.Parts) != 1 {
		return false
	}
	switch p := wd.Parts[0].(type) {
	case *syntax.ArithmExp:
		return true
	case *syntax.ParamExp:
		return numeric(p)
	}
	return false
}

func digitsOnly(s string) bool {
	s = strings.TrimPrefix(s, "-")
	if s == "" {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// changesDir reports whether a tree changes the directory.
func changesDir(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok {
			for _, a := range c.Args {
				switch a.Lit() {
				case "cd", "pushd", "popd":
					found = true
				}
			}
		}
		return !found
	})
	return found
}
