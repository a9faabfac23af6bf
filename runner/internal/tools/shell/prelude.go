package shell

import (
	"strconv"
	"strings"

	"github.com/gth-server/gth-server/approvals"
)

// locks runs before every script. Setting one of the first three changes what
// a name means: bash switches to another grammar, or calls another program
// than the one that was judged. PS4 is expanded, commands included, before
// every traced command, and a trace sent to standard output would mix with
// what the guards print.
const locks = "builtin readonly POSIXLY_CORRECT BASH_CMDS BASH_ALIASES PS4 BASH_XTRACEFD; "

// preludeText defines the guards. It stays on one line, so that bash counts
// the lines of the script from one. F, R and PORT are replaced.
//
// What it must withstand is text that was judged and yet tries to get past
// it, so each line has its reason:
//   - Builtins are called through builtin only; the printer refuses scripts
//     that define a function of that name or disable it.
//   - The words are copied into a read-only local before they are judged,
//     and that copy runs: a signal trap that runs in between can neither
//     change it nor, with return, skip the question and keep the answer.
//   - The question is asked in a subshell. Traps are reset there, so no code
//     of the script runs between question and answer, and nothing else has
//     the descriptor of the connection.
//   - Whatever goes wrong takes the branch that runs nothing and ends the
//     script, its main shell included. Questions stand in conditions, where
//     an inherited ERR trap does not run; for the same reason R never ends
//     with an error: what the trap prints would become the target.
//
// A question also says where bash stands, for relative paths depend on it.
//
// F runs its arguments, with $? as it was; F_x does so for a background job, whose process id
// must be that of the program (except for a relative path, which exec would
// change for the program); F_q prints what the server answers, quoted, for
// builtins that must run in the scope they stand in; F_s prints the script
// that a bash within may run. R prints a redirect
// target. F_p holds all of this for a bash within the script.
const preludeText = `` +
	`F_ask() { { builtin printf '%s\0' "$F_key" "$1" >&8 && { builtin pwd -P >&8 || :; } && builtin printf '\0%s\0' "$(($# - 1))" >&8 && builtin printf '%s\0' "${@:2}" >&8 && IFS= builtin read -r -t 86400 -u 8 F_ans && [[ $F_ans == ok ]] && { [[ $1 != s* ]] || { IFS= builtin read -r -d '' -u 8 F_ans && builtin printf '%s' "$F_ans"; }; }; } 8<>/dev/tcp/127.0.0.1/PORT; } 2>/dev/null; ` +
	`F_rc() { builtin return "$1"; }; ` +
	`F_die() { builtin printf '%s\n' 'guard: the command could not be checked, so the script was ended' >&2; builtin kill -KILL "$BASHPID" "$$"; }; ` +
	`F() { if builtin local -r F_s=$? && case $# in 0) builtin return $F_s;; esac && builtin local -a F_v && F_v=("$@") && builtin local -r F_v && (F_ask run "${F_v[@]}"); then case $F_s in 0) "${F_v[@]}";; *) F_rc "$F_s" || "${F_v[@]}";; esac; else F_die; fi; }; ` +
	`F_x() { case $# in 0) builtin return $?;; esac; if builtin local -a F_v && F_v=("$@") && builtin local -r F_v && (F_ask run "${F_v[@]}"); then if [[ ${F_v[0]} != [!/]*/* && $(builtin type -t -- "${F_v[0]}") == file ]]; then builtin exec -- "${F_v[@]}"; else "${F_v[@]}"; fi; else F_die; fi; }; ` +
	`F_q() { (F_ask scope "$@") || F_die; }; ` +
	`F_s() { (F_ask script "$@") || F_die; }; ` +
	`R() { case $# in 2) ;; *) builtin printf '%s\n' 'bash: ambiguous redirect' >&2 || :; builtin return 0;; esac; ` +
	`case $2 in '') builtin return 0;; esac; ` +
	`if ! { builtin local -a F_v && F_v=("$@") && builtin local -r F_v; }; then F_die; elif [[ ${F_v[0]} == dup && ${F_v[1]} != *[!0-9-]* ]]; then builtin printf '%s' "${F_v[1]}"; elif (F_ask "${F_v[@]}"); then builtin printf '%s' "${F_v[1]}"; else F_die; fi; }; ` +
	`builtin readonly -f F_ask F_rc F_die F F_x F_q F_s R; `

// prelude returns the text before a guarded script. The ticket comes in an
// environment variable, so that it does not show in lists of processes;
// programs that the script starts never see it, only a bash within does.
func prelude(n approvals.GuardNames, port int) string {
	body := fill(preludeText, n, port)
	key, inner := n.Function+"_key", n.Function+"_p"
	return body + "builtin export -n " + key + "; builtin readonly " + key + "; " +
		"builtin readonly " + inner + "=" + key + `=\'"$` + key + `"\'"; "` + quote(within(locks+body, key, inner)) + "; "
}

// within returns the prelude of a bash within the script, but for the ticket
// that is put before it. It takes its own text from what that bash was
// started with, so that it can be handed on to the next one.
func within(body, key, inner string) string {
	const ticket = 32 // hexadecimal digits
	head := "builtin readonly " + key + "; " + body + "builtin readonly " + inner + `="${BASH_EXECUTION_STRING:0:`
	n := len(key+"=''; ") + ticket + len(head) + len(`}"; `)
	for digits := 1; ; digits++ {
		if len(strconv.Itoa(n+digits)) == digits {
			return head + strconv.Itoa(n+digits) + `}"; `
		}
	}
}

// quote returns s as one shell word.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// fill puts names and port into text.
func fill(text string, n approvals.GuardNames, port int) string {
	var b strings.Builder
	for rest := text; rest != ""; {
		i := strings.IndexAny(rest, "FRP")
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		switch word := rest[i:]; {
		case strings.HasPrefix(word, "PORT"):
			b.WriteString(strconv.Itoa(port))
			rest = word[len("PORT"):]
		case isName(word, "F"):
			b.WriteString(n.Function)
			rest = word[1:]
		case isName(word, "R"):
			b.WriteString(n.Redirect)
			rest = word[1:]
		default:
			b.WriteByte(word[0])
			rest = word[1:]
		}
	}
	return b.String()
}

// isName reports whether s starts with the placeholder name, and not with a
// longer word in capitals.
func isName(s, name string) bool {
	rest, ok := strings.CutPrefix(s, name)
	return ok && (rest == "" || rest[0] < 'A' || rest[0] > 'Z')
}

// keyVariable names the environment variable that carries the ticket.
func keyVariable(n approvals.GuardNames) string { return n.Function + "_key" }
