package shellscan

import (
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// special handles the programs with rules of their own. It reports whether
// nothing is left to do.
func (w *walker) special(x *execution, args []value) bool {
	switch x.prog.extra {
	case spFind:
		w.find(x, args)
	case spFd:
		w.fd(x, args)
	case spGit:
		w.git(x, args)
	case spDD:
		w.dd(x, args)
	case spNC:
		w.nc(x, args)
	case spSocat:
		w.socat(x, args)
	case spCd:
		w.cd(x, args)
	case spPopd:
		w.dirs = nil
	case spTest:
		w.test(x, args)
	case spPrintf:
		if len(args) > 1 && args[0].text == "-v" {
			w.nameOperand(args[1], x.c.pos)
		}
	case spRead:
		p := x.prog.opts.parse(args, false)
		for _, v := range p.operands {
			w.nameOperand(v, x.c.pos)
		}
		if v, ok := p.get("a"); ok {
			w.nameOperand(v, x.c.pos)
		}
	case spMapfile:
		w.mapfile(x, args)
	case spTrap:
		w.trap(x, args)
	case spUnset:
		for _, v := range x.prog.opts.parse(args, false).operands {
			w.nameOperand(v, x.c.pos)
		}
	case spDocker:
		w.docker(x, args)
	default:
		return w.partly(x, args)
	}
	return true
}

// partly handles programs whose special rules come before the usual ones.
func (w *walker) partly(x *execution, args []value) bool {
	switch x.prog.extra {
	case spSource:
		w.s.Opaque = true
		x.code = effect.CodeDeclared
		if len(args) > 0 && !args[0].known() {
			w.unresolved("dynamic-source", args[0].text, x.c.pos)
			x.code = effect.CodeHidden
		}
		if in := x.c.stdin(); len(args) > 0 && standardInput(args[0].text) && in != nil && in.known {
			w.latent(x.c.pos, in.body)
		}
	case spSed:
		w.sed(x, args)
	case spAwk:
		w.awk(x, args)
	case spSSH:
		w.s.Opaque = true
		p := x.prog.opts.parse(args, true)
		x.code = effect.CodeDeclared
		for _, o := range p.opts {
			if o.name == "o" && codeSetting(o.val.text) {
				x.code = effect.CodeHidden
			}
		}
		rest := args[min(p.rest, len(args)):]
		w.options(x, &p)
		if len(rest) > 0 {
			w.hostOperand(rest[0], x, true)
		}
		if len(rest) > 1 {
			w.unresolved("remote-command", rest[1].text, x.c.pos)
		}
		return true
	case spOpenssl:
		p := x.prog.opts.parse(args, false)
		if v, ok := p.get("connect", "host"); ok {
			w.hostOperand(v, x, true)
		}
	case spXxd:
		p := x.prog.opts.parse(args, false)
		if len(p.operands) > 1 {
			w.pathEffect(effect.Write, viaOperand, p.operands[1], false, false, x.c.pos, x.cmd)
		}
	case spEnable:
		if p := x.prog.opts.parse(args, false); p.has("f") {
			x.code = effect.CodeHidden
		}
	case spCurl, spWget:
		w.uploads(x, args)
	case spSub:
		w.subcommand(x, args)
	case spLess:
		for _, a := range args {
			if strings.HasPrefix(a.text, "+") && strings.ContainsAny(a.text, "!|") {
				x.code = effect.CodeHidden
			}
		}
	}
	return false
}

// codeSetting reports whether an ssh setting runs a command.
func codeSetting(s string) bool {
	name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(s)), "=")
	switch strings.TrimSpace(name) {
	case "localcommand", "proxycommand", "permitlocalcommand", "knownhostscommand", "match", "pkcs11provider", "securitykeyprovider", "include":
		return true
	}
	return false
}

// find reads find: start paths, actions that write, commands it runs.
func (w *walker) find(x *execution, args []value) {
	starts := 0
	for starts < len(args) {
		t := args[starts].text
		if t != "" && (t[0] == '-' && t != "-H" && t != "-L" && t != "-P" || t == "(" || t == "!" || t == ")") {
			break
		}
		starts++
	}
	paths := args[:starts]
	if len(paths) == 0 {
		paths = []value{{text: "."}}
	}
	for _, p := range paths {
		if !strings.HasPrefix(p.text, "-") {
			w.pathEffect(effect.Read, viaOperand, p, true, true, x.c.pos, x.cmd)
		}
	}
	for i := starts; i < len(args); i++ {
		switch args[i].text {
		case "-delete":
			for _, p := range paths {
				w.pathEffect(effect.Write, viaOperand, p, false, true, x.c.pos, x.cmd)
			}
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			if i+1 < len(args) {
				i++
				w.pathEffect(effect.Write, viaOperand, args[i], true, false, x.c.pos, x.cmd)
			}
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(args) && args[end].text != ";" && (args[end].text != "+" || args[end-1].text != "{}") {
				end++
			}
			w.innerCommand(x, args[i+1:end], paths, findFilters(args), args[i].text == "-execdir" || args[i].text == "-okdir")
			i = end
		}
	}
}

