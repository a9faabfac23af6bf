package shellscan

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shells read scripts in a grammar that this package parses, or close to it.
var shells = map[string]bool{
	"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "ash": true, "mksh": true, "rbash": true, "hush": true,
}

var shellOptions = options{
	flags:  "abefhiklmnprstuvxBCDEHPTcVqy",
	values: "oO",
	long: "debugger dump-po-strings dump-strings help login noediting noprofile norc posix pretty-print restricted verbose version " +
		"rcfile= init-file=",
}

// stdin returns the redirection that feeds the command's standard input.
func (c *simpleCmd) stdin() *redir {
	for i := len(c.redirs) - 1; i >= 0; i-- {
		r := &c.redirs[i]
		if r.fd != "" && r.fd != "0" {
			continue
		}
		switch r.op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.RdrIn, syntax.RdrInOut, syntax.DplIn:
			return r
		}
	}
	return nil
}

// shell reads a shell with its script. It reports false when the shell is
// a program like any other: a script file, or input that is not shown.
func (w *walker) shell(c *simpleCmd, name string) bool {
	args := c.args[1:]
	for len(args) > 0 && len(args[0].text) > 1 && args[0].text[0] == '+' {
		args = args[1:]
	}
	p := shellOptions.parse(args, true)
	rest := args[min(p.rest, len(args)):]
	if p.has("help", "version") {
		return false
	}
	if rc, ok := p.get("rcfile", "init-file"); ok {
		w.codeNext = true
		w.pathEffect(effectRead, viaOperand, rc, false, false, c.pos, w.cmds)
	}
	if p.has("c") {
		if len(rest) == 0 {
			return false
		}
		w.wrap(name, false)
		w.shellScript(c, name, rest[0])
		return true
	}
	in := c.stdin()
	if len(rest) > 0 && !p.has("s") && !standardInput(rest[0].text) || in == nil || in.op != syntax.Hdoc && in.op != syntax.DashHdoc && in.op != syntax.WordHdoc {
		return false
	}
	w.wrap(name, false)
	w.redirectEffects(c.redirs, w.cmds)
	if !in.known {
		w.dynamicScript(c, in.body)
		return true
	}
	w.readScript(c, in.body, in.pos)
	return true
}

// standardInput reports whether a path names the standard input.
func standardInput(p string) bool {
	switch path.Clean(p) {
	case "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0":
		return true
	}
	return false
}

func (w *walker) shellScript(c *simpleCmd, name string, s value) {
	if name == "zsh" || name == "ksh" || name == "mksh" {
		w.unresolved("other-shell", s.text, c.pos)
	}
	if w.input {
		w.unresolved("xargs-shell", s.text, c.pos)
	}
	w.script(c, s, "")
}

// script reads a word as a shell script. repl is a placeholder that input
// replaces, or empty.
func (w *walker) script(c *simpleCmd, s value, repl string) {
	w.redirectEffects(c.redirs, w.cmds)
	if !s.known() || s.flags&fInput != 0 {
		w.dynamicScript(c, s.text)
		return
	}
	text := s.text
	if repl != "" {
		text = strings.ReplaceAll(text, repl, `"$1"`)
	}
	w.readScript(c, text, c.pos)
}

// joined reads words that are joined by spaces and read by a shell.
func (w *walker) joined(c *simpleCmd, args []value) {
	w.redirectEffects(c.redirs, w.cmds)
	if len(args) == 0 {
		return
	}
	parts := make([]string, len(args))
	for i, a := range args {
		if !a.known() {
			w.dynamicScript(c, a.text)
			return
		}
		parts[i] = a.text
	}
	w.readScript(c, strings.Join(parts, " "), c.pos)
}

// dynamicScript notes a script whose text is not known.
func (w *walker) dynamicScript(c *simpleCmd, text string) {
	w.programs("?")
	w.s.Opaque = true
	w.unresolved("dynamic-eval", text, c.pos)
	w.record(record{redirs: c.redirs, pos: c.pos})
	w.opaqueExec(c)
}

// readScript parses a script within the text and reads it in place.
func (w *walker) readScript(c *simpleCmd, text string, pos int) {
	if len(c.redirs) > 0 {
		w.record(record{redirs: c.redirs, pos: c.pos})
	}
	if w.depth >= maxDepth || len(text) > w.nested {
		w.unresolved("nested-too-deep", text, pos)
		w.programs("?")
		w.s.Opaque = true
		w.opaqueExec(c)
		return
	}
	w.nested -= len(text)
	file, err := (*syntax.File)(nil), error(nil)
	if refuseText(text) == "" {
		file, text, err = parseText(text)
	}
	if err != nil || file == nil {
		w.unresolved("nested-syntax", text, pos)
		w.programs("?")
		w.s.Opaque = true
		w.opaqueExec(c)
		return
	}
	keepText, keepAt := w.text, w.at
	w.text, w.at = text, pos
	w.depth++
	w.prepare(file)
	w.rawHiding(text)
	held := w.flow.held
	w.stmts(file.Stmts)
	w.flow.held = held
	w.depth--
	w.text, w.at = keepText, keepAt
}
