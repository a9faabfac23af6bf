package shellscan

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// refuseNode refuses constructs that bash reads in another way than the
// tree says, or that run code where no guard can stand.
func (g *guarder) refuseNode(n syntax.Node) error {
	switch n := n.(type) {
	case *syntax.FuncDecl:
		if n.Name == nil {
			return errors.New("a function without a name: give it one")
		}
		if n.Name.Value == "builtin" || g.isGuardName(n.Name.Value) {
			return fmt.Errorf("it defines a function named %s, which the guards rely on: choose another name", n.Name.Value)
		}
	case *syntax.TimeClause:
		if call, ok := stmtCall(n.Stmt); ok && strings.HasPrefix(g.arg(call.Args[0]).text, "-") {
			return errors.New("a dash after time, which bash does not take for a program: leave it out")
		}
	case *syntax.Assign:
		if n.Name != nil && (n.Name.Value == "PS4" || n.Name.Value == "BASH_XTRACEFD") {
			return fmt.Errorf("it sets %s, which is expanded or used while the guards run: leave it out", n.Name.Value)
		}
	case *syntax.DblQuoted:
		return refuseQuotes(n.Parts)
	case *syntax.Redirect:
		if n.Hdoc != nil && !quotedWord(n.Word) {
			return refuseQuotes(n.Hdoc.Parts)
		}
	case *syntax.ArithmExp:
		return refuseArithm(n.X)
	case *syntax.ArithmCmd:
		return refuseArithm(n.X)
	case *syntax.ParamExp:
		if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps && n.Exp.Word != nil && n.Exp.Word.Lit() == "P" {
			return errors.New("${…@P} runs code that the text does not show: leave it out")
		}
	case *syntax.Stmt:
		if n.Coprocess || n.Disown {
			return errors.New("a job operator that bash does not have: write & instead")
		}
	}
	return nil
}

func (g *guarder) isGuardName(name string) bool {
	return g.opts.Function != "" && strings.HasPrefix(name, g.opts.Function) ||
		g.opts.Redirect != "" && strings.HasPrefix(name, g.opts.Redirect)
}

func stmtCall(st *syntax.Stmt) (*syntax.CallExpr, bool) {
	if st == nil {
		return nil, false
	}
	c, ok := st.Cmd.(*syntax.CallExpr)
	return c, ok && len(c.Args) > 0
}

var errQuotes = errors.New("quotes inside ${…} within double quotes or a here-document, where bash expands what they hold: take the quotes out")

// refuseQuotes refuses single quotes in an expansion that stands in double
// quotes: the tree takes them for quotes, bash runs what is in them.
func refuseQuotes(parts []syntax.WordPart) error {
	for _, p := range parts {
		pe, ok := p.(*syntax.ParamExp)
		if !ok {
			continue
		}
		var words []*syntax.Word
		if pe.Exp != nil {
			words = append(words, pe.Exp.Word)
		}
		if pe.Repl != nil {
			words = append(words, pe.Repl.Orig, pe.Repl.With)
		}
		for _, w := range words {
			if w != nil && expandsInQuotes(w) {
				return errQuotes
			}
		}
	}
	return nil
}

// expandsInQuotes reports whether a quoted part below n holds text that
// would be expanded without the quotes.
func expandsInQuotes(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false // a context of its own
		case *syntax.SglQuoted:
			found = found || strings.ContainsAny(n.Value, "$`")
		}
		return !found
	})
	return found
}

func refuseArithm(x syntax.ArithmExpr) error {
	if x != nil && expandsInQuotes(x) {
		return errors.New("quotes inside arithmetic, where bash expands what they hold: take the quotes out")
	}
	return nil
}

