package approvals

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/shellscan"
)

// This file is the last check, made while a script runs of what its text
// did not show; see docs/gate.md, "The last check".

// CheckCommand judges the real words of a command that was dynamic in the
// text, in the directory dir where it is about to run ("" is the call's
// own): floor, control files, deny and escalate. At bypass only floor and
// deny count. ok false comes with the sentence for the person and model.
// Unknown is refused, except where the text showed the same kind of gap.
func (r *Reading) CheckCommand(dir string, argv []string, p Posture) (ok bool, why string) {
	if len(argv) == 0 || argv[0] == "" {
		return false, "Refused at run time: the command has no program."
	}
	c := r.within(dir, joinStrings(argv))
	c.scan = shellscan.ParseArgv(argv, envOf(c.place))
	c.effects = c.scan.Effects
	c.texts = c.comparedTexts(c.subject.Command)
	c.finish()
	if names := c.hidingNames(); names != "" || c.scan.Unreadable != "" {
		return false, "Refused at run time: " + hidingMessage(names+c.scan.Unreadable)
	}
	if why := r.gaps(c, p, ""); why != "" {
		return false, why
	}
	return c.atRunTime(p)
}

// CheckScript judges text that is about to become code in the running
// script (eval, trap, bash -c) like the text of a call, and returns its
// print with the guards of that script.
func (r *Reading) CheckScript(dir, text string, g GuardNames, p Posture) (guarded string, ok bool, why string) {
	c := r.within(dir, text)
	c.readShell(text)
	c.finish()
	switch names := c.hidingNames(); {
	case c.scan.Unreadable != "":
		return "", false, "Refused at run time: text that was about to become code cannot be judged: " + c.scan.Unreadable + "."
	case names != "":
		return "", false, "Refused at run time: " + hidingMessage(names)
	}
	if why := r.gaps(c, p, "dynamic-eval"); why != "" {
		return "", false, why
	}
	if ok, why := c.atRunTime(p); !ok {
		return "", false, why
	}
	guarded, err := c.scan.Print(shellscan.PrintOptions{Function: g.Function, Redirect: g.Redirect, Guard: p.guards, Nested: true})
	if err != nil {
		return "", false, fmt.Sprintf("Refused at run time: text that became code cannot run: %v.", err)
	}
	return guarded, true, ""
}

// CheckRedirect judges the real target of a redirect, opened from the
// directory dir; write tells whether it is opened for writing.
func (r *Reading) CheckRedirect(dir, path string, write bool, p Posture) (ok bool, why string) {
	if path == "" {
		return false, "Refused at run time: the redirect has no target."
	}
	op := "<"
	if write {
		op = ">"
	}
	c := r.within(dir, op+" "+path)
	c.scan = shellscan.Parse(": "+op+" "+singleQuoted(path), envOf(c.place))
	if c.scan.Unreadable != "" || len(c.scan.Hiding) > 0 {
		return false, fmt.Sprintf("Refused at run time: the redirect target %s holds characters that are read in more than one way. Use a plain path.", oneLine(path))
	}
	c.effects = redirectEffects(path, write)
	c.finish()
	return c.atRunTime(p)
}

func singleQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// within returns a reading without effects of a part of the call that runs
// in dir. The workspace stays that of the call.
func (r *Reading) within(dir, command string) *Reading {
	c := &Reading{call: r.call, place: r.place, sur: r.sur, subject: Subject{Kind: SubjectShell, Command: command}}
	if strings.HasPrefix(dir, "/") && !(r.place.RealPath != nil && r.place.RealPath(r.place.Cwd) == dir) {
		c.place.Cwd = dir
	}
	return c
}

// gaps returns why a part that still is not understood must not run. Nobody
// looks for gaps at bypass, and none is new to who approved unseen code; but
// a script that cannot be parsed never runs.
func (r *Reading) gaps(c *Reading, p Posture, unseen string) string {
	passed := p.Rung == Bypass || unseen != "" && r.leftOpen(unseen)
	for _, m := range c.scan.Unresolved {
		if unparsed := strings.HasPrefix(m.Name, "nested-"); unparsed || !passed && !r.leftOpen(m.Name) {
			return fmt.Sprintf("Refused at run time: what %s does cannot be known (%s). Write the command plainly and call the tool again.", oneLine(c.subject.Command), m.Name)
		}
	}
	return ""
}

// leftOpen reports whether the text already showed a mechanism of that kind
// to whoever approved it.
func (r *Reading) leftOpen(name string) bool {
	return r.scan != nil && slices.ContainsFunc(r.scan.Unresolved, func(m Mechanism) bool { return m.Name == name })
}

// atRunTime judges a part by the stages that can still refuse.
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
