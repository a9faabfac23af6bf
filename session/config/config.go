// Package config loads the configuration of the server.
//
// Guarantees:
//   - A value is used only if every layer is valid: unknown keys, wrong types,
//     duplicate keys and broken rules are errors with file, line and column,
//     and all of them are reported, not only the first.
//   - A layer can add prohibitions and never remove one: deny and escalate
//     lists of lower layers stay.
//   - Every rule and every effective value knows where it was written.
//   - Values never appear in errors where they may be secret.
//   - The published JSON Schema is made from the table that validates.
//
// It reads files and nothing else: it does not connect to anything, does not
// look up keys in the environment beyond the GTH_ and XDG_ names, and does not
// decide whether a project may be trusted. docs/configuration.md lists the
// keys.
package config

import (
	"github.com/gth-server/gth-server/approvals"
)

// Config is the merged configuration. Fields that no layer states hold their
// defaults; see docs/configuration.md.
type Config struct {
	Model        Model                `json:"model"`
	Profiles     map[string]Profile   `json:"profiles"`
	Approvals    Approvals            `json:"-"`
	Commands     map[string]Command   `json:"-"` // by surface, as stated: acp, agui, run
	BuiltInTools map[string]Tool      `json:"-"` // by tool name; only what is stated
	Shell        Shell                `json:"shell"`
	MCPServers   map[string]MCPServer `json:"mcpServers"` // not started yet
	Server       Server               `json:"server"`
	Telemetry    Telemetry            `json:"telemetry"`
	Limits       Limits               `json:"limits"`
}

// Model names a chat model and how to reach it.
type Model struct {
	Provider    string   `json:"provider"`  // openai or scripted; empty when no model is configured
	Name        string   `json:"name"`      // as the provider calls it
	BaseURL     string   `json:"baseUrl"`   // empty is the provider's own
	APIKeyEnv   string   `json:"apiKeyEnv"` // name of the environment variable that holds the key
	Script      string   `json:"script"`    // provider scripted: path of the YAML file
	MaxTokens   int      `json:"maxTokens"` // of one reply; 0 is the provider's default
	Temperature *float32 `json:"temperature"`
}

// Profile is a named alternative to the session's settings.
type Profile struct {
	Model Model `json:"model"`
}

// Approvals configures the gate. Nil fields are not stated.
type Approvals struct {
	Mode           *approvals.Rung
	Ceiling        *approvals.Rung // loosest rung that a session may reach
	Rater          string          // profile whose model rates; empty is the session's model
	RaterTimeoutMs int             // budget of one rating; 0 is not stated
	Allow          []approvals.SourcedEntry
	Deny           []approvals.SourcedEntry
	Escalate       []approvals.SourcedEntry
	MCP            *MCPApprovals
}

// MCPApprovals says whose tool annotations are believed.
type MCPApprovals struct {
	Defaults MCPTrust            `json:"defaults"`
	Servers  map[string]MCPTrust `json:"servers"`
}

// MCPTrust lists believed hints, for example readOnlyHint.
type MCPTrust struct {
	TrustAnnotations []string `json:"trustAnnotations"`
}

// Command holds what differs on one surface.
type Command struct {
	Model        *Model
	Approvals    *Approvals
	BuiltInTools map[string]Tool // nil is not stated
}

// Tool configures one built-in tool. Zero values are not stated.
type Tool struct {
	Enabled        *bool  `json:"enabled"`
	Command        string `json:"command"`        // dev commands: what to run
	Timeout        int    `json:"timeout"`        // milliseconds
	MaxOutputBytes int    `json:"maxOutputBytes"` // given to the model
	MaxBytes       int    `json:"maxBytes"`
	FileSet        string `json:"fileSet"` // gitignore or all
}

// Shell configures the shell engine.
type Shell struct {
	Engine         string `json:"engine"` // bash
	TimeoutMs      int    `json:"timeoutMs"`
	MaxOutputBytes int    `json:"maxOutputBytes"`
}

// MCPServer is one configured server. It is parsed and not started yet.
type MCPServer struct {
	Type    string            `json:"type"` // stdio or http
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"` // secret
	Cwd     string            `json:"cwd"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"` // secret
	Enabled *bool             `json:"enabled"`
}

// Server configures the HTTP surfaces.
type Server struct {
	Listen               string   `json:"listen"`
	Workspaces           []string `json:"workspaces"`
	AllowedOrigins       []string `json:"allowedOrigins"`
	AllowedHosts         []string `json:"allowedHosts"`
	AllowClientProcesses bool     `json:"allowClientProcesses"`
}

// Telemetry configures what spans and logs carry.
type Telemetry struct {
	Commands bool   `json:"commands"` // command text in spans, redacted
	LogLevel string `json:"logLevel"` // debug, info, warn or error
	LogFile  string `json:"logFile"`  // empty is stderr
}

// Limits bound what one session and one server use.
type Limits struct {
	Steps                int   `json:"steps"`  // model calls of a turn
	TurnMs               int   `json:"turnMs"` // wall time of a turn
	TurnTokens           int   `json:"turnTokens"`
	AskExpiryMs          int   `json:"askExpiryMs"`
	PendingAsks          int   `json:"pendingAsks"` // of a session
	RetentionDays        int   `json:"retentionDays"`
	RetentionBytes       int64 `json:"retentionBytes"`
	ACPLineBytes         int   `json:"acpLineBytes"`
	AGUIBodyBytes        int   `json:"aguiBodyBytes"`
	RaterInputBytes      int   `json:"raterInputBytes"`
	RaterCache           int   `json:"raterCache"` // verdicts
	RaterBreakerFailures int   `json:"raterBreakerFailures"`
	RaterBreakerMs       int   `json:"raterBreakerMs"`
	ParallelRuns         int   `json:"parallelRuns"`
	Rules                int   `json:"rules"` // in all layers
}
