package shellscan

import (
	"path"
	"strings"

	"golang.org/x/text/unicode/norm"
	"mvdan.cc/sh/v3/syntax"
)

// wrapper says how a program that runs another one names it.
type wrapper struct {
	opts options
	// skip is the number of operands before the command.
	skip int
	// assigns tells that NAME=VALUE may stand before the command.
	assigns bool
	// elevated tells that it changes user, root, host or container.
	elevated bool
	// script names the options whose value is a shell script.
	script string
	// quiet names the options with which no command runs.
	quiet string
	// join tells that the command's words are joined and read by a shell.
	join bool
	// input tells that words from input are added to the command.
	input bool
	// out names the options whose value is a file that is written.
	out string
	// permute tells that options may follow operands.
	permute bool
	// alone tells that without a command a shell starts.
	alone bool
}

// baseName is the name under which the table knows a program: the last
// element of its path, compatibility forms and case folded, as some
// systems start RM or fullwidth letters as well.
func baseName(word string) string {
	base := word
	if strings.IndexByte(word, '/') >= 0 {
		base = path.Base(word)
	}
	ascii := true
	for i := 0; i < len(base); i++ {
		c := base[i]
		if c >= 0x80 {
			ascii = false
			break
		}
		if c >= 'A' && c <= 'Z' {
			ascii = false
		}
	}
	if !ascii {
		base = strings.ToLower(norm.NFKC.String(base))
	}
	return strings.TrimSuffix(base, ".exe")
}

// simple reads a simple command: wrappers are peeled off, scripts within
// it are read, and what is left becomes effects.
func (w *walker) simple(c *simpleCmd) {
	if len(c.args) == 0 {
		w.bare(c)
		w.codeNext = false
		return
	}
	keep, input, code, dirs := len(w.wraps), w.input, w.codeNext, w.dirs
	w.peel(c)
	if len(w.wraps) > keep {
		w.dirs = dirs
	}
	w.wraps = w.wraps[:keep]
	w.input, w.codeNext = input, code
	w.codeNext = false
}

// bare reads a command without a word: its redirects happen all the same.
func (w *walker) bare(c *simpleCmd) {
	if len(c.redirs) > 0 {
		w.redirectEffects(c.redirs, w.cmds)
		w.record(record{redirs: c.redirs, pos: c.pos})
	}
}

// peel takes wrappers off c until a program is left.
func (w *walker) peel(c *simpleCmd) {
	for n := 0; ; n++ {
		if len(c.args) == 0 {
			w.bare(c)
			return
		}
		if n > maxWrappers {
			w.hiding("too-many-wrappers", c.args[0].text, c.pos)
			w.dynamicProgram(c)
			return
		}
		word := c.args[0]
		if !word.known() || word.text == "" {
			w.dynamicProgram(c)
			return
		}
		name := baseName(word.text)
		if w.timeDash(c, word.text) {
			continue
		}
		if sh := shells[name]; sh && w.shell(c, name) {
			return
		}
		wr := wrappers[name]
		if wr == nil || w.facts.funcs[word.text] {
			w.run(c, name)
			return
		}
		if name == "exec" && len(c.args) == 1 {
			w.run(c, name)
			return
		}
		if !w.unwrap(c, name, wr) {
			return
		}
	}
}

// timeDash drops the option words that the parser leaves behind the
// reserved word time.
func (w *walker) timeDash(c *simpleCmd, word string) bool {
	if len(w.wraps) == 0 || w.wraps[len(w.wraps)-1].name != "time" || c.call == nil || word != "--" && word != "-p" {
		return false
	}
	c.args = c.args[1:]
	return true
}

func (w *walker) dynamicProgram(c *simpleCmd) {
	w.programs("?")
	w.unresolved("dynamic-program", c.args[0].text, c.pos)
	w.execEffect(c, "", 0)
}

func (w *walker) wrap(name string, elevated bool) {
	w.wrapped(name)
	w.wraps = append(w.wraps, wrap{name: name, elevated: elevated})
}

// unwrap peels one wrapper. It reports whether c now holds the command
// within; otherwise everything about c has been said.
func (w *walker) unwrap(c *simpleCmd, name string, wr *wrapper) bool {
	switch name {
	case "eval":
		w.wrap(name, false)
		rest := c.args[1:]
		if len(rest) > 0 && rest[0].text == "--" {
			rest = rest[1:]
		}
		w.joined(c, rest)
		return false
	case "parallel":
		return w.parallel(c, wr)
	}
	p := wr.opts.parse(c.args[1:], !wr.permute)
	if wr.quiet != "" && p.has(strings.Fields(wr.quiet)...) {
		w.run(c, name)
		return false
	}
	rest := p.operands
	if !wr.permute {
		rest = c.args[1+p.rest:]
	}
	if wr.script != "" {
		if s, ok := p.get(strings.Fields(wr.script)...); ok {
			return w.scriptOption(c, name, wr, p, s, rest)
		}
	}
	if p.unknown {
		w.unresolved("unknown-option", c.args[0].text, c.pos)
		w.run(c, name)
		return false
	}
	if name == "env" && len(rest) > 0 && rest[0].text == "-" {
		rest = rest[1:] // an empty environment
	}
	if wr.assigns {
		rest = w.envWords(rest)
	}
	for range wr.skip {
		if len(rest) == 0 {
			break
		}
		rest = rest[1:]
	}
	if name == "flock" && len(rest) == 2 && (rest[0].text == "-c" || rest[0].text == "--command") {
		w.wrap(name, false)
		w.script(c, rest[1], "")
		return false
	}
	if len(rest) == 0 {
		w.run(c, name)
		if wr.alone {
			w.ownShell(c)
		}
		return false
	}
	if p.dynamic && !rest[0].known() {
		w.unresolved("dynamic-option", c.args[0].text, c.pos)
	}
	w.wrapOptions(c, name, wr, p)
	w.wrap(name, wr.elevated)
	if wr.join && !p.has("x", "exec") {
		w.joined(c, rest)
		return false
	}
	if wr.input {
		rest = w.appendInput(rest, p)
	}
	c.args = rest
	return true
}

