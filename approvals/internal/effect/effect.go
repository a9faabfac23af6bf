// Package effect holds the vocabulary that the shell scanner, the tool
// tables and the rules share: what a call would do to the world.
//
// It guarantees nothing but shape: who fills an Effect decides whether it
// is complete. It imports nothing of ours, so that both the scanner and
// the decision can speak it without importing each other.
package effect

// Kind says what an effect does. The zero value is no valid kind.
type Kind uint8

// The kinds of effect.
const (
	Exec    Kind = iota + 1 // a program or builtin starts
	Read                    // a path is read
	Write                   // a path is created, changed or removed
	Connect                 // a host is contacted
)

var kindNames = [...]string{"", "exec", "read", "write", "connect"}

// String returns the word that rules use for k.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return ""
}

// Code says how an exec effect runs other code.
type Code uint8

// The ways in which a program runs code beside its own.
const (
	CodeNone     Code = iota // it does not
	CodeDeclared             // running project code is its business: make, npm test, python x.py
	CodeHidden               // an option, variable or payload makes it: python -c, git -c core.pager=…
)

// Word is one word of a command. Text is its value when Static, else the
// word as written, for display only.
type Word struct {
	Text   string
	Static bool
}

// Via says which syntax an effect was found in.
type Via uint8

// The places an effect comes from.
const (
	ViaCommand  Via = iota // a simple command itself (exec)
	ViaRedirect            // a redirection
	ViaOperand             // a known operand of a program in the table
	ViaPossible            // an operand of a program that the table does not know
	ViaTool                // an argument of a tool that is not the shell
)

// Effect is one thing that a call does.
type Effect struct {
	Kind Kind
	Via  Via

	// Exec only. Argv is the simple command after peeling; Argv[0] is the
	// program word. Wrappers are the programs peeled off, outermost first;
	// Elevated is set when one of them changes user, root, host or container.
	Argv     []Word
	Wrappers []string
	Elevated bool
	Code     Code
	// Canonical is Argv in the spelling of the option table (clusters
	// split, abbreviations expanded, aliases replaced); nil when the
	// program is not in the table or a word is not static.
	Canonical []string

	// Read and Write only. Path is the value as written, with "*" for each
	// part that is not static; Static tells whether there is none.
	Path   string
	Static bool
	// Dir is set when the effect reaches what lies below Path as well.
	Dir bool

	// Connect only: canonical host (lower case, A-label, no trailing dot,
	// no brackets) and port, which may be empty.
	Host string
	Port string

	// Pos is the byte offset in the text, 0 for tools. Cmd numbers the
	// simple command of the tree that the effect belongs to, from 0.
	Pos int
	Cmd int
}

// Mechanism is one thing in a text that a reader of the tree cannot
// decide, with the place where it stands.
type Mechanism struct {
	Name string `json:"name"` // a short identifier, such as "dynamic-program"
	Text string `json:"text"` // the part as written, at most 80 bytes
	Pos  int    `json:"pos"`
}

// Floor names the family of the floor that a call falls under.
type Floor struct {
	Family      string `json:"family"`
	Description string `json:"description"`
}
