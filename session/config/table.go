package config

import (
	"math"
	"net/url"
	"strings"

	"github.com/gth-server/gth-server/approvals"
)

// Surfaces that a configuration can differ by.
const (
	surfaceACP  = "acp"
	surfaceAGUI = "agui"
	surfaceRun  = "run"
)

func surfaces() []string { return []string{surfaceACP, surfaceAGUI, surfaceRun} }

func providers() []string { return []string{"openai", "scripted"} }

var (
	root      = rootSpec()
	gateSpec  = approvalsSpec()
	modelSpec = chatModelSpec()
)

func str(doc string) *spec { return &spec{kind: kindString, doc: doc} }

func path(doc string) *spec {
	return &spec{kind: kindString, path: true, doc: doc + " A relative path starts at the file's directory, ~/ at the home directory.", pattern: `[^\x00]+`, mustBe: "a path"}
}

func yesNo(doc string, fallback bool) *spec {
	return &spec{kind: kindBool, doc: doc, fallback: fallback}
}

func whole(doc string, least, most float64, fallback any) *spec {
	return &spec{kind: kindInt, doc: doc, min: least, max: most, fallback: fallback}
}

func list(doc string, elem *spec) *spec { return &spec{kind: kindList, doc: doc, elem: elem} }

func rootSpec() *spec {
	surface := func(name string) *spec {
		return &spec{kind: kindObject, doc: "What differs on the surface " + name + ".", fields: []field{
			{"model", chatModelSpec()}, {"approvals", approvalsSpec()}, {"builtInTools", toolsSpec()},
		}}
	}
	return &spec{kind: kindObject, doc: "Configuration of gth-server.", fields: []field{
		{"$schema", str("Where editors find the schema of this file. Not used by the server.")},
		{"model", chatModelSpec()},
		{"profiles", &spec{kind: kindMap, doc: "Named alternatives, for example the model that rates.", badKey: noEmptyKey, elem: &spec{
			kind: kindObject, doc: "One profile.", fields: []field{{"model", completeModelSpec()}}, required: []string{"model"},
		}}},
		{"approvals", approvalsSpec()},
		{"commands", &spec{kind: kindObject, doc: "What differs by surface.", closed: true, fields: []field{
			{surfaceACP, surface(surfaceACP)}, {surfaceAGUI, surface(surfaceAGUI)}, {surfaceRun, surface(surfaceRun)},
		}}},
		{"builtInTools", toolsSpec()},
		{"shell", shellSpec()},
		{"mcpServers", mcpServersSpec()},
		{"server", serverSpec()},
		{"telemetry", telemetrySpec()},
		{"limits", limitsSpec()},
	}}
}

func chatModelSpec() *spec {
	return &spec{kind: kindObject, doc: "The chat model.", fields: []field{
		{"provider", &spec{kind: kindString, doc: "Who serves the model.", enum: providers()}},
		{"name", &spec{kind: kindString, doc: "The model's name as its provider spells it.", pattern: `\S(.*\S)?`, mustBe: "a name without blanks around it"}},
		{"baseUrl", &spec{kind: kindString, doc: "Root of an OpenAI-compatible interface, for example http://127.0.0.1:8080/v1.", test: badBaseURL}},
		{"apiKeyEnv", &spec{
			kind: kindString, doc: "Name of the environment variable that holds the key. Never the key itself.",
			pattern: `[A-Za-z_][A-Za-z0-9_]*`, mustBe: "the name of an environment variable, not a key",
		}},
		{"script", path("Provider scripted: a YAML file of turns.")},
		{"maxTokens", whole("Most tokens of one reply. The provider decides when it is absent.", 1, 10_000_000, nil)},
		{"temperature", &spec{kind: kindNumber, doc: "Sampling temperature. The provider decides when it is absent.", min: 0, max: 2}},
	}}
}

func completeModelSpec() *spec {
	s := chatModelSpec()
	s.required = []string{"provider", "name"}
	return s
}

// badBaseURL never repeats the text, which may hold a password.
func badBaseURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Fragment != "":
		return `must be an http or https URL such as "http://127.0.0.1:8080/v1"`
	case u.User != nil:
		return "must not hold a user name or password: name a variable in apiKeyEnv instead"
	}
	return ""
}

