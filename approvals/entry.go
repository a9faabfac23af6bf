package approvals

// Entry is one rule of a list as a person writes it; see docs/rules.md.
// Exactly one of Pattern and Hints is set.
type Entry struct {
	Type    string          // shell, tool, mcpTool; exec, read, write, connect
	Matcher string          // exact, glob, regexp, hint, prefix
	Server  string          // mcpTool only; "*" is every server
	Pattern string          // all matchers but hint
	Hints   map[string]bool // matcher hint
	Host    string          // tool and mcpTool only
	Rate    *bool           // nil is the default of the type and matcher
}