// ownShell reads the shell that a wrapper without a command starts.
func (w *walker) ownShell(c *simpleCmd) {
	in := c.stdin()
	if in == nil || in.op == syntax.RdrIn || in.op == syntax.RdrInOut || in.op == syntax.DplIn {
		w.s.Opaque = true
		return
	}
	if !in.known {
		w.dynamicScript(c, in.body)
		return
	}
	w.readScript(&simpleCmd{pos: c.pos}, in.body, in.pos)
}

// wrapOptions notes what a wrapper's own options do: files it writes and
// the directory it changes to.
func (w *walker) wrapOptions(c *simpleCmd, name string, wr *wrapper, p parsed) {
	if wr.out != "" {
		if f, ok := p.get(strings.Fields(wr.out)...); ok {
			w.pathEffect(effectWrite, viaOperand, f, name == "time", false, c.pos, w.cmds)
		}
	}
	switch name {
	case "env", "sudo":
		if d, ok := p.get("C", "chdir"); ok && name == "env" {
			w.changeDir(d)
		} else if d, ok := p.get("D", "chdir"); ok && name == "sudo" {
			w.changeDir(d)
		}
	case "chroot":
		w.dirs = nil
	}
}

// scriptOption handles wrappers with -c SCRIPT and env -S.
func (w *walker) scriptOption(c *simpleCmd, name string, wr *wrapper, p parsed, s value, rest []value) bool {
	w.wrapOptions(c, name, wr, p)
	w.wrap(name, wr.elevated)
	if name != "env" {
		w.script(c, s, "")
		return false
	}
	words, ok := splitEnv(s)
	if !ok {
		w.unresolved("dynamic-eval", s.text, c.pos)
		w.programs("?")
		return false
	}
	c.args = w.envWords(append(words, rest...))
	return len(c.args) > 0
}

// envWords skips assignments before a command and notes those that carry
// code.
func (w *walker) envWords(args []value) []value {
	for len(args) > 0 {
		name, val, ok := strings.Cut(args[0].text, "=")
		if !ok || name == "" || strings.ContainsAny(name, "/ ") {
			break
		}
		w.assignment(name, suffix(args[0], val), true)
		args = args[1:]
	}
	return args
}

// fInput marks words that a wrapper adds from input.
const fInput flag = 1 << 12

func (w *walker) appendInput(rest []value, p parsed) []value {
	w.input = true
	repl := ""
	if v, ok := p.get("I", "replace", "i", "J"); ok {
		repl = v.text
		if repl == "" {
			repl = "{}"
		}
	}
	out := make([]value, 0, len(rest)+1)
	out = append(out, rest...)
	if repl == "" {
		return append(out, value{text: "*", flags: fInput})
	}
	return placeholders(out, repl)
}

// placeholders marks the words in which a wrapper puts input.
func placeholders(args []value, repl string) []value {
	for i, a := range args {
		if strings.Contains(a.text, repl) {
			a.text = strings.ReplaceAll(a.text, repl, "*")
			a.flags |= fInput
			args[i] = a
		}
	}
	return args
}

// maxGiven bounds how many of the values of parallel are looked at.
const maxGiven = 64

// eachGiven reads the command lines that parallel makes of the values behind
// its colons. Without a command the values are the commands.
func (w *walker) eachGiven(c *simpleCmd, command, given []value) {
	words := make([]string, len(command))
	for i, a := range command {
		if words[i] = a.text; !a.known() {
			return
		}
	}
	template := strings.Join(words, " ")
	for i, v := range given {
		if i == maxGiven || !v.known() || strings.HasPrefix(v.text, ":::") {
			return
		}
		line := v.text
		if template != "" {
			if line = strings.ReplaceAll(template, "{}", v.text); line == template {
				line += " " + v.text
			}
		}
		w.latent(c.pos, line)
	}
}

// parallel reads GNU parallel, whose command is a template for a shell.
func (w *walker) parallel(c *simpleCmd, wr *wrapper) bool {
	p := wr.opts.parse(c.args[1:], true)
	rest := c.args[1+p.rest:]
	var given []value
	for i, a := range rest {
		if strings.HasPrefix(a.text, ":::") {
			given, rest = rest[i+1:], rest[:i]
			break
		}
	}
	w.eachGiven(c, rest, given)
	if p.unknown {
		w.unresolved("unknown-option", c.args[0].text, c.pos)
	}
	if len(rest) == 0 {
		w.run(c, "parallel")
		w.s.Opaque = true
		return false
	}
	w.wrap("parallel", false)
	w.input = true
	if len(rest) == 1 && strings.ContainsAny(rest[0].text, " \t;|&$") {
		w.script(c, rest[0], "{}")
		return false
	}
	out := append([]value(nil), rest...)
	out = placeholders(out, "{}")
	c.args = append(out, value{text: "*", flags: fInput})
	return true
}