func rungNames() []string {
	var names []string
	for _, r := range approvals.Rungs() {
		names = append(names, r.String())
	}
	return names
}

func rungSpec(doc string) *spec {
	return &spec{kind: kindString, noun: "a rung", doc: doc, enum: rungNames(), renamed: map[string]string{
		"read-only": `is called "manual" now`,
		"auto-safe": `is called "assisted" now`,
		"full-auto": `is called "auto" now`,
		"ask":       `no longer exists: choose "write" (files in the workspace change unasked) or "manual"`,
	}}
}

const retiredStrictness = `is retired: the rung alone says how strict the gate is, set "mode"`

func approvalsSpec() *spec {
	rung := rungSpec("How much runs unasked.")
	rung.fallback = approvals.Assisted.String()
	short := rungSpec("The same as an object with only mode.")
	object := &spec{
		kind: kindObject, doc: "Configures the gate.", fields: []field{
			{"mode", rung},
			{"ceiling", rungSpec("Loosest rung that a session may reach. bypass for acp and run, auto for agui, when absent.")},
			{"rater", &spec{kind: kindString, doc: "Profile whose model rates calls. The session's model when absent.", pattern: `.+`, mustBe: "the name of a profile"}},
			{"raterTimeoutMs", whole("Time for one rating in milliseconds.", 1, 3_600_000, 30_000)},
			{"allow", entriesSpec("Calls that run unasked.", "")},
			{"deny", entriesSpec("Calls that never run, at any rung.", "")},
			{"escalate", entriesSpec("Calls that a person always decides.", "must be a list of entries: the severity threshold of that name is retired, the rung decides")},
			{"mcp", mcpTrustSpec()},
		},
		retired: map[string]string{
			"strictness":       retiredStrictness,
			"allowlist":        `is retired: use "allow" with entries`,
			"persistAllowlist": "is retired: answers that are remembered for a workspace are kept by the server",
		},
	}
	return &spec{kind: kindUnion, doc: "The gate: a rung, or an object.", alts: []*spec{short, object}}
}

func entriesSpec(doc, wrongType string) *spec {
	return &spec{kind: kindList, noun: "a list of entries", doc: doc, wrongType: wrongType, elem: &spec{
		kind: kindEntry, noun: "an entry", doc: "A rule.", required: []string{"type", "matcher", "pattern"}, fields: []field{
			{"type", &spec{kind: kindString, doc: "What the rule is about.", enum: []string{"shell", "tool", "mcpTool", "exec", "read", "write", "connect"}}},
			{"matcher", &spec{kind: kindString, doc: "How pattern is compared.", enum: []string{"exact", "glob", "regexp", "hint", "prefix"}}},
			{"server", str("Type mcpTool: the server's key, or * for every server.")},
			{"pattern", &spec{kind: kindUnion, doc: "What matches: text, or hints with matcher hint.", alts: []*spec{
				str("Text."),
				{kind: kindMap, doc: "Hints that all have to hold.", elem: yesNo("", false)},
			}}},
			{"host", str("Types tool and mcpTool: the one host in the arguments.")},
			{"rate", &spec{kind: kindBool, doc: "Whether an allowed call is still rated. False for type shell with matcher exact, true for all others, when absent."}},
		},
	}}
}

func hintNames() []string {
	return []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
}

func mcpTrustSpec() *spec {
	trust := func(doc string) *spec {
		return &spec{kind: kindObject, doc: doc, fields: []field{
			{"trustAnnotations", list("Hints that are believed.", &spec{kind: kindString, noun: "a hint", doc: "A hint.", enum: hintNames()})},
		}}
	}
	return &spec{kind: kindObject, doc: "Whose tool annotations are believed.", fields: []field{
		{"defaults", trust("For every configured server.")},
		{"servers", &spec{kind: kindMap, doc: "By server key.", badKey: noEmptyKey, elem: trust("One server.")}},
	}}
}

func noEmptyKey(key string) string {
	if key == "" {
		return "an empty key cannot be named: give it a name"
	}
	return ""
}

