package shellscan

import (
	"net/netip"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// preflights fills EnvLeak and OpenWorld.
func (w *walker) preflights() {
	for i := range w.records {
		r := &w.records[i]
		if r.name == "" || len(r.args) == 0 {
			continue
		}
		w.envLeak(r.name, r.args[1:])
		w.openWorld(r)
	}
}

// interpreters take a script and hand their operands to it.
func interpreter(name string) bool {
	name = strings.TrimRight(name, "0123456789.")
	switch name {
	case "node", "deno", "bun", "python", "ruby", "perl", "php", "bash", "sh", "zsh", "ts-node", "tsx", "dash", "ksh":
		return true
	}
	return false
}

// envLeak notes variables that are expanded into the words of a script.
func (w *walker) envLeak(name string, args []value) {
	if !interpreter(name) {
		return
	}
	script := false
	for _, a := range args {
		script = script || scriptLike(a.text)
	}
	if !script {
		return
	}
	for _, a := range args {
		if a.node != nil {
			w.leaks(a.node.Parts)
		}
	}
}

func scriptLike(s string) bool {
	if s == "-c" || s == "-e" || len(s) > 2 && s[0] == '-' && s[1] != '-' && strings.HasSuffix(s, "c") {
		return true
	}
	for _, e := range []string{".js", ".mjs", ".cjs", ".ts", ".py", ".rb", ".pl", ".php", ".sh", ".bash", ".zsh"} {
		if strings.HasSuffix(s, e) {
			return true
		}
	}
	return false
}

func (w *walker) leaks(parts []syntax.WordPart) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.DblQuoted:
			w.leaks(p.Parts)
		case *syntax.ParamExp:
			if p.Param != nil && secretName(p.Param.Value) && !slices.Contains(w.s.EnvLeak, p.Param.Value) {
				w.s.EnvLeak = append(w.s.EnvLeak, p.Param.Value)
			}
		}
	}
}

