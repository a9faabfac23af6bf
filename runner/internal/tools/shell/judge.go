package shell

import (
	"fmt"
	"path"
	"strings"
)

// ScriptChecker is a Checker that can judge text which becomes code while
// the script runs (eval, trap, bash -c). Script returns the print of text
// with the guards of the running script. Without it such text runs only if
// nothing in it is dynamic.
type ScriptChecker interface {
	Script(text string) (guarded string, ok bool, why string)
}

// judge asks the checker. An empty why means yes; answer is then what the
// guard reads after it. A panic of the checker is a no.
func judge(check Checker, kind string, words []string) (answer, why string) {
	defer func() {
		if r := recover(); r != nil {
			answer, why = "", fmt.Sprintf("the check of a command failed: %v", r)
		}
	}()
	switch {
	case check == nil:
		return "", "nothing can check the command: it became known only while the script ran"
	case len(words) == 0:
		return "", "a guard asked without words"
	}
	switch kind {
	case "run":
		return "", judgeRun(check, words)
	case "scope":
		return judgeScope(check, words)
	case "write", "dup":
		return "", judgeRedirect(check, words, true)
	case "read":
		return "", judgeRedirect(check, words, false)
	}
	return "", "a guard asked an unknown question"
}

// verdict turns a checker's answer into a reason, which is never empty for
// a no.
func verdict(ok bool, why string) string {
	switch {
	case ok:
		return ""
	case why == "":
		return "the checker gave no reason"
	}
	return why
}

func judgeRun(check Checker, words []string) string {
	if name := scoped(words); name != "" {
		return fmt.Sprintf("the builtin %s cannot run through a variable or a prefix under the guards: write it out", name)
	}
	if why := verdict(check.Command(words)); why != "" {
		return why
	}
	for i, w := range words {
		if !shells[path.Base(w)] {
			continue
		}
		if text, ok := inlineScript(words[i+1:]); ok && dynamic(text) {
			return fmt.Sprintf("the script of %s -c became known only while the script ran, and holds parts that are not known even now: write it out", w)
		}
	}
	return ""
}

// judgeScope judges eval, source and trap, and answers with the command to
// run, quoted.
func judgeScope(check Checker, words []string) (answer, why string) {
	if why := verdict(check.Command(words)); why != "" {
		return "", why
	}
	at := 1
	if len(words) > 1 && words[1] == "--" {
		at = 2
	}
	out := append([]string(nil), words...)
	switch words[0] {
	case "eval":
		if len(words) > at {
			text, why := judgeText(check, strings.Join(words[at:], " "))
			if why != "" {
				return "", why
			}
			out = []string{"eval", "--", text}
		}
	case "trap":
		if len(words) > at+1 && words[at] != "" && words[at][0] != '-' {
			if out[at], why = judgeText(check, words[at]); why != "" {
				return "", why
			}
		}
	case "source", ".":
	default:
		return "", "a guard asked an unknown question"
	}
	for i, w := range out {
		out[i] = quote(w)
	}
	return strings.Join(out, " ") + "\x00", ""
}

// judgeText judges text that the shell is about to read as code.
func judgeText(check Checker, text string) (guarded, why string) {
	if sc, ok := check.(ScriptChecker); ok {
		guarded, ok, why := sc.Script(text)
		return guarded, verdict(ok, why)
	}
	if dynamic(text) {
		return "", "text that became code while the script ran holds parts that are not known even then: write the commands out"
	}
	return text, ""
}

// dynamic reports whether shell text may hold anything that is known only
// when it runs. It is a search for characters on purpose: it may be wrong
// about harmless text, never about the other kind. Reserved characters of
// history, aliases and functions matter too, since such text could take a
// name that the guards rely on.
func dynamic(text string) bool {
	return strings.ContainsAny(text, "$`()\\\r") || strings.Contains(text, "function") || strings.Contains(text, "alias") ||
		strings.Contains(text, "builtin") || strings.Contains(text, "enable") || strings.Contains(text, "shopt") ||
		strings.Contains(text, "set -") || strings.Contains(text, "<<") || strings.Contains(text, "coproc")
}

func judgeRedirect(check Checker, words []string, write bool) string {
	if len(words) != 1 {
		return "a redirect has more than one target"
	}
	if strings.HasSuffix(words[0], "\n") {
		// Command substitution drops trailing newlines, so another file
		// than the one that was judged would be opened.
		return "the name of a redirect target ends in a line break: rename it"
	}
	return verdict(check.Redirect(words[0], write))
}

var shells = map[string]bool{"ash": true, "bash": true, "dash": true, "ksh": true, "sh": true, "zsh": true}

// inlineScript returns the text after a -c option.
func inlineScript(args []string) (string, bool) {
	inline := false
	for i, a := range args {
		switch {
		case strings.HasPrefix(a, "--"):
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
			inline = inline || a[0] == '-' && strings.Contains(a, "c")
		case i > 0 && (strings.HasSuffix(args[i-1], "o") || strings.HasSuffix(args[i-1], "O")) && args[i-1][0] != '/':
			// the value of -o or -O
		default:
			return a, inline
		}
	}
	return "", false
}

// scopedBuiltins change the shell that they run in: under a guard they would
// change the guard's scope instead, or loosen what the guards rely on.
var scopedBuiltins = map[string]bool{
	".": true, "alias": true, "bind": true, "break": true, "caller": true,
	"continue": true, "declare": true, "enable": true, "eval": true,
	"getopts": true, "hash": true, "let": true, "local": true,
	"mapfile": true, "readarray": true, "readonly": true, "return": true,
	"set": true, "shift": true, "shopt": true, "source": true, "trap": true,
	"typeset": true, "unalias": true, "unset": true,
}

// scoped returns the scoped builtin that words would run, if any.
func scoped(words []string) string {
	for i, w := range words {
		switch {
		case scopedBuiltins[w]:
			return w
		case w == "command" || w == "builtin":
		case i > 0 && strings.HasPrefix(w, "-"):
			if strings.ContainsAny(w, "vV") && words[0] == "command" {
				return "" // only asks where the command is
			}
		default:
			return ""
		}
	}
	return ""
}