func shellSpec() *spec {
	return &spec{kind: kindObject, doc: "The shell engine.", fields: []field{
		{"engine", &spec{kind: kindString, doc: "What runs commands.", enum: []string{"bash"}, fallback: "bash"}},
		{"timeoutMs", whole("Time for one command in milliseconds.", 1, 86_400_000, 120_000)},
		{"maxOutputBytes", whole("Output of one command that the model gets; half from the start and half from the end.", 1_000, 10_000_000, 100_000)},
	}}
}

func mcpServersSpec() *spec {
	return &spec{kind: kindMap, doc: "MCP servers by key.", badKey: func(key string) string {
		if key == "*" {
			return `the key "*" stands for every server in rules: give it another name`
		}
		return noEmptyKey(key)
	}, elem: &spec{
		kind: kindObject, doc: "One server: a command, or a url.", accept: oneTransport, fields: []field{
			{"type", &spec{kind: kindString, doc: "Transport. Follows from command or url when absent.", enum: []string{"stdio", "http"}}},
			{"command", &spec{kind: kindString, doc: "Program to start.", pattern: `[^\x00]+`, mustBe: "a program"}},
			{"args", list("Its arguments.", str("An argument."))},
			{"env", &spec{kind: kindMap, doc: "Variables that it gets besides PATH, HOME and LANG.", badKey: badVariable, elem: str("A value.")}},
			{"cwd", path("Where it starts.")},
			{"url", &spec{kind: kindString, doc: "Address of a streamable HTTP server.", test: badServerURL}},
			{"headers", &spec{kind: kindMap, doc: "HTTP headers that are sent along.", badKey: noEmptyKey, elem: str("A value.")}},
			{"enabled", yesNo("Whether it is started.", true)},
		},
	}}
}

func badVariable(key string) string {
	if key == "" || strings.ContainsAny(key, "=\x00") {
		return "a variable's name is not empty and holds no equals sign"
	}
	return ""
}

func badServerURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return "must be an http or https URL"
	case u.User != nil:
		return "must not hold a user name or password: use headers instead"
	}
	return ""
}

func oneTransport(t *tree) string {
	command, address, kind := t.get("command") != nil, t.get("url") != nil, t.str("type")
	switch {
	case command == address:
		return "needs either command or url"
	case kind == "stdio" && address, kind == "http" && command:
		return `has type "` + kind + `", which does not go with its address: leave out type`
	}
	return ""
}

func serverSpec() *spec {
	return &spec{kind: kindObject, doc: "The HTTP surfaces.", fields: []field{
		{"listen", &spec{kind: kindString, doc: "Address to listen on.", pattern: `.*:[0-9]{1,5}`, mustBe: "host:port", fallback: "127.0.0.1:7777"}},
		{"workspaces", list("Directories that sessions may use.", path("A directory."))},
		{"allowedOrigins", list("Origins of web pages that may connect.", &spec{kind: kindString, doc: "An origin.", pattern: `https?://[^/\s]+`, mustBe: "an origin such as http://localhost:3000"})},
		{"allowedHosts", list("Host headers that are answered.", &spec{kind: kindString, doc: "A host.", pattern: `[^/\s]+`, mustBe: "a host, perhaps with a port"})},
		{"allowClientProcesses", yesNo("Whether remote clients may bring MCP commands, file systems and terminals.", false)},
	}}
}

func telemetrySpec() *spec {
	return &spec{kind: kindObject, doc: "What spans and logs carry.", fields: []field{
		{"commands", yesNo("Whether spans carry command text, redacted.", false)},
		{"logLevel", &spec{kind: kindString, doc: "Least level that is logged.", enum: []string{"debug", "info", "warn", "error"}, fallback: "warn"}},
		{"logFile", path("Where the log goes instead of standard error.")},
	}}
}

