package approvals

import (
	"fmt"
	"strings"
	"unicode"
)

// The texts in this file are what the model reads. docs/gate.md, "What the
// model is told", says what each has to contain.

func unreadableMessage(why string) string {
	return fmt.Sprintf("The command was not run: its text cannot be read as a bash script (%s). Correct the text and call the tool again.", oneLine(why))
}

func denyMessage(r *rule) string {
	if r.source == sourceSession {
		return fmt.Sprintf("The call was refused: earlier in this session the user chose to always refuse %s. "+
			"That holds for the rest of the session. Do something else, or ask the user whether they have changed their mind.", r.entry.Preview())
	}
	return fmt.Sprintf("The call was refused: the user's deny list forbids it with the entry %s. "+
		"Only removing that entry from approvals.deny changes this; do not look for another spelling of the same call.", r.entry.Preview())
}

func undecidedMessage(r *rule) string {
	return fmt.Sprintf("The call was refused: whether the deny entry %s matches shows only while it runs, and nothing can stop it then. "+
		"Write the call so that every word of it is known.", r.entry.Preview())
}

func floorMessage(s Subject, f *Floor) string {
	what := "The call of " + oneLine(s.Name)
	if s.Kind == SubjectShell {
		what = "The command " + oneLine(s.Command)
	}
	return fmt.Sprintf("%s was refused: %s. Calls of this kind are blocked always, also when nothing asks for confirmation.", what, f.Description)
}

func hidingMessage(names string) string {
	return "The command was refused: it is written so that a reader and the shell may see different commands (" + names + "). Write it plainly and call the tool again."
}

// refusalMessage tells of a person's no and of the moves that are left.
func refusalMessage(req *Request, a Answer) string {
	var b strings.Builder
	b.WriteString("The user refused this call.")
	if reason := strings.TrimSpace(a.Reason); reason != "" {
		b.WriteString(" The user says: " + reason)
	}
	if req.Outcome != Unrated && req.Reason != "" {
		fmt.Fprintf(&b, " It had been rated %s: %s", req.Outcome, req.Reason)
	}
	b.WriteString("\nYou can call the tool again with a justification that answers the objection, choose a different call, or ask the user what they want.")
	return b.String()
}

func unansweredMessage(req *Request) string {
	return fmt.Sprintf("The call of %s did not run: it needs a person's approval and nobody answered. This is no refusal; it can be asked again when a person is there.", oneLine(req.Tool))
}

const maxQuoted = 300

// oneLine makes untrusted text fit into a sentence of ours: no control or
// format characters, one line, bounded.
func oneLine(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i >= maxQuoted {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.In(r, unicode.Zl, unicode.Zp):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
