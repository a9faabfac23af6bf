package approvals

// Script is the judged tree of a shell text. It is opaque on purpose: the
// only way to run it is its canonical print, so what runs is what was
// judged.
type Script struct{}

// GuardNames tells Print how the running script reaches the checker.
type GuardNames struct {
	// Function is the shell function that guarded commands go through.
	Function string
	// Redirect is the shell function whose output replaces a dynamic
	// redirect target.
	Redirect string
}

// Print returns the text for bash: the tree in canonical form, with a guard
// before whatever is known only at run time. Programs that posture's rules
// name are guarded when one of their words is not static. An error means
// that the script must not run; it names the construct.
func (s *Script) Print(g GuardNames, p Posture) (string, error) { return "", errNotJudged }

// CheckCommand judges the real words of a command that was dynamic in the
// text: floor, control files, deny and escalate. At bypass only floor and
// deny count. ok false comes with the sentence for the person and model.
// Unknown is refused.
func (r *Reading) CheckCommand(argv []string, p Posture) (ok bool, why string) {
	return false, errNotJudged.Error()
}

// CheckRedirect judges the real target of a redirect; write tells whether
// it is opened for writing.
func (r *Reading) CheckRedirect(path string, write bool, p Posture) (ok bool, why string) {
	return false, errNotJudged.Error()
}