// refuseTampering refuses builtins that change what a name means, or let a
// trap run inside the guards.
func (g *guarder) refuseTampering(args []guardArg) error {
	prefixed := false
	for len(args) > 1 && args[0].known && (args[0].text == "command" || args[0].text == "builtin") {
		i := 1
		for i < len(args)-1 && args[i].known && strings.HasPrefix(args[i].text, "-") {
			if args[0].text == "command" && strings.ContainsAny(args[i].text, "vV") {
				return nil
			}
			i++
		}
		args, prefixed = args[i:], true
	}
	name := args[0].text
	if !args[0].known {
		return nil
	}
	switch name {
	case "set":
		return refuseSet(args[1:])
	case "shopt":
		return refuseShopt(args[1:])
	case "enable":
		return refuseOptions(args, "fd", "builtin")
	case "hash":
		return refuseOptions(args, "p", "")
	case "mapfile", "readarray":
		return refuseOptions(args, "C", "")
	case "declare", "typeset", "local":
		return refuseOptions(args, "t", "")
	case "alias":
		if g.depth > 0 && len(args) > 1 {
			return errors.New("an alias inside a nested script, which may change what its commands mean: write the command out")
		}
	case "eval", "source", ".", "trap":
		if prefixed && (name != "source" && name != "." || !allKnown(args)) {
			return fmt.Errorf("%s after command or builtin cannot be guarded: write %s alone", name, name)
		}
	}
	return nil
}

// refuseOptions refuses a builtin with one of the option letters in bad, with
// an option that is not known, or with the operand named operand.
func refuseOptions(args []guardArg, bad, operand string) error {
	name := args[0].text
	for _, a := range args[1:] {
		switch {
		case a.known && a.text == "--" && operand == "":
			return nil
		case !a.lead, operand != "" && !a.known:
			return fmt.Errorf("the options of %s are known only at run time: write them out", name)
		case strings.HasPrefix(a.text, "-") && (strings.ContainsAny(a.text, bad) || !a.known):
			return fmt.Errorf("%s %s cannot be guarded: leave the option out", name, a.text)
		case operand != "" && a.text == operand:
			return fmt.Errorf("%s of %s would take the guards away: leave it out", name, operand)
		}
	}
	return nil
}

func refuseSet(args []guardArg) error {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case !a.lead:
			return errors.New("the options of set are known only at run time: write set -- before the words")
		case a.text == "--" || a.text == "-" || a.text[:min(1, len(a.text))] != "-" && a.text[:min(1, len(a.text))] != "+":
			return nil
		case !a.known:
			return errors.New("the options of set are known only at run time: write them out")
		case a.text[0] == '-' && strings.Contains(a.text, "T"):
			return errors.New("set -T would let traps run inside the guards: leave it out")
		case strings.HasSuffix(a.text, "o") && i+1 < len(args):
			i++
			if o := args[i]; !o.known || o.text == "posix" || o.text == "functrace" {
				return fmt.Errorf("set -o %s cannot be guarded: leave it out", o.text)
			}
		case strings.Contains(a.text, "o") && a.text[0] == '-' && len(a.text) > 2:
			return errors.New("set with an option name inside a cluster: write -o apart")
		}
	}
	return nil
}

func refuseShopt(args []guardArg) error {
	for _, a := range args {
		if !a.known {
			return errors.New("the options of shopt are known only at run time: write them out")
		}
		switch a.text {
		case "extdebug", "expand_aliases", "localvar_inherit", "posix", "functrace":
			return fmt.Errorf("shopt %s cannot be guarded: leave it out", a.text)
		}
	}
	return nil
}

// declare keeps words that are not known from being taken for options.
func (g *guarder) declare(d *syntax.DeclClause) error {
	switch d.Variant.Value {
	case "declare", "typeset", "local", "nameref":
	default:
		return nil
	}
	for i, as := range d.Args {
		if !as.Naked || as.Name != nil || as.Value == nil {
			return nil // the first name ends the options
		}
		a := g.arg(as.Value)
		switch {
		case a.known && a.text == "--":
			return nil
		case a.known && strings.HasPrefix(a.text, "-") && strings.Contains(a.text, "t"):
			return fmt.Errorf("%s %s lets traps run inside functions: leave the option out", d.Variant.Value, a.text)
		case a.lead && a.text != "" && strings.IndexByte("-+", a.text[0]) < 0:
			return nil
		case !a.known && a.lead:
			return fmt.Errorf("the options of %s are known only at run time: write them out", d.Variant.Value)
		case !a.known:
			end := &syntax.Assign{Naked: true, Value: litWord("--")}
			d.Args = append(d.Args[:i:i], append([]*syntax.Assign{end}, d.Args[i:]...)...)
			return nil
		}
	}
	return nil
}
