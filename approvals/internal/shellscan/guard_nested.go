package shellscan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// guardCarriers run another program or a script that is among their words.
var guardCarriers = guardSet(`
	. ash bash builtin busybox chroot chrt command dash doas docker env eval
	exec fakeroot fd find flock ionice kubectl ksh ltrace nice nohup nsenter
	parallel podman runuser script setarch setpriv setsid sh source ssh
	stdbuf strace su sudo systemd-run taskset time timeout torsocks trap
	unbuffer unshare watch xargs zsh`)

// guardShells read a script from -c or from their input.
var guardShells = guardSet("ash bash dash ksh sh zsh")

// guardPrinters only repeat their words.
var guardPrinters = guardSet("echo printf grep rg test [ git")

func guardSet(s string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

// guardRemote run their command where the guards cannot be reached: on
// another machine or in a container.
var guardRemote = guardSet("docker podman nerdctl kubectl oc ssh lxc docker-compose vagrant wsl")

// nestedShell prints the script of another shell in place. Guards reach into
// bash -c, whose script gets the prelude put before it, and sh runs as bash
// when it needs them; a part that needs one elsewhere is refused. done tells
// that nothing else of the command needs a guard.
func (g *guarder) nestedShell(st *syntax.Stmt, c *syntax.CallExpr, args []guardArg) (done bool, err error) {
	if guardPrinters[path.Base(args[0].text)] {
		return false, nil
	}
	for i, a := range args {
		switch {
		case !a.known:
			continue
		case guardRemote[path.Base(a.text)]:
			return false, nil
		case !guardShells[path.Base(a.text)]:
			continue
		}
		// Only what runs its operands is sure to run a shell among them.
		sure := i == 0 || guardCarriers[path.Base(args[0].text)]
		at, inline := shellScript(args[i+1:])
		if !inline {
			return g.fedShell(st, args, i, at < 0, sure)
		}
		if at += i + 1; at <= i {
			return false, nil
		}
		guarded, err := g.inlineScript(c, args, i, at, sure)
		direct := i == 0 || allKnown(args[:i]) && wrappers[baseName(args[0].text)] != nil
		return guarded && direct, err
	}
	return false, nil
}

// inlineScript puts the guarded script in the place of the word at, for the
// shell at i.
func (g *guarder) inlineScript(c *syntax.CallExpr, args []guardArg, i, at int, sure bool) (guarded bool, err error) {
	var word *syntax.Word
	switch {
	case args[at].known:
		word, guarded, err = g.inner(args[i].text, args[at].text, sure)
	case sure && g.opts.Function != "" && becomesBash(args[i].text) && refuseShellOptions(args[i+1:at]) == nil && oneWord(c.Args[at]):
		word, guarded, err = g.unseenScript(c.Args[at]), true, nil
	default:
		return false, nil
	}
	if err != nil {
		return false, err
	}
	c.Args[at] = word
	if !guarded {
		return false, nil
	}
	if path.Base(args[i].text) == "sh" {
		c.Args[i] = litWord("bash")
		if w := wrappers[baseName(args[0].text)]; at+1 == len(c.Args) && (i == 0 || w != nil && !w.input) {
			c.Args = append(c.Args, litWord("sh")) // $0
		}
	}
	// Privileged mode takes no functions and options from the environment,
	// which the text may have set.
	c.Args = slices.Insert(c.Args, i+1, litWord("-p"))
	return true, refuseShellOptions(args[i+1 : at])
}

func becomesBash(shell string) bool {
	return path.Base(shell) == "bash" || path.Base(shell) == "sh"
}

// oneWord reports whether a word stays one when it is expanded.
func oneWord(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	q, ok := w.Parts[0].(*syntax.DblQuoted)
	if !ok || q.Dollar {
		return false
	}
	for _, p := range q.Parts {
		if pe, ok := p.(*syntax.ParamExp); ok && (pe.Param == nil || pe.Param.Value == "@" || pe.Index != nil || pe.Excl) {
			return false
		}
	}
	return true
}

// unseenScript returns the word for a script that the running script makes:
// the checker reads it and gives back its print.
func (g *guarder) unseenScript(script *syntax.Word) *syntax.Word {
	g.count++
	ask := &syntax.CallExpr{Args: []*syntax.Word{litWord(g.opts.Function + "_s"), script}}
	w := quotedWordOf("{ ")
	w.Parts = append([]syntax.WordPart{g.preludeOf()}, w.Parts...)
	w.Parts = append(w.Parts, substWord(ask).Parts...)
	w.Parts = append(w.Parts, quotedWordOf("\n}").Parts...)
	return w
}

// preludeOf returns the expansion that holds the guards for a bash within.
func (g *guarder) preludeOf() syntax.WordPart {
	return &syntax.DblQuoted{Parts: []syntax.WordPart{&syntax.ParamExp{Short: true, Param: &syntax.Lit{Value: g.opts.Function + "_p"}}}}
}

// fedShell judges the script on the standard input of the shell at i.
func (g *guarder) fedShell(st *syntax.Stmt, args []guardArg, i int, bare, sure bool) (done bool, err error) {
	for _, r := range st.Redirs {
		if text, known := g.input(r); known && (bare || args[len(args)-1].known) {
			if _, _, err := g.inner(args[i].text, text, false); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// refuseShellOptions refuses options of bash that weaken the guards in it.
func refuseShellOptions(args []guardArg) error {
	for _, a := range args {
		if a.text != "-c" && a.text != "-ec" && a.text != "-e" && a.text != "-xc" && a.text != "-lc" || !a.known {
			return fmt.Errorf("bash %s with a script that needs guards: use -c alone", a.text)
		}
	}
	return nil
}

// inner returns the word for a script that another shell runs, and whether
// it has guards.
func (g *guarder) inner(shell, text string, sure bool) (word *syntax.Word, guarded bool, err error) {
	in := *g
	in.count = 0
	if in.opts.Function == "" {
		in.opts.Function, in.opts.Redirect = "guard", "guard"
	}
	reached := sure && becomesBash(shell)
	out, err := in.nested(shell, text)
	if err == nil && in.count > 0 && !reached {
		// Guards that only make sure of the directory can be done without.
		in.count, in.settled = 0, true
		out, err = in.nested(shell, text)
	}
	if err != nil {
		return nil, false, err
	}
	if in.count == 0 {
		return quotedWordOf(out), false, nil
	}
	if !reached {
		return nil, false, fmt.Errorf("the script of %s has a part that is known only at run time and matters, and the guards reach into bash -c only: write the commands without %s", shell, shell)
	}
	if _, err := g.guard(g.opts.Function); err != nil {
		return nil, false, err
	}
	script := quotedWordOf("{ " + out + "\n}")
	return &syntax.Word{Parts: append([]syntax.WordPart{g.preludeOf()}, script.Parts...)}, true, nil
}

// shellScript finds the script of a shell in its arguments: the word after
// the options when one of them holds c.
func shellScript(args []guardArg) (at int, inline bool) {
	for i := 0; i < len(args); i++ {
		t := args[i].text
		switch {
		case !args[i].known && !args[i].lead && !inline:
			return -1, false
		case !args[i].known && !args[i].lead:
			return i, true // it is made the script, whatever it holds
		case len(t) < 2 || t[0] != '-' && t[0] != '+':
			return i, inline
		case t == "--":
			if i+1 < len(args) {
				return i + 1, inline
			}
			return -1, inline
		case strings.HasPrefix(t, "--"):
			if t == "--rcfile" || t == "--init-file" {
				i++
			}
		default:
			inline = inline || t[0] == '-' && strings.Contains(t, "c")
			if strings.HasSuffix(t, "o") || strings.HasSuffix(t, "O") {
				i++
			}
		}
	}
	return -1, inline
}

// input returns the text that a redirect feeds to standard input.
func (g *guarder) input(r *syntax.Redirect) (string, bool) {
	if r.N != nil && r.N.Value != "0" {
		return "", false
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		return g.words.heredoc(r)
	case syntax.WordHdoc:
		return g.words.static(r.Word)
	}
	return "", false
}
