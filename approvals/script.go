package approvals

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/shellscan"
)

// Script is the judged tree of a shell text. It is opaque on purpose: the
// only way to run it is its canonical print, so what runs is what was
// judged.
type Script struct{ reading *Reading }

// GuardNames tells Print how the running script reaches the checker.
type GuardNames struct {
	// Function is the shell function that guarded commands go through.
	Function string
	// Redirect is the shell function whose output replaces a dynamic
	// redirect target.
	Redirect string
}

var errNotJudged = errors.New("shell text was not judged: it cannot run")

// Print returns the text for bash: the tree in canonical form, with a guard
// before whatever is known only at run time. Programs that posture's rules
// name are guarded when one of their words is not static. An error means
// that the script must not run; it names the construct.
func (s *Script) Print(g GuardNames, p Posture) (string, error) {
	if s == nil || s.reading == nil {
		return "", errNotJudged
	}
	return s.reading.scan.Print(shellscan.PrintOptions{Function: g.Function, Redirect: g.Redirect, Guard: p.guards})
}

// guards reports whether rules speak of a program, so that its words must be
// known before it runs. A rule over texts or effects may speak of any.
func (p Posture) guards(program string) bool {
	names := func(r *rule) bool {
		switch r.entry.Type {
		case typeTool, typeMCP:
			return false
		case typeExec:
			return slices.Contains(r.words, baseName(program))
		}
		return true
	}
	if p.Policy != nil && (slices.ContainsFunc(p.Policy.deny, names) || slices.ContainsFunc(p.Policy.escalate, names)) {
		return true
	}
	return p.Grants != nil && len(p.Grants.refusals.rest) > 0
}

// ExtGlob reports whether bash needs extended globs to read the print as the
// text was read.
func (s *Script) ExtGlob() bool {
	return s != nil && s.reading != nil && s.reading.scan.ExtGlob()
}

// CheckCommand judges the real words of a command that was dynamic in the
// text: floor, control files, deny and escalate. At bypass only floor and
// deny count. ok false comes with the sentence for the person and model.
// Unknown is refused.
func (r *Reading) CheckCommand(argv []string, p Posture) (ok bool, why string) {
	if len(argv) == 0 || argv[0] == "" {
		return false, "Refused at run time: the command has no program."
	}
	c := &Reading{call: r.call, place: r.place, sur: r.sur, subject: Subject{Kind: SubjectShell, Command: joinStrings(argv)}}
	c.scan = shellscan.ParseArgv(argv, envOf(r.place))
	c.effects = c.scan.Effects
	c.texts = c.comparedTexts(c.subject.Command)
	c.finish()
	if names := c.hidingNames(); names != "" || c.scan.Unreadable != "" {
		return false, "Refused at run time: " + hidingMessage(names+c.scan.Unreadable)
	}
	for _, m := range c.scan.Unresolved {
		if !r.leftOpen(m.Name) {
			return false, fmt.Sprintf("Refused at run time: what %s does cannot be known (%s). Write the command plainly and call the tool again.", oneLine(c.subject.Command), m.Name)
		}
	}
	return c.atRunTime(p)
}

// leftOpen reports whether the text already showed a mechanism of that kind
// to whoever approved it.
func (r *Reading) leftOpen(name string) bool {
	return r.scan != nil && slices.ContainsFunc(r.scan.Unresolved, func(m Mechanism) bool { return m.Name == name })
}

// CheckRedirect judges the real target of a redirect; write tells whether
// it is opened for writing.
func (r *Reading) CheckRedirect(path string, write bool, p Posture) (ok bool, why string) {
	if path == "" {
		return false, "Refused at run time: the redirect has no target."
	}
	c := &Reading{call: r.call, place: r.place, sur: r.sur, subject: Subject{Kind: SubjectShell}}
	op := "<"
	if write {
		op = ">"
	}
	c.scan = shellscan.Parse(": "+op+" "+singleQuoted(path), envOf(r.place))
	if c.scan.Unreadable != "" || len(c.scan.Hiding) > 0 {
		return false, fmt.Sprintf("Refused at run time: the redirect target %s holds characters that are read in more than one way. Use a plain path.", oneLine(path))
	}
	c.effects = redirectEffects(path, write)
	c.finish()
	return c.atRunTime(p)
}

func singleQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// atRunTime is the last check of what the text did not show.
func (c *Reading) atRunTime(p Posture) (bool, string) {
	if r, a := p.denied(c); a != answerNo {
		return false, "Refused at run time: " + denyMessage(r)
	}
	f := c.self
	if c.scan.Floor != nil {
		f = c.scan.Floor
	}
	if f != nil {
		return false, "Refused at run time: " + floorMessage(c.subject, f)
	}
	if p.Rung == Bypass {
		return true, ""
	}
	if file := controlFile(c.targets); file != "" {
		return false, fmt.Sprintf("Refused at run time: the command writes %s, which needs a person's approval. Write the path plainly and call the tool again.", oneLine(file))
	}
	if r, a := p.escalated(c); a != answerNo {
		return false, fmt.Sprintf("Refused at run time: the escalate entry %s needs a person's approval. Write the command plainly and call the tool again.", r.entry.Preview())
	}
	return true, ""
}
