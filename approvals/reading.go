package approvals

import (
	"slices"

	"github.com/gth-server/gth-server/approvals/internal/effect"
	"github.com/gth-server/gth-server/approvals/internal/shellscan"
)

// maxRatedArguments is how much of a call a rater sees. A larger call is
// never rated.
const maxRatedArguments = 32 << 10

// Reading is a call, read once: subject, effects, script and digest. It is
// immutable and safe for concurrent use.
type Reading struct {
	call    Call
	place   Place
	subject Subject
	hosts   []string // of the arguments, for tools that are not the shell
	effects []Effect
	targets []target
	sur     *surroundings
	scan    *shellScan
	script  *Script
	texts   []foldedText // what deny and escalate shell entries compare with
	self    *Floor
	digest  string
}

// Read reads a call for a place. It never fails: what cannot be understood
// is in the reading and makes Evaluate ask or refuse.
func Read(call Call, place Place) *Reading {
	r := &Reading{call: call, place: place, sur: surroundingsOf(place), digest: digestOf(call, place.Cwd)}
	args := decodeArguments(call.Arguments)
	if call.Server != "" || call.Tool != ShellTool {
		r.hosts = hostsOf(args)
	}
	r.subject = subjectOf(call, args, r.hosts)
	if r.subject.Kind == SubjectShell {
		r.readShell(r.subject.Command)
	} else {
		r.effects = toolEffects(r.subject, args)
	}
	r.finish()
	return r
}

func (r *Reading) readShell(text string) {
	r.scan = shellscan.Parse(text, envOf(r.place))
	r.effects = r.scan.Effects
	if r.scan.Unreadable == "" {
		r.script = &Script{reading: r}
	}
	r.texts = r.comparedTexts(text)
}

func (r *Reading) finish() {
	r.targets = targetsOf(r.effects, r.place)
	r.self = selfFloor(r.effects, r.targets, r.place.Self)
}

// comparedTexts returns the normal forms that a shell entry on deny or
// escalate is compared with: the whole text and each command of the tree,
// with and without its wrappers, its program also by base name and its
// options also in canonical spelling.
func (r *Reading) comparedTexts(text string) []foldedText {
	var out []foldedText
	add := func(s string) {
		if s = normalForm(s); s != "" && !slices.ContainsFunc(out, func(f foldedText) bool { return f.text == s }) {
			out = append(out, fold(s))
		}
	}
	add(text)
	for i := range r.effects {
		e := &r.effects[i]
		if e.Kind != effect.Exec || len(e.Argv) == 0 {
			continue
		}
		plain := joinWords(e.Argv)
		add(plain)
		for w := range e.Wrappers {
			add(joinStrings(e.Wrappers[w:]) + " " + plain)
		}
		if b := baseName(e.Argv[0].Text); b != e.Argv[0].Text {
			add(b + plain[len(e.Argv[0].Text):])
		}
		if e.Canonical != nil {
			add(joinStrings(e.Canonical))
		}
		if split := gitCommand(e.Argv); split != nil {
			add(joinWords(split))
		}
	}
	return out
}

func joinStrings(s []string) string {
	out := ""
	for i, x := range s {
		if i > 0 {
			out += " "
		}
		out += x
	}
	return out
}

func joinWords(argv []Word) string {
	s := make([]string, len(argv))
	for i, w := range argv {
		s[i] = w.Text
	}
	return joinStrings(s)
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
