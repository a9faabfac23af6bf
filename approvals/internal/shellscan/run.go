package shellscan

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// Short names for what pathEffect is told most often.
const (
	effectRead  = effect.Read
	effectWrite = effect.Write
	viaOperand  = effect.ViaOperand
)

// execution is a program about to run, with what its table row made of it.
type execution struct {
	c     *simpleCmd
	name  string   // table name
	prog  *program // nil outside the table
	code  effect.Code
	canon []string
	cmd   int
	at    int // index of its exec effect
}

// run reads a program that is no wrapper.
func (w *walker) run(c *simpleCmd, name string) {
	word := c.args[0].text
	x := &execution{c: c, name: name, prog: lookup(name), cmd: w.cmds}
	shadowed := w.facts.funcs[word]
	if shadowed {
		x.prog = noProgram
	}
	w.programs(word)
	w.cmds++
	if strings.IndexByte(word, '/') >= 0 {
		w.s.Opaque = true
	}
	x.at = w.execEffect(c, name, x.cmd)
	w.record(record{name: name, args: c.args, redirs: c.redirs, pos: c.pos})
	w.redirectEffects(c.redirs, x.cmd)
	if shadowed {
		return
	}
	w.operands(x)
	e := &w.s.Effects[x.at]
	if w.tainted || w.codeNext {
		x.code = effect.CodeHidden
	}
	e.Code = x.code
	e.Canonical = x.canon
}

// execEffect adds the exec effect of c and returns its index.
func (w *walker) execEffect(c *simpleCmd, name string, cmd int) int {
	e := effect.Effect{Kind: effect.Exec, Pos: c.pos, Cmd: cmd}
	if name == "" {
		e.Cmd = w.cmds
		w.cmds++
		w.record(record{args: c.args, redirs: c.redirs, pos: c.pos})
		e.Code = effect.CodeHidden
	}
	e.Argv = make([]effect.Word, len(c.args))
	for i, a := range c.args {
		e.Argv[i] = effect.Word{Text: a.text, Static: a.known() && a.flags&fInput == 0}
		if !e.Argv[i].Static && a.node != nil && a.flags&fInput == 0 {
			e.Argv[i].Text = w.source(a.node)
		}
	}
	if len(w.wraps) > 0 {
		e.Wrappers = make([]string, len(w.wraps))
		for i, wr := range w.wraps {
			e.Wrappers[i] = wr.name
			e.Elevated = e.Elevated || wr.elevated
		}
	}
	w.s.Effects = append(w.s.Effects, e)
	if name == "" {
		w.redirectEffects(c.redirs, e.Cmd)
	}
	return len(w.s.Effects) - 1
}

// opaqueExec adds the exec effect of a script that is not shown.
func (w *walker) opaqueExec(c *simpleCmd) {
	e := effect.Effect{Kind: effect.Exec, Code: effect.CodeHidden, Pos: c.pos, Cmd: w.cmds, Argv: []effect.Word{{Text: "?"}}}
	for _, wr := range w.wraps {
		e.Wrappers = append(e.Wrappers, wr.name)
		e.Elevated = e.Elevated || wr.elevated
	}
	w.cmds++
	w.s.Effects = append(w.s.Effects, e)
}

// wrapExec adds the exec effect of a declaration builtin.
func (w *walker) wrapExec(d *syntax.DeclClause) {
	e := effect.Effect{Kind: effect.Exec, Pos: w.pos(d), Cmd: w.cmds}
	e.Argv = append(e.Argv, effect.Word{Text: d.Variant.Value, Static: true})
	for _, a := range d.Args {
		e.Argv = append(e.Argv, effect.Word{Text: w.source(a), Static: a.Naked && a.Value == nil})
		if a.Value != nil {
			e.Argv[len(e.Argv)-1].Static = w.r.word(a.Value).known()
		}
	}
	w.cmds++
	w.s.Effects = append(w.s.Effects, e)
}

