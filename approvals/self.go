package approvals

import (
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

const selfName = "gth-server"

// selfDeciding are the subcommands of our binary that decide, serve or run
// something; nil means with any second word. See docs/gate.md, "Self".
var selfDeciding = map[string][]string{
	"serve": nil, "acp": nil, "run": nil, "exec": nil, "trust": nil, "__sh": nil,
	"asks": {"answer"}, "grants": {"revoke"}, "sessions": {"delete"},
}

// selfHarmless are the other subcommands; a command line that names none of
// either is refused, for what it does is not known.
var selfHarmless = []string{"check", "policy", "why", "config", "models", "demo", "version", "help"}

// selfFloor returns why a call would let the agent act on the server that
// judges it, or nil.
func selfFloor(effects []Effect, targets []target, self SelfPaths) *Floor {
	for i := range effects {
		e := &effects[i]
		if e.Kind == effect.Exec && startsSelf(e, self) {
			return &Floor{Family: "self", Description: "starts this server with a command that decides, serves or runs"}
		}
		if e.Kind == effect.Connect && contactsSelf(e, self) {
			return &Floor{Family: "self", Description: "contacts this server's own address"}
		}
	}
	for i := range targets {
		if f := touchesSelf(&targets[i], self); f != nil {
			return f
		}
	}
	return nil
}

func startsSelf(e *Effect, self SelfPaths) bool {
	if len(e.Argv) == 0 || !e.Argv[0].Static {
		return false // known at run time, and judged again then
	}
	program := e.Argv[0].Text
	if program != self.Binary && path.Base(program) != selfName && (self.Binary == "" || path.Base(program) != path.Base(self.Binary)) {
		return false
	}
	for i, w := range e.Argv[1:] {
		if !w.Static {
			return true
		}
		second, deciding := selfDeciding[w.Text]
		switch {
		case deciding && second == nil:
			return true
		case deciding:
			return slices.ContainsFunc(e.Argv[i+2:], func(n Word) bool { return !n.Static || slices.Contains(second, n.Text) })
		case slices.Contains(selfHarmless, w.Text):
			return false
		}
	}
	return false
}

func contactsSelf(e *Effect, self SelfPaths) bool {
	for _, a := range self.Addresses {
		cut := strings.LastIndexByte(a, ':')
		if cut < 0 || strings.HasPrefix(a, "/") {
			continue // a socket path
		}
		host, port := strings.Trim(a[:cut], "[]"), a[cut+1:]
		if port != e.Port && (e.Port != "" || (port != "80" && port != "443")) {
			continue
		}
		if canon, _ := canonicalHost(host); canon == e.Host || (isLocal(canon) && isLocal(e.Host)) {
			return true
		}
	}
	return false
}

func isLocal(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified())
}

// touchesSelf judges one path. A possible write asks instead (see
// controlStage): programs that only read their operands are common.
func touchesSelf(t *target, self SelfPaths) *Floor {
	for _, s := range t.paths {
		for _, p := range []string{s.lex, s.real} {
			switch {
			case anyWithin(self.Secret, p, t.effect.Dir):
				return &Floor{Family: "self", Description: "touches this server's tokens"}
			case slices.Contains(self.Addresses, p):
				return &Floor{Family: "self", Description: "contacts this server's socket"}
			case t.effect.Kind == effect.Write && t.effect.Via != effect.ViaPossible && anyWithin(self.Protected, p, t.effect.Dir):
				return &Floor{Family: "self", Description: "writes this server's own files"}
			}
		}
	}
	return nil
}

// anyWithin reports whether p is or lies in one of list, or with dir holds
// one of them.
func anyWithin(list []string, p string, dir bool) bool {
	return slices.ContainsFunc(list, func(l string) bool {
		return inside(p, path.Clean(l)) || (dir && inside(path.Clean(l), p))
	})
}

// possibleSelfWrite returns the path of the first possible write of the
// server's own files, or "".
func possibleSelfWrite(targets []target, self SelfPaths) string {
	for i := range targets {
		t := &targets[i]
		if t.effect.Kind != effect.Write {
			continue
		}
		for _, s := range t.paths {
			if anyWithin(self.Protected, s.lex, t.effect.Dir) || anyWithin(self.Protected, s.real, t.effect.Dir) {
				return t.effect.Path
			}
		}
	}
	return ""
}
