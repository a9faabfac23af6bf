package approvals

import "fmt"

// Rung is how much a session may do without asking. The ladder is ordered
// for display only; behaviour is looked up per rung, never compared.
// The zero value is Manual, which asks most. See docs/gate.md, "Rungs".
type Rung uint8

// The five rungs.
const (
	Manual   Rung = iota // everything but reading asks
	Write                // as Manual, and file writes inside the workspace run
	Assisted             // shell and outward calls are rated; a person decides the rest
	Auto                 // as Assisted, and a bad rating goes back to the model first
	Bypass               // nothing asks; deny rules and the floor still hold
)

var rungNames = [...]string{"manual", "write", "assisted", "auto", "bypass"}

// Rungs lists the rungs from strict to loose.
func Rungs() []Rung { return []Rung{Manual, Write, Assisted, Auto, Bypass} }

// ParseRung returns the rung called name.
func ParseRung(name string) (Rung, error) {
	for i, n := range rungNames {
		if n == name {
			return Rung(i), nil
		}
	}
	return Manual, fmt.Errorf("rung %q is unknown: use manual, write, assisted, auto or bypass", name)
}

// String returns the name of r; an invalid rung prints as manual.
func (r Rung) String() string {
	if int(r) < len(rungNames) {
		return rungNames[r]
	}
	return rungNames[Manual]
}

// Rated reports whether a model rates calls at r.
func (r Rung) Rated() bool { return r == Assisted || r == Auto }

// Negotiating reports whether a bad rating goes back to the model at r.
func (r Rung) Negotiating() bool { return r == Auto }

// Deterministic reports whether rules and access classes alone decide at
// r, with a person for the rest.
func (r Rung) Deterministic() bool { return r == Manual || r == Write }

// MarshalText writes the name.
func (r Rung) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a name; an unknown one is an error and leaves Manual.
func (r *Rung) UnmarshalText(b []byte) error {
	p, err := ParseRung(string(b))
	*r = p
	return err
}
