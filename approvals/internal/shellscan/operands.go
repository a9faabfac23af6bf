package shellscan

import (
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// operands adds what a program's options and operands do.
func (w *walker) operands(x *execution) {
	args := x.c.args[1:]
	if x.prog == nil {
		w.possible(x, args)
		return
	}
	if w.special(x, args) {
		return
	}
	p := x.prog.opts.parse(args, x.prog.code == runsScript)
	w.options(x, &p)
	x.canon = canonical(x.name, x.prog, &p, args)
	ops := p.operands
	if x.prog.code != runsNothing {
		w.runsCode(x, &p, args)
		if x.prog.code == runsScript {
			return
		}
	}
	w.roles(x, &p, ops)
	w.hosts(x, ops)
}

// possible treats every operand of an unknown program as read and written.
func (w *walker) possible(x *execution, args []value) {
	for _, a := range args {
		switch {
		case a.text == "" || a.text[0] == '-' && !strings.Contains(a.text, "="):
			continue
		case a.text[0] == '-':
			_, v, _ := strings.Cut(a.text, "=")
			a = suffix(a, v)
		}
		w.pathEffect(effect.Read, effect.ViaPossible, a, false, true, x.c.pos, x.cmd)
		w.pathEffect(effect.Write, effect.ViaPossible, a, false, true, x.c.pos, x.cmd)
	}
}

// options adds the effects of options that name files, hosts or code.
func (w *walker) options(x *execution, p *parsed) {
	row := x.prog
	if len(p.opts) == 0 {
		return
	}
	for i := range p.opts {
		o := &p.opts[i]
		if o.has && row.out != "" && inList(row.out, o.name) && o.val.text != "-" {
			w.pathEffect(effect.Write, viaOperand, o.val, true, false, x.c.pos, x.cmd)
		}
		if o.has && row.outBy != "" && inList(row.outBy, o.name) && o.val.text != "-" {
			w.pathEffect(effect.Write, viaOperand, o.val, false, false, x.c.pos, x.cmd)
		}
		if o.has && row.in != "" && inList(row.in, o.name) {
			w.pathEffect(effect.Read, viaOperand, o.val, true, false, x.c.pos, x.cmd)
		}
		if row.hidden != "" && inList(row.hidden, o.name) {
			x.code = effect.CodeHidden
		}
		if o.has && row.url != "" && inList(row.url, o.name) {
			w.hostOperand(o.val, x, row.net == netHost)
		}
	}
}

// inList reports whether a list of words separated by spaces has one.
func inList(list, word string) bool {
	for list != "" {
		var w string
		w, list, _ = strings.Cut(list, " ")
		if w == word {
			return true
		}
	}
	return false
}

// runsCode notes what kind of code an interpreter or build tool runs.
func (w *walker) runsCode(x *execution, p *parsed, args []value) {
	if p.has("version", "help", "V", "h", "?") && len(p.operands) == 0 && x.prog.code == runsScript {
		return
	}
	if len(args) == 1 && (args[0].text == "--version" || args[0].text == "--help" || args[0].text == "-v") {
		return
	}
	w.s.Opaque = true
	if x.prog.code == runsProject {
		x.code = max(x.code, effect.CodeDeclared)
		if w.foreignCode(x.name, args) {
			x.code = effect.CodeHidden
		}
		return
	}
	if scriptModule(x, p) || p.has("test") {
		x.code = max(x.code, effect.CodeDeclared)
		return
	}
	rest := args[min(p.rest, len(args)):]
	switch {
	case p.unknown || p.has("c", "e", "r", "eval", "print", "p", "require", "import", "loader", "experimental-loader", "m"):
		x.code = effect.CodeHidden
	case len(rest) == 0 || rest[0].text == "-":
		x.code = effect.CodeHidden
	default:
		x.code = max(x.code, effect.CodeDeclared)
		w.pathEffect(effect.Read, viaOperand, rest[0], true, false, x.c.pos, x.cmd)
		w.possible(x, rest[1:])
	}
}

// scriptModule reports whether the only code option is python's -m, which
// names a module as a path names a script.
func scriptModule(x *execution, p *parsed) bool {
	return strings.HasPrefix(x.name, "python") && p.has("m") && !p.has("c")
}

// roles adds reads and writes of operands.
func (w *walker) roles(x *execution, p *parsed, ops []value) {
	row := x.prog
	dir := row.dir || p.has("r", "R", "recursive")
	read := func(list []value) {
		for _, v := range list {
			w.pathEffect(effect.Read, viaOperand, v, true, true, x.c.pos, x.cmd)
		}
	}
	write := func(list []value, listed bool) {
		for _, v := range list {
			w.pathEffect(effect.Write, viaOperand, v, listed, dir, x.c.pos, x.cmd)
		}
	}
	switch row.role {
	case opNone:
	case opPossible:
		for _, v := range ops {
			if _, remote := remoteHost(v.text); remote && row.net == netRemote {
				continue
			}
			w.pathEffect(effect.Read, effect.ViaPossible, v, false, true, x.c.pos, x.cmd)
			w.pathEffect(effect.Write, effect.ViaPossible, v, false, true, x.c.pos, x.cmd)
		}
	case opRead:
		read(ops)
	case opRead1:
		if !p.has("e", "f", "regexp", "file", "expression", "from-file") && len(ops) > 0 {
			ops = ops[1:]
		}
		read(ops)
	case opWrite:
		write(ops, true)
	case opRemove:
		write(ops, false)
	case opChange:
		if len(ops) > 0 && !p.has("reference") && changeFirst(x.name) {
			ops = ops[1:]
		}
		write(ops, false)
	case opWriteRest:
		if len(ops) > 0 {
			read(ops[:1])
			write(ops[1:], true)
		}
	case opCopy, opMove, opWriteLast:
		w.copies(x, p, ops, read, write)
	}
}

// changeFirst reports whether the first operand is a mode or an owner.
func changeFirst(name string) bool {
	switch name {
	case "chmod", "chown", "chgrp", "chattr":
		return true
	}
	return false
}

// copies adds the effects of cp, mv and ln.
func (w *walker) copies(x *execution, p *parsed, ops []value, read func([]value), write func([]value, bool)) {
	from, to := ops, []value(nil)
	if t, ok := p.get("t", "target-directory"); ok {
		to = []value{t}
	} else if len(ops) > 1 {
		from, to = ops[:len(ops)-1], ops[len(ops)-1:]
	}
	if x.prog.extra == spLn {
		write(to, true)
		if len(to) == 0 {
			write([]value{{text: "."}}, false)
		}
		return
	}
	if x.name == "install" && p.has("d", "directory") {
		write(ops, true)
		return
	}
	if x.prog.role == opMove {
		write(from, false)
	}
	read(from)
	write(to, true)
}

// hosts adds the hosts among operands.
func (w *walker) hosts(x *execution, ops []value) {
	switch x.prog.net {
	case netNone:
	case netHost:
		for _, v := range ops {
			w.hostOperand(v, x, true)
		}
	case netFirst:
		if len(ops) > 0 {
			w.hostOperand(ops[0], x, true)
		}
	case netRemote:
		for _, v := range ops {
			if h, port, ok := urlHost(v.text); ok {
				w.connect(h, port, x.c.pos, x.cmd)
			} else if h, ok := remoteHost(v.text); ok {
				w.connect(h, "", x.c.pos, x.cmd)
			}
		}
	case netURL:
		for _, v := range ops {
			w.hostOperand(v, x, false)
		}
	}
}

// hostOperand adds the host of a URL; with bare also of a word without a
// scheme.
func (w *walker) hostOperand(v value, x *execution, bare bool) {
	text := strings.ReplaceAll(v.text, `\`, "/")
	if strings.Contains(v.text, `\`) {
		// Clients take a backslash in the authority for text before the @.
		if i := strings.Index(v.text, "://"); i >= 0 && strings.Contains(v.text[i:], "@") {
			text = strings.ReplaceAll(v.text, `\`, "")
		}
	}
	if h, port, ok := urlHost(text); ok {
		w.connect(h, port, x.c.pos, x.cmd)
		return
	}
	if i := strings.Index(text, "+ssh://"); i > 0 {
		if h, port, ok := urlHost(text[i+1:]); ok {
			w.connect(h, port, x.c.pos, x.cmd)
		}
		return
	}
	if !bare || text == "" || text[0] == '-' || text[0] == '/' || text[0] == '.' || text[0] == '@' || text[0] == '+' {
		return
	}
	if h, port, ok := splitAuthority(text); ok && !strings.ContainsAny(h, " =") {
		w.connect(h, port, x.c.pos, x.cmd)
	}
}

// canonical spells a command so that equal ones look equal: short options
// replaced by their long names and sorted, operands behind. It is nil when
// the row has no such names or a word is not known.
func canonical(name string, row *program, p *parsed, args []value) []string {
	if row.same == "" || p.unknown {
		return nil
	}
	for _, a := range args {
		if !a.known() || a.flags&fInput != 0 {
			return nil
		}
	}
	return canonWords([]string{name}, row.same, p.opts, p.operands)
}

func canonWords(out []string, same string, opts []option, ops []value) []string {
	start := len(out)
	for _, o := range opts {
		out = append(out, canonOption(same, o))
	}
	slices.Sort(out[start:])
	out = slices.Compact(out)
	for _, v := range ops {
		if strings.HasPrefix(v.text, "-") {
			out = append(out, "--")
			break
		}
	}
	for _, v := range ops {
		out = append(out, v.text)
	}
	return out
}

func canonOption(same string, o option) string {
	name := "--" + o.name
	if len(o.name) == 1 {
		name = "-" + o.name
		for list := same; list != ""; {
			var pair string
			pair, list, _ = strings.Cut(list, " ")
			if short, long, ok := strings.Cut(pair, "="); ok && short == o.name {
				name = "--" + long
			}
		}
	}
	if o.has {
		name += "=" + o.val.text
	}
	return name
}
