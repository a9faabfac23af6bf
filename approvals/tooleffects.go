package approvals

import (
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// pathArg says what a tool does with the path in one of its arguments.
type pathArg struct {
	name  string
	reads bool
	write bool
	dir   bool // reaches what lies below too
}

var pathArgs = map[string][]pathArg{
	"read_file":                 {{name: "path", reads: true}},
	"read_multiple_files":       {{name: "paths", reads: true}},
	"gth_read_binary":           {{name: "path", reads: true}},
	"list_directory":            {{name: "path", reads: true}},
	"list_directory_with_sizes": {{name: "path", reads: true}},
	"directory_tree":            {{name: "path", reads: true}},
	"search_files":              {{name: "path", reads: true}},
	"get_file_info":             {{name: "path", reads: true}},
	"ls":                        {{name: "path", reads: true}},
	"glob":                      {{name: "path", reads: true}},
	"gth_grep":                  {{name: "path", reads: true, dir: true}},
	"grep":                      {{name: "path", reads: true, dir: true}},
	"write_file":                {{name: "path", write: true}},
	"edit_file":                 {{name: "path", reads: true, write: true}},
	"create_directory":          {{name: "path", write: true}},
	"delete_file":               {{name: "path", write: true}},
	"delete_directory":          {{name: "path", write: true, dir: true}},
	"move_file":                 {{name: "source", reads: true, write: true, dir: true}, {name: "destination", write: true, dir: true}},
}

// toolEffects derives the effects of a call that is no shell text. A tool
// that is not ours may do anything with a path: each string argument that
// could be one is possibly read and written.
func toolEffects(s Subject, args any) []Effect {
	var out []Effect
	_, ours := ourTools[s.Name]
	if s.Kind == SubjectTool && ours {
		for _, a := range pathArgs[s.Name] {
			for _, p := range stringsAt(args, a) {
				out = appendPath(out, a, p, effect.ViaTool)
			}
		}
		return append(out, connectEffects(args)...)
	}
	walkStrings(args, func(p string) {
		if len(p) <= maxPossiblePath && !strings.ContainsAny(p, "\n\r") {
			out = appendPath(out, pathArg{reads: true, write: true}, p, effect.ViaPossible)
		}
	})
	return append(out, connectEffects(args)...)
}

const maxPossiblePath = 1024

func stringsAt(args any, a pathArg) []string {
	m, _ := args.(map[string]any)
	switch v := m[a.name].(type) {
	case string:
		return []string{ToolPath(v)}
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, ToolPath(s))
			}
		}
		return out
	case nil:
		if a.dir && a.reads && !a.write {
			return []string{"."} // a search without a path searches the workspace
		}
	}
	return nil
}

// ToolPath returns the path that our file tools read in an argument: without
// white space around it and without one pair of equal quotes, which models
// like to add. Gate and tools must agree on it; see docs/file-tools.md.
func ToolPath(arg string) string {
	p := strings.TrimSpace(arg)
	if n := len(p); n >= 2 && p[0] == p[n-1] && strings.IndexByte("\"'`", p[0]) >= 0 {
		return p[1 : n-1]
	}
	return p
}

func appendPath(out []Effect, a pathArg, path string, via effect.Via) []Effect {
	if path == "" {
		return out
	}
	e := Effect{Via: via, Path: path, Static: true, Dir: a.dir}
	if a.reads {
		e.Kind = effect.Read
		out = append(out, e)
	}
	if a.write {
		e.Kind = effect.Write
		out = append(out, e)
	}
	return out
}

// connectEffects finds what a tool would contact: the host and port of every
// URL in its arguments.
func connectEffects(args any) []Effect {
	var out []Effect
	walkStrings(args, func(s string) {
		host, port, ok := urlHost(s)
		same := func(o Effect) bool { return o.Host == host && o.Port == port }
		if ok && !slices.ContainsFunc(out, same) {
			out = append(out, Effect{Kind: effect.Connect, Via: effect.ViaTool, Host: host, Port: port})
		}
	})
	return out
}

// redirectEffects is what opening path for a redirect does.
func redirectEffects(path string, write bool) []Effect {
	kind := effect.Read
	if write {
		kind = effect.Write
	}
	return []Effect{{Kind: kind, Via: effect.ViaRedirect, Path: path, Static: true}}
}

func (a *Analysis) addToolEffects(effects []Effect) {
	for i := range effects {
		switch e := &effects[i]; e.Kind {
		case effect.Read:
			a.Reads = append(a.Reads, e.Path)
		case effect.Write:
			a.Writes = append(a.Writes, e.Path)
		case effect.Connect:
			a.Hosts = append(a.Hosts, e.Host)
		}
	}
}
