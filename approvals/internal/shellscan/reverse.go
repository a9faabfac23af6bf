package shellscan

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// reverseShell reports whether an interactive shell is tied to a socket.
func (w *walker) reverseShell() bool {
	sockets := w.socketDescriptors()
	for i := range w.records {
		r := &w.records[i]
		switch {
		case shells[r.name]:
			if bareShell(r) && (socketRedirects(r.redirs, sockets) || w.fifoLoop(i)) {
				return true
			}
		case r.name == "nc" || r.name == "ncat" || r.name == "netcat":
			p := ncRow.opts.parse(r.args[1:], false)
			if v, ok := p.get("e", "c", "exec", "sh-exec"); ok && shellText(v.text) {
				return true
			}
		case r.name == "socat":
			if socatShell(r.args[1:]) {
				return true
			}
		}
	}
	return false
}

// bareShell reports whether a shell reads its commands from its input.
func bareShell(r *record) bool {
	if len(r.args) == 0 {
		return false
	}
	p := shellOptions.parse(r.args[1:], true)
	return !p.has("c", "version", "help") && (1+p.rest >= len(r.args) || p.has("s"))
}

// socketDescriptors returns the descriptors that exec ties to a socket.
func (w *walker) socketDescriptors() map[string]bool {
	var out map[string]bool
	for i := range w.records {
		for _, d := range w.records[i].redirs {
			if _, _, ok := netPath(d.target.text); ok && d.fd != "" && w.records[i].name == "exec" {
				if out == nil {
					out = map[string]bool{}
				}
				out[d.fd] = true
			}
		}
	}
	return out
}

// socketRedirects reports whether both input and output go to a socket.
func socketRedirects(list []redir, sockets map[string]bool) bool {
	in, out, copied := false, false, false
	for i := range list {
		d := &list[i]
		_, _, net := netPath(d.target.text)
		net = net || (d.op == syntax.DplIn || d.op == syntax.DplOut) && sockets[strings.TrimSuffix(d.target.text, "-")]
		switch d.op {
		case syntax.RdrIn, syntax.DplIn:
			in = in || net
			copied = copied || d.op == syntax.DplIn && (d.fd == "" || d.fd == "0") && d.target.text == "1"
		case syntax.RdrInOut:
			if net {
				in, out = true, true
			}
		case syntax.DplOut:
			if d.fd == "0" {
				copied = copied || d.target.text == "1" || d.target.text == "2"
				in = in || net
				continue
			}
			out = out || net
		default:
			out = out || net
		}
	}
	return out && (in || copied)
}

// fifoLoop reports whether the shell at index i reads from a connection
// and writes to one: between two of them, or through a named pipe.
func (w *walker) fifoLoop(i int) bool {
	sh := &w.records[i]
	before := false
	for j := range w.records {
		r := &w.records[j]
		if r.flow.id != sh.flow.id || !connects(r) {
			continue
		}
		if r.flow.stage < sh.flow.stage {
			before = true
			continue
		}
		if r.flow.stage == sh.flow.stage {
			continue
		}
		if before {
			return true
		}
		for _, d := range r.redirs {
			if writes(d.op) && d.target.known() && w.feeds(sh, d.target.text) {
				return true
			}
		}
	}
	return false
}

// feeds reports whether a file is the input of sh or of a stage before it.
func (w *walker) feeds(sh *record, file string) bool {
	for i := range w.records {
		r := &w.records[i]
		if r.flow.id != sh.flow.id || r.flow.stage > sh.flow.stage {
			continue
		}
		for _, d := range r.redirs {
			if !writes(d.op) && d.target.text == file {
				return true
			}
		}
		if r.name == "cat" && hasWord(r.args[1:], file) {
			return true
		}
	}
	return false
}

// connects reports whether a command passes its input to another machine.
func connects(r *record) bool {
	switch r.name {
	case "nc", "ncat", "netcat", "telnet", "socat":
		return true
	case "openssl":
		return len(r.args) > 1 && r.args[1].text == "s_client"
	}
	return false
}

func shellText(s string) bool {
	f := strings.Fields(s)
	if len(f) == 0 {
		return false
	}
	name := baseName(f[0])
	return shells[name] || name == "cmd" || name == "powershell" || name == "fish"
}

// socatShell reports whether socat joins a shell and a connection.
func socatShell(args []value) bool {
	shell, net := false, false
	for _, a := range programs["socat"].opts.parse(args, false).operands {
		kind, rest, _ := strings.Cut(a.text, ":")
		kind = strings.ToUpper(kind)
		switch {
		case kind == "EXEC" || kind == "SYSTEM" || kind == "SHELL":
			cmd, _, _ := strings.Cut(strings.Trim(rest, `"'`), ",")
			shell = shell || shellText(cmd)
		case strings.HasPrefix(kind, "TCP") || strings.HasPrefix(kind, "UDP") || strings.HasPrefix(kind, "OPENSSL") || strings.HasPrefix(kind, "SSL") ||
			strings.HasPrefix(kind, "SCTP") || strings.HasPrefix(kind, "PROXY") || strings.HasPrefix(kind, "SOCKS"):
			net = true
		}
	}
	return shell && net
}
