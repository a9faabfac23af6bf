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

// nestedShell prints the literal script of another shell in place. Guards
// reach into bash -c, whose script gets the prelude put before it; a part
// that needs one in any other shell is refused.
func (g *guarder) nestedShell(st *syntax.Stmt, c *syntax.CallExpr, args []guardArg) error {
	if guardPrinters[path.Base(args[0].text)] {
		return nil
	}
	fed := false
	for i, a := range args {
		if !a.known || !guardShells[path.Base(a.text)] {
			continue
		}
		at, inline := shellScript(args[i+1:])
		if inline {
			if at += i + 1; at > i && args[at].known {
				sure := i == 0 || guardCarriers[path.Base(args[0].text)]
				word, guarded, err := g.inner(a.text, args[at].text, sure)
				if err != nil {
					return err
				}
				c.Args[at] = word
				if guarded {
					// Privileged mode takes no functions and options from
					// the environment, which the text may have set.
					c.Args = slices.Insert(c.Args, i+1, litWord("-p"))
					return refuseShellOptions(args[i+1 : at])
				}
			}
			return nil
		}
		if fed {
			continue
		}
		fed = true
		for _, r := range st.Redirs {
			if text, known := g.input(r); known {
				if _, _, err := g.inner(a.text, text, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
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
	out, err := in.nested(shell, text)
	if err != nil {
		return nil, false, err
	}
	if in.count == 0 {
		return quotedWordOf(out), false, nil
	}
	if path.Base(shell) != "bash" || !sure {
		return nil, false, fmt.Errorf("the script of %s has a part that is known only at run time and matters, and the guards reach into bash -c only: write the commands without %s", shell, shell)
	}
	name, err := g.guard(g.opts.Function)
	if err != nil {
		return nil, false, err
	}
	prelude := &syntax.DblQuoted{Parts: []syntax.WordPart{&syntax.ParamExp{Short: true, Param: &syntax.Lit{Value: name + "_p"}}}}
	script := quotedWordOf("{ " + out + "\n}")
	return &syntax.Word{Parts: append([]syntax.WordPart{prelude}, script.Parts...)}, true, nil
}

// shellScript finds the script of a shell in its arguments: the word after
// the options when one of them holds c.
func shellScript(args []guardArg) (at int, inline bool) {
	for i := 0; i < len(args); i++ {
		t := args[i].text
		switch {
		case !args[i].known && !args[i].lead:
			return -1, inline
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