// redirectEffects adds what redirections read, write and contact.
func (w *walker) redirectEffects(list []redir, cmd int) {
	for i := range list {
		r := &list[i]
		switch r.op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			continue
		case syntax.DplIn, syntax.DplOut:
			if descriptor(r.target.text) {
				continue
			}
		}
		if r.target.flags&fProc != 0 && r.target.text == "*" {
			continue
		}
		if host, port, ok := netPath(r.target.text); ok {
			w.connect(host, port, r.pos, cmd)
			continue
		}
		switch r.op {
		case syntax.RdrIn, syntax.DplIn:
			w.pathEffect(effect.Read, effect.ViaRedirect, r.target, true, false, r.pos, cmd)
		case syntax.RdrInOut:
			w.pathEffect(effect.Read, effect.ViaRedirect, r.target, true, false, r.pos, cmd)
			w.pathEffect(effect.Write, effect.ViaRedirect, r.target, true, false, r.pos, cmd)
		default:
			w.pathEffect(effect.Write, effect.ViaRedirect, r.target, true, false, r.pos, cmd)
		}
	}
}

// descriptor reports whether the target of >& names a descriptor.
func descriptor(s string) bool {
	s = strings.TrimSuffix(s, "-")
	return s == "" || digitsOnly(s)
}

// netPath splits bash's /dev/tcp/HOST/PORT.
func netPath(s string) (host, port string, ok bool) {
	rest, ok := strings.CutPrefix(s, "/dev/tcp/")
	if !ok {
		if rest, ok = strings.CutPrefix(s, "/dev/udp/"); !ok {
			return "", "", false
		}
	}
	host, port, _ = strings.Cut(rest, "/")
	return host, port, host != ""
}

// harmless reports whether a device takes or gives data without keeping it.
func harmless(p string) bool {
	switch p {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/random", "/dev/urandom", "-":
		return true
	}
	return strings.HasPrefix(p, "/dev/fd/")
}

// pathEffect adds a read or write of a path, once for each directory that
// a relative path may start from. listed puts it into the scan's lists.
func (w *walker) pathEffect(k effect.Kind, via effect.Via, v value, listed, dir bool, pos, cmd int) {
	if v.text == "" && v.known() {
		return
	}
	if listed && v.text != "/dev/null" {
		if k == effect.Write {
			w.s.Writes = append(w.s.Writes, v.asWritten())
		} else {
			w.s.Reads = append(w.s.Reads, v.asWritten())
		}
	}
	if harmless(v.text) && v.known() {
		return
	}
	e := effect.Effect{Kind: k, Via: via, Path: v.text, Static: v.known() && v.flags&fInput == 0, Dir: dir, Pos: pos, Cmd: cmd}
	abs := strings.HasPrefix(v.text, "/") || v.flags&fTilde != 0 && strings.HasPrefix(v.text, "~")
	switch {
	case abs:
		w.s.Effects = append(w.s.Effects, e)
	case w.dirs == nil:
		e.Path, e.Static = "*/"+v.text, false
		w.s.Effects = append(w.s.Effects, e)
	default:
		for _, d := range w.dirs {
			e.Path = joinDir(d, v.text)
			w.s.Effects = append(w.s.Effects, e)
		}
	}
}

// joinDir puts a relative path under a directory.
func joinDir(dir, p string) string {
	if dir == "" {
		return p
	}
	return path.Join(dir, p)
}

// changeDir follows a change of directory.
func (w *walker) changeDir(v value) {
	switch {
	case w.dirs == nil && !strings.HasPrefix(v.text, "/"), !v.known():
		w.dirs = nil
	case strings.HasPrefix(v.text, "/"):
		w.dirs = []string{path.Clean(v.text)}
	default:
		out := make([]string, len(w.dirs))
		for i, d := range w.dirs {
			out[i] = path.Join(d, v.text)
		}
		w.dirs = out
	}
}

// connect adds a host that is contacted.
func (w *walker) connect(host, port string, pos, cmd int) {
	if host == "" || host == "*" {
		return
	}
	w.s.Hosts = append(w.s.Hosts, strings.ToLower(host))
	w.s.Effects = append(w.s.Effects, effect.Effect{
		Kind: effect.Connect, Via: effect.ViaOperand, Host: canonicalHost(host), Port: port, Pos: pos, Cmd: cmd,
	})
}
