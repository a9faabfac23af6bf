package approvals

// ShellTool is the registered name of the tool whose calls are shell text.
const ShellTool = "run_shell_command"

// access is the class that frees a tool from the gate; see docs/gate.md,
// "Access classes". The zero value frees nothing.
type access uint8

const (
	accessNone access = iota
	accessRead
	accessWrite
	accessSession // touches nothing but the session itself
)

// toolFacts is what we know of a tool of our own.
type toolFacts struct {
	access access
	hints  Annotations
}

// Annotations are the four hints of a tool. The zero value is not the safe
// one: use failClosed for a tool that nothing is known of.
type Annotations struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

var (
	failClosed = Annotations{Destructive: true, OpenWorld: true}
	readFacts  = toolFacts{accessRead, Annotations{ReadOnly: true, Idempotent: true}}

	ourTools = map[string]toolFacts{
		"read_file":                 readFacts,
		"read_multiple_files":       readFacts,
		"gth_read_binary":           readFacts,
		"list_directory":            readFacts,
		"list_directory_with_sizes": readFacts,
		"directory_tree":            readFacts,
		"search_files":              readFacts,
		"get_file_info":             readFacts,
		"list_allowed_directories":  readFacts,
		"gth_grep":                  readFacts,
		"ls":                        readFacts,
		"glob":                      readFacts,
		"grep":                      readFacts,
		"write_file":                {accessWrite, Annotations{Destructive: true, Idempotent: true}},
		"delete_file":               {accessWrite, Annotations{Destructive: true, Idempotent: true}},
		"delete_directory":          {accessWrite, Annotations{Destructive: true, Idempotent: true}},
		"edit_file":                 {accessWrite, Annotations{Destructive: true}},
		"move_file":                 {accessWrite, Annotations{Destructive: true}},
		"create_directory":          {accessWrite, Annotations{Idempotent: true}},
		"gth_checklist":             {accessSession, Annotations{Idempotent: true}},
		"show_a2ui_surface":         {accessSession, Annotations{Idempotent: true}},
		"gth_status_update":         {accessSession, Annotations{ReadOnly: true, Idempotent: true}},
		"gth_web_fetch":             {accessNone, Annotations{ReadOnly: true, Idempotent: true, OpenWorld: true}},
	}
)

// annotationsOf returns the effective hints of a subject: ours for our own
// tools, fail-closed for everything else, what a server says of itself
// included.
func annotationsOf(s Subject) Annotations {
	if s.Kind == SubjectTool {
		if f, ok := ourTools[s.Name]; ok {
			return f.hints
		}
	}
	return failClosed
}

func (a Annotations) hint(name string) bool {
	switch name {
	case "readOnlyHint":
		return a.ReadOnly
	case "destructiveHint":
		return a.Destructive
	case "idempotentHint":
		return a.Idempotent
	}
	return a.OpenWorld
}

// granted reports whether the class runs at rung without any decision.
func (a access) granted(rung Rung) bool {
	switch a {
	case accessRead, accessSession:
		return true
	case accessWrite:
		return rung == Write || rung == Assisted || rung == Auto || rung == Bypass
	}
	return false
}

// Gated reports whether calls of tool are decided one by one at rung. Names
// that are not our own tools are gated at every rung but bypass.
func Gated(tool string, rung Rung) bool {
	if tool == ShellTool {
		return true
	}
	return gatedSubject(Subject{Kind: SubjectTool, Name: tool}, rung)
}

// gatedSubject is Gated for a call. A server's tool never has an access
// class, whatever its name.
func gatedSubject(s Subject, rung Rung) bool {
	switch {
	case s.Kind == SubjectShell, s.Kind == SubjectTool && s.Name == ShellTool:
		return true
	case rung == Bypass:
		return false
	case s.Kind == SubjectTool && ourTools[s.Name].access.granted(rung):
		return false
	case rung.Rated():
		a := annotationsOf(s)
		return !a.ReadOnly || a.OpenWorld
	}
	return true
}