func limitsSpec() *spec {
	const (
		big  = 1e9
		year = 366 * 86_400_000
	)
	return &spec{kind: kindObject, doc: "Bounds of sessions and of the server.", fields: []field{
		{"steps", whole("Model calls of one turn.", 1, 100_000, 200)},
		{"turnMs", whole("Time of one turn in milliseconds.", 1_000, 7*86_400_000, 7_200_000)},
		{"turnTokens", whole("Tokens of one turn; 0 is no limit.", 0, 1e12, 0)},
		{"askExpiryMs", whole("How long a question stays open in milliseconds.", 1_000, year, 86_400_000)},
		{"pendingAsks", whole("Open questions of a session.", 1, 10_000, 64)},
		{"retentionDays", whole("How long closed sessions are kept.", 1, 36_600, 90)},
		{"retentionBytes", whole("How much closed sessions may take.", 1<<20, math.MaxInt64/2, 2<<30)},
		{"acpLineBytes", whole("One line of the Agent Client Protocol.", 1<<16, big, 32<<20)},
		{"aguiBodyBytes", whole("One AG-UI request.", 1<<16, big, 5<<20)},
		{"raterInputBytes", whole("A call that is rated; larger ones are asked.", 1<<10, big, 32<<10)},
		{"raterCache", whole("Ratings that are remembered.", 0, 1_000_000, 256)},
		{"raterBreakerFailures", whole("Failures in a row after which the rater pauses.", 1, 1_000, 5)},
		{"raterBreakerMs", whole("How long it pauses in milliseconds.", 1, 86_400_000, 60_000)},
		{"parallelRuns", whole("Turns at the same time.", 1, 100_000, 256)},
		{"rules", whole("Entries in all lists of all layers.", 0, 100_000, 2_000)},
	}}
}

func toolsSpec() *spec {
	retiredShell := map[string]string{
		"yolo":             `is retired: use "approvals": "bypass"`,
		"judge":            `is retired: the rungs assisted and auto rate, set "approvals.rater" for another model`,
		"allowlist":        `is retired: use "approvals.allow" with entries`,
		"persistAllowlist": "is retired: answers that are remembered for a workspace are kept by the server",
	}
	timeout := field{"timeout", whole("Time for one call in milliseconds.", 1, 86_400_000, nil)}
	output := field{"maxOutputBytes", whole("Output that the model gets.", 1_000, 10_000_000, nil)}
	command := field{"command", &spec{kind: kindString, doc: "What to run.", pattern: `[\s\S]*\S[\s\S]*`, mustBe: "a command"}}
	tool := func(name string, more ...field) field {
		object := &spec{kind: kindObject, doc: "Settings; the tool is on unless enabled is false.", fields: append([]field{{"enabled", yesNo("Whether the tool exists.", true)}}, more...)}
		if name == "run_shell_command" {
			object.retired = retiredShell
		}
		onOff := []*spec{yesNo("On or off.", true), object}
		if len(more) > 0 && more[0].name == "command" { // on needs a command
			object.accept = func(t *tree) string {
				if t.get("command") == nil && (t.get("enabled") == nil || t.get("enabled").raw == "true") {
					return "needs command: write what to run"
				}
				return ""
			}
		}
		return field{name, &spec{kind: kindUnion, doc: "The tool " + name + ".", alts: onOff}}
	}
	byName := &spec{kind: kindObject, doc: "Tools by name.", fields: []field{
		tool("run_shell_command", timeout, output),
		tool("run_tests", command, timeout, output), tool("run_lint", command, timeout, output),
		tool("run_build", command, timeout, output), tool("run_single_test", command, timeout, output),
		tool("read_file"), tool("read_multiple_files"),
		tool("gth_read_binary", field{"maxBytes", whole("Largest file.", 1, 1e9, 10<<20)}),
		tool("write_file"), tool("edit_file"), tool("create_directory"), tool("move_file"),
		tool("delete_file"), tool("delete_directory"),
		tool("list_directory"), tool("list_directory_with_sizes"), tool("directory_tree"),
		tool("search_files"), tool("get_file_info"), tool("list_allowed_directories"),
		tool("gth_grep", field{"fileSet", &spec{kind: kindString, doc: "Files that are searched.", enum: []string{"gitignore", "all"}, fallback: "gitignore"}}),
		tool("gth_web_fetch"), tool("gth_checklist"), tool("gth_status_update"),
	}}
	names := list("Tools that are on besides those that are on anyway.", &spec{kind: kindString, noun: "a tool's name", doc: "A tool.", enum: byName.names()})
	return &spec{kind: kindUnion, doc: "The tools that the server brings.", alts: []*spec{names, byName}}
}
