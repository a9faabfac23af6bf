package approvals

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

const mcpPrefix = "mcp__"

// ResolveMCP splits the registered name of an MCP tool by the configured
// server keys. ok is false when name is no MCP name; server is empty when
// no key, or more than one, fits, and then tool is the whole name.
func ResolveMCP(name string, servers []string) (server, tool string, ok bool) {
	rest, ok := strings.CutPrefix(name, mcpPrefix)
	if !ok {
		return "", "", false
	}
	for _, key := range servers {
		t, fits := strings.CutPrefix(rest, key+"__")
		if key == "" || !fits || t == "" {
			continue
		}
		if server != "" {
			return "", name, true
		}
		server, tool = key, t
	}
	if server == "" {
		tool = name
	}
	return server, tool, true
}

// subjectOf says what a call is for the rules. hosts are those of its
// arguments.
func subjectOf(c Call, args any, hosts []string) Subject {
	switch {
	case c.Server != "":
		name := c.Name
		if name == "" {
			name = c.Tool
		}
		return Subject{Kind: SubjectMCP, Server: c.Server, Name: name, Host: onlyHost(hosts)}
	case strings.HasPrefix(c.Tool, mcpPrefix):
		return Subject{Kind: SubjectMCP, Name: c.Tool, Host: onlyHost(hosts)}
	case c.Tool == ShellTool:
		if cmd, ok := stringArg(args, "command"); ok {
			return Subject{Kind: SubjectShell, Command: cmd}
		}
	}
	return Subject{Kind: SubjectTool, Name: c.Tool, Host: onlyHost(hosts)}
}

func onlyHost(hosts []string) string {
	if len(hosts) == 1 {
		return hosts[0]
	}
	return ""
}

func stringArg(args any, name string) (string, bool) {
	m, _ := args.(map[string]any)
	s, ok := m[name].(string)
	return s, ok
}

// The bounds of the search for hosts in arguments.
const (
	maxHostDepth  = 4
	maxHostValues = 256
	maxHostString = 4096
)

// walkStrings visits the strings of arguments, keys in sorted order, within
// the bounds above.
func walkStrings(args any, visit func(string)) {
	left := maxHostValues
	var walk func(v any, depth int)
	walk = func(v any, depth int) {
		if left == 0 || depth > maxHostDepth {
			return
		}
		left--
		switch x := v.(type) {
		case string:
			visit(x)
		case []any:
			for _, e := range x {
				walk(e, depth+1)
			}
		case map[string]any:
			for _, k := range sortedKeys(x) {
				walk(x[k], depth+1)
			}
		}
	}
	walk(args, 0)
}

// hostsOf finds the hosts of the URLs in the arguments of a tool, distinct,
// in the order of their sorted keys.
func hostsOf(args any) []string {
	var hosts []string
	walkStrings(args, func(s string) {
		host, _, ok := urlHost(s)
		if ok && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	})
	return hosts
}

// urlHost returns the canonical host of an absolute URL, and its port unless
// it is the scheme's own.
func urlHost(s string) (host, port string, ok bool) {
	if len(s) == 0 || len(s) > maxHostString || !strings.Contains(s, ":") {
		return "", "", false
	}
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil || u.Scheme == "" || u.Hostname() == "" {
		return "", "", false
	}
	host, ok = canonicalHost(u.Hostname())
	port = u.Port()
	if port == schemePorts[u.Scheme] {
		port = ""
	}
	return host, port, ok
}

var schemePorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "ssh": "22"}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func decodeArguments(raw json.RawMessage) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}
