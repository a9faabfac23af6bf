package approvals

import (
	"errors"
	"slices"

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
