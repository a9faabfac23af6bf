package shellscan

import (
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// latent reads text that something other than the text's own tree hands to a
// shell: a program's option, a pipe, a second evaluation. What it does
// counts for rules and for the floor, as hidden code; in the lists of what
// the text shows it does not appear.
func (w *walker) latent(pos int, text string) {
	if refuseText(text) != "" || len(text) > w.nested {
		return
	}
	if _, err := parseTree(text); err != nil {
		return
	}
	w.unseen(func() { w.readScript(&simpleCmd{pos: pos}, text, pos) })
}

// latentWord does the same for text that is expanded like a word.
func (w *walker) latentWord(text string) {
	w.unseen(func() { w.hidden(text) })
}

func (w *walker) unseen(read func()) {
	s, flags, place, dirs, wraps, host, code := *w.s, w.flags, w.flow, w.dirs, w.wraps, w.host, w.codeNext
	w.flow, w.wraps, w.host = flow{}, nil, nil
	read()
	found := w.s.Effects
	for i := len(s.Effects); i < len(found); i++ {
		if found[i].Kind == effect.Exec {
			found[i].Code = effect.CodeHidden
		}
	}
	*w.s = s
	w.s.Effects = found
	w.flags, w.flow, w.dirs, w.wraps, w.host, w.codeNext = flags, place, dirs, wraps, host, code
}

// reevaluated reads values that a second evaluation of the text runs.
func (w *walker) reevaluated() {
	if len(w.facts.hostile) == 0 || !slices.ContainsFunc(w.s.Unresolved, func(m effect.Mechanism) bool {
		return m.Name == "second-evaluation" || m.Name == "indirect-parameter"
	}) {
		return
	}
	for _, text := range w.facts.hostile {
		w.latentWord(text)
	}
}

// piped reads scripts that a command prints into a shell.
func (w *walker) piped() {
	for i := range w.records {
		sh := w.records[i]
		if !shells[sh.name] || sh.flow.stage == 0 || !bareShell(&sh) || (&simpleCmd{redirs: sh.redirs}).stdin() != nil {
			continue
		}
		var script []string
		for j := range w.records {
			r := &w.records[j]
			if r.flow.id != sh.flow.id || r.flow.stage != sh.flow.stage-1 {
				continue
			}
			text, ok := printed(r)
			if !ok {
				script = nil
				break
			}
			script = append(script, text)
		}
		if script != nil {
			w.latent(sh.pos, strings.Join(script, "\n"))
		}
	}
}

// printed returns what a command prints, if its words tell.
func printed(r *record) (string, bool) {
	if len(r.args) == 0 {
		return "", false
	}
	words := make([]string, 0, len(r.args))
	for _, a := range r.args[1:] {
		if !a.known() || a.flags&fInput != 0 {
			return "", false
		}
		words = append(words, a.text)
	}
	switch r.name {
	case "echo":
		for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' && strings.Trim(words[0][1:], "neE") == "" {
			words = words[1:]
		}
		return strings.ReplaceAll(strings.Join(words, " "), `\n`, "\n"), true
	case "printf":
		if len(words) == 0 {
			return "", true
		}
		format := strings.ReplaceAll(words[0], `\n`, "\n")
		if len(words) > 1 {
			return strings.ReplaceAll(format, "%s", strings.Join(words[1:], "\n")), true
		}
		return format, true
	case "cat":
		if in := (&simpleCmd{redirs: r.redirs}).stdin(); len(words) == 0 && in != nil && in.body != "" && in.known {
			return in.body, true
		}
	}
	return "", false
}