// innerCommand reads a command that another one runs on paths below some
// directories.
func (w *walker) innerCommand(x *execution, argv []value, paths []value, filtered, moves bool) {
	if len(argv) == 0 {
		return
	}
	in := make([]value, 0, len(argv)+len(paths))
	for _, a := range argv {
		if strings.Contains(a.text, "{}") {
			for _, p := range paths {
				v := a
				v.text = strings.ReplaceAll(a.text, "{}", p.text)
				v.written = ""
				v.flags |= fInput | p.flags
				if filtered {
					v.flags |= fFiltered
				}
				in = append(in, v)
			}
			continue
		}
		in = append(in, a)
	}
	dirs, input := w.dirs, w.input
	if moves {
		w.dirs = nil
	}
	w.input = true
	w.simple(&simpleCmd{args: in, pos: x.c.pos})
	w.dirs, w.input = dirs, input
}

func (w *walker) fd(x *execution, args []value) {
	for i, a := range args {
		switch a.text {
		case "-x", "-X", "--exec", "--exec-batch":
			w.innerCommand(x, append(append([]value(nil), args[i+1:]...), value{text: "{}", flags: fInput}), []value{{text: "."}}, true, false)
			return
		}
	}
}

func (w *walker) dd(x *execution, args []value) {
	for _, a := range args {
		name, val, _ := strings.Cut(a.text, "=")
		switch name {
		case "of":
			w.pathEffect(effect.Write, viaOperand, suffix(a, val), true, false, x.c.pos, x.cmd)
		case "if":
			w.pathEffect(effect.Read, viaOperand, suffix(a, val), true, false, x.c.pos, x.cmd)
		}
	}
}

func (w *walker) nc(x *execution, args []value) {
	p := x.prog.opts.parse(args, false)
	w.options(x, &p)
	if len(p.operands) > 0 && !(len(p.operands) == 1 && digitsOnly(p.operands[0].text)) {
		port := ""
		if len(p.operands) > 1 {
			port = p.operands[1].text
		}
		w.connect(p.operands[0].text, port, x.c.pos, x.cmd)
	}
}

// socat reads the two addresses of socat.
func (w *walker) socat(x *execution, args []value) {
	p := x.prog.opts.parse(args, false)
	for _, v := range p.operands {
		kind, rest, _ := strings.Cut(v.text, ":")
		switch strings.ToUpper(kind) {
		case "EXEC", "SYSTEM", "SHELL":
			x.code = effect.CodeHidden
		case "TCP", "TCP4", "TCP6", "TCP-CONNECT", "TCP4-CONNECT", "TCP6-CONNECT", "OPENSSL", "SSL", "OPENSSL-CONNECT", "UDP", "UDP4", "UDP6", "UDP-CONNECT", "SCTP", "SCTP-CONNECT":
			rest, _, _ = strings.Cut(rest, ",")
			if h, port, ok := splitAuthority(rest); ok {
				w.connect(h, port, x.c.pos, x.cmd)
			}
		case "PROXY", "SOCKS4", "SOCKS4A", "SOCKS5":
			h, _, _ := strings.Cut(rest, ":")
			w.connect(h, "", x.c.pos, x.cmd)
		case "CREATE", "OPEN", "FILE", "GOPEN":
			rest, _, _ = strings.Cut(rest, ",")
			w.pathEffect(effect.Write, viaOperand, value{text: rest, flags: v.flags}, false, false, x.c.pos, x.cmd)
			w.pathEffect(effect.Read, viaOperand, value{text: rest, flags: v.flags}, false, false, x.c.pos, x.cmd)
		}
	}
}

func (w *walker) cd(x *execution, args []value) {
	for len(args) > 0 && len(args[0].text) > 1 && args[0].text[0] == '-' && strings.Trim(args[0].text[1:], "LPe@-") == "" {
		args = args[1:]
	}
	switch {
	case len(args) == 0 && x.name == "cd":
		if w.r.homeKnown && w.r.env.Home != "" {
			w.dirs = []string{w.r.env.Home}
		} else {
			w.dirs = nil
		}
	case len(args) != 1 || args[0].text == "-" || args[0].text == "" || x.name == "pushd" && strings.HasPrefix(args[0].text, "+"):
		w.dirs = nil
	default:
		w.changeDir(args[0])
	}
}

// test reads test and [, of which -v and -R take the name of a variable.
func (w *walker) test(x *execution, args []value) {
	for i := 0; i+1 < len(args); i++ {
		if t := args[i].text; (t == "-v" || t == "-R") && args[i+1].text != "]" {
			w.nameOperand(args[i+1], x.c.pos)
		}
	}
}