func secretName(s string) bool {
	if len(s) < 2 || s[0] < 'A' || s[0] > 'Z' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; c != '_' && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// reach says which operands of a program may name a host.
type reach uint8

const (
	reachNone   reach = iota
	reachFull         // hosts without a scheme too
	reachAll          // all operands, in the forms that look like hosts
	reachGit          // by subcommand
	reachScheme       // only what has a scheme
)

func reachOf(name string) reach {
	switch name {
	case "curl", "wget", "aria2c", "http", "https", "httpie", "xh", "nc", "ncat", "netcat", "telnet", "ssh", "sftp", "ftp":
		return reachFull
	case "scp", "rsync", "aws", "gsutil", "az":
		return reachAll
	case "git":
		return reachGit
	case "npm", "pnpm", "yarn", "npx", "pip", "pip3":
		return reachScheme
	}
	return reachNone
}

// openWorld notes the host literals of a command that talks to others.
func (w *walker) openWorld(r *record) {
	name, args := r.name, r.args[1:]
	k := reachOf(name)
	if k == reachNone && r.args[0].node != nil {
		if src := w.source(r.args[0].node); strings.IndexByte(src, '\\') >= 0 {
			name = baseName(src[strings.LastIndexByte(src, '\\')+1:])
			k = reachOf(name)
		}
	}
	if k == reachNone {
		w.laterHeads(r)
		return
	}
	w.literals(name, k, args)
}

// laterHeads looks for a talking program among the operands of one that
// runs others and is not peeled.
func (w *walker) laterHeads(r *record) {
	row := lookup(r.name)
	if row != nil && row.code == runsNothing && row.extra != spDocker && r.name != "kubectl" {
		return
	}
	for i, a := range r.args[1:] {
		if k := reachOf(baseName(a.text)); k == reachFull || k == reachAll {
			w.literals(baseName(a.text), reachAll, r.args[i+2:])
			return
		}
	}
}

func (w *walker) literals(name string, k reach, args []value) {
	if k == reachScheme {
		w.packageHosts(args)
		return
	}
	sub := ""
	if k == reachGit {
		p := gitGlobal.parse(args, true)
		rest := args[min(p.rest, len(args)):]
		if len(rest) == 0 || !inList("clone push pull fetch remote submodule ls-remote archive config", rest[0].text) {
			return
		}
		sub, args = rest[0].text, rest[1:]
	}
	var dest []value
	if k == reachFull {
		if row := lookup(name); row != nil {
			p := row.opts.parse(args, false)
			dest = p.operands
			if name != "curl" && len(dest) > 1 {
				dest = dest[:1]
			}
		}
	}
	operand := 0
	for _, a := range args {
		t := a.text
		if strings.HasPrefix(t, "-") {
			_, v, ok := strings.Cut(t, "=")
			if !ok {
				continue
			}
			t = v
		} else {
			operand++
		}
		refspec := (sub == "push" || sub == "fetch" || sub == "pull") && operand > 1
		if a.flags&fDynamic != 0 && !strings.Contains(t, "://") {
			continue
		}
		if hostLiteral(t, k == reachFull, refspec) {
			w.foundHost(t)
		}
	}
	for _, d := range dest {
		if d.known() && bareHost(name, d.text) {
			w.foundHost(d.text)
		}
	}
}

// bareHost reports whether a destination is a host although nothing but
// its position says so.
func bareHost(name, s string) bool {
	switch name {
	case "ssh", "nc", "ncat", "netcat", "telnet":
		return s != "" && !strings.ContainsAny(s, "/ =*") && s != "localhost" && !digitsOnly(s)
	case "curl":
		host, _, _ := strings.Cut(s, ":")
		return dottedName(host)
	}
	return false
}

func (w *walker) foundHost(s string) {
	if !slices.Contains(w.s.OpenWorld, s) {
		w.s.OpenWorld = append(w.s.OpenWorld, s)
	}
}

// packageHosts looks at package managers: their registries, and operands
// with a scheme that are not a script's own.
func (w *walker) packageHosts(args []value) {
	script, behind := false, false
	for i := 0; i < len(args); i++ {
		t := args[i].text
		switch {
		case t == "run" || t == "run-script":
			script = true
		case t == "--":
			behind = true
		case t == "--registry" || t == "--index-url" || t == "--extra-index-url" || t == "-i":
			if i+1 < len(args) && args[i+1].known() {
				i++
				if strings.Contains(args[i].text, "://") {
					w.foundHost(args[i].text)
				}
			}
		case strings.HasPrefix(t, "--registry=") || strings.HasPrefix(t, "--index-url=") || strings.HasPrefix(t, "--extra-index-url="):
			w.foundHost(after(t, '='))
		case strings.HasPrefix(t, "-"):
		case strings.Contains(t, "://") && !(script && behind):
			w.foundHost(t)
		}
	}
}

// hostLiteral reports whether a word looks like a host or a URL.
func hostLiteral(s string, bare, refspec bool) bool {
	if strings.Contains(s, "://") {
		return true
	}
	if refspec || s == "" {
		return false
	}
	if i := strings.IndexByte(s, '@'); i > 0 && i+1 < len(s) {
		host, _, _ := strings.Cut(s[i+1:], ":")
		if hostChars(host) {
			return true
		}
	}
	if strings.HasPrefix(s, "[") && strings.Contains(s, "]") {
		_, err := netip.ParseAddr(s[1:strings.IndexByte(s, ']')])
		return err == nil
	}
	host, rest := s, ""
	if i := strings.IndexAny(s, ":/"); i >= 0 {
		host, rest = s[:i], s[i:]
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		return !cidr(rest)
	}
	if !dottedName(host) || rest == "" {
		return false
	}
	if rest[0] == ':' {
		return true
	}
	return bare
}

func cidr(rest string) bool {
	return len(rest) > 1 && rest[0] == '/' && digitsOnly(rest[1:])
}

func hostChars(s string) bool {
	for i := 0; i < len(s); i++ {
		if !wordByte(s[i]) && s[i] != '.' {
			return false
		}
	}
	return s != ""
}

// dottedName reports whether s is a name with dots whose last label has
// only letters, at least two.
func dottedName(s string) bool {
	i := strings.LastIndexByte(s, '.')
	if i <= 0 || len(s)-i < 3 || !hostChars(s) {
		return false
	}
	for _, c := range []byte(s[i+1:]) {
		if c|0x20 < 'a' || c|0x20 > 'z' {
			return false
		}
	}
	return true
}
