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
	Script(dir, text string) (guarded string, ok bool, why string)
}

// judge asks the checker. An empty why means yes; answer is then what the
// guard reads after it. A panic of the checker is a no.
func judge(check Checker, q question) (answer, why string) {
	defer func() {
		if r := recover(); r != nil {
			answer, why = "", fmt.Sprintf("the check of a command failed: %v", r)
		}
	}()
	switch {
	case check == nil:
		return "", "nothing can check the command: it became known only while the script ran"
	case len(q.words) == 0:
		return "", "a guard asked without words"
	}
	switch q.kind {
	case "run":
		return "", judgeRun(check, q)
	case "scope":
		return judgeScope(check, q)
	case "script":
		return judgeScript(check, q)
	case "write", "dup":
		return "", judgeRedirect(check, q, true)
	case "read":
		return "", judgeRedirect(check, q, false)
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

func judgeRun(check Checker, q question) string {
	if name := scoped(q.words); name != "" {
		return fmt.Sprintf("the builtin %s cannot run through a variable or a prefix under the guards: write it out", name)
	}
	if why := verdict(check.Command(q.dir, q.words)); why != "" {
		return why
	}
	for i, w := range q.words {
		if !shells[path.Base(w)] {
			continue
		}
		text, inline := inlineScript(q.words[i+1:])
		switch {
		case inline:
			if why := judgeInline(check, q.dir, w, text); why != "" {
				return why
			}
		case text == "" && i == 0:
			return fmt.Sprintf("%s would read a script that nobody has seen from its input, and became known only while the script ran: write %s out", w, w)
		}
	}
	return ""
}

// judgeInline judges the script of a shell that runs just as it is, without
// the guards.
func judgeInline(check Checker, dir, shell, text string) string {
	open := fmt.Sprintf("the script of %s -c became known only while the script ran, and holds parts that are not known even now: write it out", shell)
	if !dynamic(text) {
		return ""
	}
	sc, ok := check.(ScriptChecker)
	if !ok {
		return open
	}
	guarded, ok, why := sc.Script(dir, text)
	if why := verdict(ok, why); why != "" {
		return why
	}
	if strings.Contains(guarded, guardTag) {
		return open
	}
	return ""
}

// judgeScope judges eval, source and trap, and answers with the command to
// run, quoted.
func judgeScope(check Checker, q question) (answer, why string) {
	at := 1
	if len(q.words) > 1 && q.words[1] == "--" {
		at = 2
	}
	out := append([]string(nil), q.words...)
	code := -1
	switch q.words[0] {
	case "eval":
		if len(q.words) > at {
			out, code = []string{"eval", "--", strings.Join(q.words[at:], " ")}, 2
		}
	case "trap":
		if len(q.words) > at+1 && q.words[at] != "" && q.words[at][0] != '-' {
			code = at
		}
	case "source", ".":
	default:
		return "", "a guard asked an unknown question"
	}
	if _, ok := check.(ScriptChecker); !ok || code < 0 {
		if why := verdict(check.Command(q.dir, q.words)); why != "" {
			return "", why
		}
	}
	if code >= 0 {
		if out[code], why = judgeText(check, q.dir, out[code]); why != "" {
			return "", why
		}
	}
	for i, w := range out {
		out[i] = quote(w)
	}
	return strings.Join(out, " ") + "\x00", ""
}

// judgeScript judges the script of a bash within, and answers with its print.
func judgeScript(check Checker, q question) (answer, why string) {
	if len(q.words) != 1 {
		return "", "a script is not one word"
	}
	if _, ok := check.(ScriptChecker); !ok {
		if why := verdict(check.Command(q.dir, []string{"bash", "-c", q.words[0]})); why != "" {
			return "", why
		}
	}
	text, why := judgeText(check, q.dir, q.words[0])
	return text + "\x00", why
}

// judgeText judges text that the shell is about to read as code.
func judgeText(check Checker, dir, text string) (guarded, why string) {
	if strings.TrimSpace(text) == "" {
		return ":", ""
	}
	if sc, ok := check.(ScriptChecker); ok {
		guarded, ok, why := sc.Script(dir, text)
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

func judgeRedirect(check Checker, q question, write bool) string {
	if len(q.words) != 1 {
		return "a redirect has more than one target"
	}
	if strings.HasSuffix(q.words[0], "\n") {
		// Command substitution drops trailing newlines, so another file
		// than the one that was judged would be opened.
		return "the name of a redirect target ends in a line break: rename it"
	}
	return verdict(check.Redirect(q.dir, q.words[0], write))
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
