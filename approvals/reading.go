package approvals

// Reading is a call, read once: subject, effects, script and digest. It is
// immutable and safe for concurrent use.
type Reading struct {
	call    Call
	place   Place
	subject Subject
	effects []Effect
	script  *Script
	digest  string
}

// Read reads a call for a place. It never fails: what cannot be understood
// is in the reading and makes Evaluate ask or refuse.
func Read(call Call, place Place) *Reading {
	return &Reading{call: call, place: place}
}

// Call returns the call that was read.
func (r *Reading) Call() Call { return r.call }

// Subject returns what the call is for the rules.
func (r *Reading) Subject() Subject { return r.subject }

// Effects returns what the call would do. The caller must not change it.
func (r *Reading) Effects() []Effect { return r.effects }

// Script returns the judged script of a shell call, nil for other tools
// and for text that could not be parsed.
func (r *Reading) Script() *Script { return r.script }

// Digest identifies what will run: tool, server, canonical arguments and
// working directory. Hex, 64 characters.
func (r *Reading) Digest() string { return r.digest }