func (w *walker) mapfile(x *execution, args []value) {
	p := x.prog.opts.parse(args, false)
	for _, v := range p.operands {
		w.nameOperand(v, x.c.pos)
	}
	if code, ok := p.get("C"); ok {
		x.code = effect.CodeHidden
		w.s.Opaque = true
		w.unresolved("second-evaluation", code.text, x.c.pos)
	}
}

// trap reads the script of a trap, which runs later.
func (w *walker) trap(x *execution, args []value) {
	for len(args) > 0 && (args[0].text == "--" || args[0].text == "-l" || args[0].text == "-p") {
		if args[0].text != "--" {
			return
		}
		args = args[1:]
	}
	if len(args) < 2 || args[0].text == "-" || args[0].text == "" || digitsOnly(args[0].text) {
		return
	}
	dirs := w.dirs
	w.script(&simpleCmd{args: args, pos: x.c.pos}, args[0], "")
	w.dirs = dirs
}

// sed finds the file that -i edits and commands that run or write.
func (w *walker) sed(x *execution, args []value) {
	p := x.prog.opts.parse(args, false)
	scripts, files := sedScripts(&p)
	for _, s := range scripts {
		if sedRuns(s.text) {
			x.code = effect.CodeHidden
		}
		for _, f := range sedFiles(s.text) {
			w.pathEffect(effect.Write, viaOperand, value{text: f, flags: s.flags}, false, false, x.c.pos, x.cmd)
		}
	}
	if p.has("i", "in-place") {
		for _, f := range files {
			w.pathEffect(effect.Write, viaOperand, f, true, false, x.c.pos, x.cmd)
		}
	}
}

func sedScripts(p *parsed) (scripts, files []value) {
	for _, o := range p.opts {
		if o.name == "e" || o.name == "expression" {
			scripts = append(scripts, o.val)
		}
	}
	files = p.operands
	if len(scripts) == 0 && !p.has("f", "file") && len(files) > 0 {
		return files[:1], files[1:]
	}
	return scripts, files
}

// sedRuns reports whether a sed script may run a command: the e command,
// or the e flag of s.
func sedRuns(s string) bool {
	for _, line := range strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == ';' }) {
		line = strings.TrimLeft(line, " \t{0123456789,$!")
		if line == "e" || strings.HasPrefix(line, "e ") {
			return true
		}
		if flags, ok := sedSubstitution(line); ok && strings.ContainsRune(strings.SplitN(flags, "w", 2)[0], 'e') {
			return true
		}
	}
	return false
}

// sedSubstitution returns the flags behind s/…/…/.
func sedSubstitution(line string) (string, bool) {
	if len(line) < 4 || line[0] != 's' {
		return "", false
	}
	sep := line[1]
	n := 0
	for i := 2; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case sep:
			if n++; n == 2 {
				return line[i+1:], true
			}
		}
	}
	return "", false
}

// sedFiles returns the files that a sed script writes.
func sedFiles(s string) (out []string) {
	for _, line := range strings.Split(s, "\n") {
		t := strings.TrimLeft(line, " \t{0123456789,$!")
		if f, ok := strings.CutPrefix(t, "w "); ok {
			out = append(out, strings.TrimSpace(f))
		}
		if flags, ok := sedSubstitution(t); ok {
			if _, f, ok := strings.Cut(flags, "w "); ok {
				out = append(out, strings.TrimSpace(f))
			}
		}
	}
	return out
}

// awk looks for the ways in which an awk program runs commands.
func (w *walker) awk(x *execution, args []value) {
	p := x.prog.opts.parse(args, false)
	if p.has("f", "file", "E", "exec", "l", "load", "i", "include") {
		w.s.Opaque = true
		x.code = effect.CodeDeclared
	}
	var scripts []value
	for _, o := range p.opts {
		if o.name == "e" || o.name == "source" {
			scripts = append(scripts, o.val)
		}
	}
	if len(scripts) == 0 && !p.has("f", "file", "E", "exec") && len(p.operands) > 0 {
		scripts = p.operands[:1]
	}
	for _, s := range scripts {
		if !s.known() || awkRuns(s.text) {
			w.s.Opaque = true
			x.code = effect.CodeHidden
		} else if strings.Contains(s.text, ">") && strings.Contains(s.text, "print") {
			x.code = max(x.code, effect.CodeHidden)
		}
	}
}

func awkRuns(s string) bool {
	if strings.Contains(s, "system") || strings.Contains(s, "@") {
		return true
	}
	// A single bar is a pipe to or from a command.
	bare := strings.ReplaceAll(s, "||", "")
	return strings.Contains(bare, "|") && (strings.Contains(s, "print") || strings.Contains(s, "getline"))
}
