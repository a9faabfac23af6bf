package approvals

import (
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// allowed looks for what allows a call: one shell or tool entry, or entries
// that cover each of its effects. rates tells whether a rating is due.
func (p Posture) allowed(c *Reading) (r *rule, rates bool) {
	if !c.allowable() {
		return nil, false
	}
	var rules []*rule
	if p.Policy != nil {
		rules = p.Policy.allow
	}
	for _, r := range rules {
		if r.permits(c) {
			return r, r.rates
		}
	}
	if r := p.Grants.granted(c); r != nil {
		return r, r.rates
	}
	return covering(rules, c)
}

// allowable reports whether any allow entry may match: not when the text
// holds parts that nobody can judge before they run.
func (c *Reading) allowable() bool {
	if c.subject.Kind != SubjectShell {
		return true
	}
	return c.scan != nil && c.scan.Unreadable == "" && len(c.scan.Hiding) == 0 && len(c.scan.Unresolved) == 0
}

// permits is the allow side of the entries that speak for a whole call.
func (r *rule) permits(c *Reading) bool {
	switch r.entry.Type {
	case typeShell:
		return c.subject.Kind == SubjectShell && c.scan.Single && r.permitsText(c)
	case typeTool, typeMCP:
		return r.names(c.subject)
	}
	return false
}

func (r *rule) permitsText(c *Reading) bool {
	if r.entry.Matcher == matchExact {
		// The author saw the whole text and answers for all of it.
		return r.entry.Pattern == c.scan.Canonical || (r.words != nil && slices.Equal(r.words, c.scan.Words))
	}
	return r.text.match(c.scan.Canonical) && !c.surprising(r)
}

// surprising reports whether a single command does what the author of the
// pattern r cannot have seen: runs code that an option, a variable or a
// payload carries, runs another program than the pattern names, writes
// although its program is a reader, or reads a credential.
func (c *Reading) surprising(r *rule) bool {
	var run *Effect
	for i := range c.effects {
		e := &c.effects[i]
		if e.Kind != effect.Exec {
			continue
		}
		if run != nil || e.Code == effect.CodeHidden || aliased(e) || len(e.Argv) == 0 {
			return true
		}
		run = e
	}
	if run == nil || (len(run.Wrappers) > 0 && !r.namesProgram(run, c.scan.Words)) {
		return true
	}
	writer := isWriter(run.Argv)
	return slices.ContainsFunc(c.targets, func(t target) bool {
		if t.effect.Kind == effect.Write {
			return !writer && t.effect.Via != effect.ViaPossible
		}
		return c.credential(&t)
	})
}

// writers are the programs whose business is to write their operands, so
// that a pattern which names one means just that; gitWriters are git's.
var (
	writers = strings.Fields(`rm rmdir unlink shred mkdir touch cp mv ln tee install truncate dd chmod chown chgrp
		rsync tar zip unzip gzip gunzip xz bzip2 patch mkfifo mktemp split csplit gofmt gofumpt`)
	gitWriters = strings.Fields("clone init checkout restore switch worktree mv rm apply am clean reset stash archive format-patch bundle")
)

func isWriter(argv []Word) bool {
	name := baseName(argv[0].Text)
	return slices.Contains(writers, name) || (name == "git" && len(argv) > 1 && slices.Contains(gitWriters, argv[1].Text))
}

// namesProgram reports whether the fixed beginning of a glob reaches behind
// the wrappers of a command to its program.
func (r *rule) namesProgram(e *Effect, words []string) bool {
	before := len(words) - len(e.Argv)
	if r.entry.Matcher != matchGlob || before < 0 || !sameWords(e.Argv, words[before:]) {
		return false
	}
	head, _, _ := strings.Cut(r.entry.Pattern, "*")
	fixed, err := splitWords(head)
	return err == nil && len(fixed) > before
}

// aliased reports whether an operand stands for an option, as +main does
// for --force in a push.
func aliased(e *Effect) bool {
	isOption := func(s string) bool { return len(s) > 1 && s[0] == '-' }
	return slices.ContainsFunc(e.Canonical, isOption) && !slices.ContainsFunc(e.Argv, func(w Word) bool { return isOption(w.Text) })
}

// covering allows a call whose every effect has an entry. It names the
// entry of the first effect; one entry that rates makes the call rated.
func covering(rules []*rule, c *Reading) (named *rule, rates bool) {
	if !c.coverable() {
		return nil, false
	}
	cover := func(fits func(*rule) bool) bool {
		i := slices.IndexFunc(rules, fits)
		if i < 0 {
			return false
		}
		if named == nil {
			named = rules[i]
		}
		rates = rates || rules[i].rates
		return true
	}
	for i := range c.effects {
		e := &c.effects[i]
		ok := true
		switch e.Kind {
		case effect.Exec:
			ok = cover(func(r *rule) bool { return r.entry.Type == typeExec && r.coversArgv(e, c) }) || plumbing(e)
		case effect.Connect:
			ok = cover(func(r *rule) bool { return r.entry.Type == typeConnect && r.host.matches(e.Host, e.Port, true) })
		}
		if !ok {
			return nil, false
		}
	}
	for i := range c.targets {
		t := &c.targets[i]
		typ := c.needs(t)
		fits := func(r *rule) bool { return r.entry.Type == typ && r.path.matchTarget(t, c.sur, true) }
		if typ != "" && !cover(fits) {
			return nil, false
		}
	}
	return named, rates
}

// plumbing reports whether a command only hands its input on, so that the
// other effects say everything about it.
func plumbing(e *Effect) bool {
	return len(e.Argv) == 1 && e.Argv[0].Static && e.Argv[0].Text == "cat" && e.Code == effect.CodeNone && len(e.Wrappers) == 0
}

// coverable reports whether the effects of a call are all there is to it:
// so for shell text and for our own file and network tools.
func (c *Reading) coverable() bool {
	if c.subject.Kind == SubjectShell {
		return true
	}
	_, files := pathArgs[c.subject.Name]
	return c.subject.Kind == SubjectTool && (files || c.subject.Name == "gth_web_fetch")
}

// coversArgv is the allow side of an exec entry: the words of the pattern as
// written, the program without a slash, no code that hides in the rest.
func (r *rule) coversArgv(e *Effect, c *Reading) bool {
	if e.Code == effect.CodeHidden || aliased(e) || strings.Contains(r.words[0], "/") {
		return false
	}
	if e.Elevated {
		// Who becomes somebody else has to be named first, with every word
		// in between; that shows in a single command only.
		all := c.scan.Words
		named := c.scan.Single && len(r.words) > len(all)-len(e.Argv) && len(r.words) <= len(all)
		return named && slices.Equal(r.words, all[:len(r.words)]) && (r.entry.Matcher != matchExact || len(r.words) == len(all))
	}
	if len(e.Argv) < len(r.words) || (r.entry.Matcher == matchExact && len(e.Argv) != len(r.words)) {
		return false
	}
	for i, want := range r.words {
		if !e.Argv[i].Static || e.Argv[i].Text != want {
			return false
		}
	}
	return true
}

// needs returns the type of the entry that a path effect needs, or "".
func (c *Reading) needs(t *target) string {
	switch {
	case t.effect.Kind == effect.Write:
		if t.effect.Via == effect.ViaPossible || sink(t) {
			return ""
		}
		return typeWrite
	case c.credential(t), c.subject.Kind == SubjectTool && c.outside(t):
		return typeRead
	}
	return ""
}

// sink reports whether a write goes to a device that keeps nothing.
func sink(t *target) bool {
	switch t.effect.Path {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty":
		return true
	}
	return false
}

func (c *Reading) outside(t *target) bool {
	return slices.ContainsFunc(t.paths, func(s spot) bool { return !c.sur.holds(s.lex) || !c.sur.holds(s.real) })
}
