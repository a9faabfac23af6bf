package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gth-server/gth-server/approvals"
)

// house is a home directory with a configuration file.
type house struct {
	t    *testing.T
	dir  string
	file string
	vars map[string]string
}

func newHouse(t *testing.T, text string) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir()}
	h.file = filepath.Join(h.dir, ".config", "gth-server", "config.jsonc")
	h.vars = map[string]string{"HOME": h.dir}
	if text != "" {
		h.put(h.file, text)
	}
	return h
}

func (h *house) put(path, text string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) env(name string) string { return h.vars[name] }

func (h *house) load(o Overrides, surface string) (*Effective, error) {
	return Load(o, h.env, surface)
}

func (h *house) must(o Overrides, surface string) *Effective {
	h.t.Helper()
	e, err := h.load(o, surface)
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

// refuses loads and compares the error; F stands for the file, H for home.
func (h *house) refuses(o Overrides, surface, want string) {
	h.t.Helper()
	_, err := h.load(o, surface)
	want = strings.NewReplacer("F:", h.file+":", "H/", h.dir+"/").Replace(strings.TrimPrefix(want, "\n"))
	if err == nil {
		h.t.Fatalf("no error, want %s", want)
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		h.t.Error(diff)
	}
}

func TestDefaults(t *testing.T) {
	h := newHouse(t, "")
	e := h.must(Overrides{}, "run")
	want := Config{
		Approvals: Approvals{RaterTimeoutMs: 30_000},
		Commands:  map[string]Command{},
		Shell:     Shell{Engine: "bash", TimeoutMs: 120_000, MaxOutputBytes: 100_000},
		Server:    Server{Listen: "127.0.0.1:7777"},
		Telemetry: Telemetry{LogLevel: "warn"},
		Limits: Limits{
			Steps: 200, TurnMs: 7_200_000, AskExpiryMs: 86_400_000, PendingAsks: 64, RetentionDays: 90, RetentionBytes: 2 << 30,
			ACPLineBytes: 32 << 20, AGUIBodyBytes: 5 << 20, RaterInputBytes: 32 << 10, RaterCache: 256, RaterBreakerFailures: 5,
			RaterBreakerMs: 60_000, ParallelRuns: 256, Rules: 2000,
		},
	}
	if diff := cmp.Diff(want, e.Config); diff != "" {
		t.Error(diff)
	}
	if e.Rung != approvals.Assisted || e.Ceiling != approvals.Bypass || e.File != "" {
		t.Errorf("rung %v, ceiling %v, file %q", e.Rung, e.Ceiling, e.File)
	}
	if want := filepath.Join(h.dir, ".local/share/gth-server"); e.DataDir != want {
		t.Errorf("data directory %q, want %q", e.DataDir, want)
	}
	if e := h.must(Overrides{}, "agui"); e.Ceiling != approvals.Auto {
		t.Errorf("ceiling of agui %v", e.Ceiling)
	}
	if e.Origins["limits.steps"] != "built-in" || e.Origins["approvals.mode"] != "built-in" {
		t.Errorf("origins %v", e.Origins)
	}
}

// Flags stand above variables, these above the file, and the file above the
// defaults; each value says where it is from.
func TestPrecedence(t *testing.T) {
	h := newHouse(t, `{
  // a comment
  "model": {
    "provider": "openai", "name": "file-model",
    "baseUrl": "http://file.example/v1",
    "apiKeyEnv": "FILE_KEY", "maxTokens": 7, "temperature": 0.5,
  },
  "approvals": "write",
  "limits": { "steps": 9 },
}`)
	e := h.must(Overrides{}, "run")
	temperature := float32(0.5)
	if diff := cmp.Diff(Model{Provider: "openai", Name: "file-model", BaseURL: "http://file.example/v1", APIKeyEnv: "FILE_KEY", MaxTokens: 7, Temperature: &temperature}, e.Model); diff != "" {
		t.Error(diff)
	}
	if e.Rung != approvals.Write || e.Limits.Steps != 9 || e.Limits.PendingAsks != 64 || e.File != h.file {
		t.Errorf("%v %d %d %q", e.Rung, e.Limits.Steps, e.Limits.PendingAsks, e.File)
	}
	h.vars["GTH_MODEL"], h.vars["GTH_RUNG"], h.vars["GTH_DATA_DIR"] = "openai:env-model", "manual", "/env/data"
	e = h.must(Overrides{}, "run")
	if e.Model.Name != "env-model" || e.Model.APIKeyEnv != "FILE_KEY" || e.Rung != approvals.Manual || e.DataDir != "/env/data" {
		t.Errorf("environment: %+v %v %q", e.Model, e.Rung, e.DataDir)
	}
	h.vars["GTH_BASE_URL"] = "https://env.example/v1"
	e = h.must(Overrides{Model: "openai:flag:latest", BaseURL: "https://flag.example", Rung: "auto", DataDir: "/flag"}, "run")
	if e.Model.Name != "flag:latest" || e.Model.BaseURL != "https://flag.example" || e.Rung != approvals.Auto || e.DataDir != "/flag" {
		t.Errorf("flags: %+v %v %q", e.Model, e.Rung, e.DataDir)
	}
	got := map[string]string{}
	for _, at := range []string{"model.name", "model.baseUrl", "model.apiKeyEnv", "approvals.mode", "approvals.ceiling", "limits.steps", "limits.rules"} {
		got[at] = e.Origins[at]
	}
	if diff := cmp.Diff(map[string]string{
		"model.name": "--model", "model.baseUrl": "--base-url", "model.apiKeyEnv": h.file + ":6", "approvals.mode": "--rung",
		"approvals.ceiling": "built-in", "limits.steps": h.file + ":9", "limits.rules": "built-in",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// A model of another provider takes over nothing that belongs to the
// provider: a key must not reach a server it is not meant for.
func TestOtherProviderTakesNoKey(t *testing.T) {
	h := newHouse(t, `{"model": {"provider": "openai", "name": "m", "baseUrl": "http://a/v1", "apiKeyEnv": "K", "script": "s.yaml", "maxTokens": 5}}`)
	e := h.must(Overrides{Model: "scripted:demo.yaml"}, "run")
	if diff := cmp.Diff(Model{Provider: "scripted", Name: "demo.yaml", MaxTokens: 5}, e.Model); diff != "" {
		t.Error(diff)
	}
}

func TestFilesAndDirectories(t *testing.T) {
	h := newHouse(t, "")
	other := filepath.Join(h.dir, "other.jsonc")
	h.put(other, `{"limits": {"steps": 3}, "telemetry": {"logFile": "log/x.log"}, "server": {"workspaces": ["~/w", "/abs"]}}`)
	h.vars["GTH_CONFIG"] = other
	e := h.must(Overrides{}, "acp")
	if e.Limits.Steps != 3 || e.File != other || e.Telemetry.LogFile != filepath.Join(h.dir, "log/x.log") {
		t.Errorf("%d %q %q", e.Limits.Steps, e.File, e.Telemetry.LogFile)
	}
	if diff := cmp.Diff([]string{filepath.Join(h.dir, "w"), "/abs"}, e.Server.Workspaces); diff != "" {
		t.Error(diff)
	}
	h.refuses(Overrides{File: h.dir + "/none"}, "acp", `configuration file "H/none" (--config): cannot be opened: no such file or directory: check the path and its permissions`)
	h.vars["GTH_CONFIG"] = h.dir
	h.refuses(Overrides{}, "acp", strings.ReplaceAll(`configuration file "D" (GTH_CONFIG): is not a regular file: name a file`, "D", h.dir))
	h.put(h.dir+"/big", `{}`+strings.Repeat(" ", maxUserFile))
	h.refuses(Overrides{File: h.dir + "/big"}, "acp", `configuration file "H/big" (--config): is larger than 1048576 bytes: make it smaller`)

	h = newHouse(t, "")
	h.put(filepath.Join(h.dir, "xdg/gth-server/config.jsonc"), `{"limits": {"steps": 4}}`)
	h.vars["XDG_CONFIG_HOME"], h.vars["XDG_DATA_HOME"] = h.dir+"/xdg", h.dir+"/data"
	if e := h.must(Overrides{}, "acp"); e.Limits.Steps != 4 || e.DataDir != h.dir+"/data/gth-server" {
		t.Errorf("%d %q", e.Limits.Steps, e.DataDir)
	}
	h.vars["XDG_CONFIG_HOME"], h.vars["XDG_DATA_HOME"] = "xdg", "data" // relative: not set
	if e := h.must(Overrides{}, "acp"); e.Limits.Steps != 200 || e.DataDir != h.dir+"/.local/share/gth-server" {
		t.Errorf("%d %q", e.Limits.Steps, e.DataDir)
	}
	h.vars = nil
	h.refuses(Overrides{}, "acp", "data directory: neither HOME nor XDG_DATA_HOME is set: set one, or GTH_DATA_DIR")
	if e := h.must(Overrides{DataDir: "/d"}, "acp"); e.DataDir != "/d" {
		t.Errorf("%q", e.DataDir)
	}
}

func TestOverridesAreChecked(t *testing.T) {
	const form = ` is not a model: write it as provider:name, for example openai:gpt-5`
	for _, tc := range []struct {
		o    Overrides
		env  map[string]string
		want string
	}{
		{Overrides{Model: "gpt-5"}, nil, `--model "gpt-5"` + form},
		{Overrides{Model: "openai:"}, nil, `--model "openai:"` + form},
		{Overrides{Model: ":x"}, nil, `--model ":x"` + form},
		{Overrides{Model: "opnai:x"}, nil, `--model: provider "opnai" is unknown: did you mean "openai"?`},
		{Overrides{}, map[string]string{"GTH_MODEL": "zzz:x"}, `GTH_MODEL: provider "zzz" is unknown: use openai or scripted`},
		{Overrides{BaseURL: "ftp://x"}, nil, `--base-url must be an http or https URL such as "http://127.0.0.1:8080/v1"`},
		{Overrides{}, map[string]string{"GTH_BASE_URL": "http://me:hunter2@x/v1"}, `GTH_BASE_URL must not hold a user name or password: name a variable in apiKeyEnv instead`},
		{Overrides{Rung: "yolo"}, nil, `--rung: rung "yolo" is unknown: use manual, write, assisted, auto or bypass`},
		{Overrides{}, map[string]string{"GTH_RUNG": "full-auto"}, `GTH_RUNG: rung "full-auto" is called "auto" now`},
		{Overrides{Rung: "x", Model: "y"}, nil, `--model "y"` + form + "\n" + `--rung: rung "x" is unknown: use manual, write, assisted, auto or bypass`},
	} {
		h := newHouse(t, "")
		for k, v := range tc.env {
			h.vars[k] = v
		}
		h.refuses(tc.o, "run", tc.want)
	}
	h := newHouse(t, "")
	h.refuses(Overrides{}, "serve", `surface "serve" is unknown: use acp, agui or run`)
}

func TestCeiling(t *testing.T) {
	h := newHouse(t, `{
  "approvals": { "mode": "write", "ceiling": "assisted" },
  "commands": { "acp": { "approvals": "auto" }, "run": { "approvals": { "ceiling": "manual" } } },
}`)
	if e := h.must(Overrides{}, "agui"); e.Rung != approvals.Write || e.Ceiling != approvals.Assisted {
		t.Errorf("%v %v", e.Rung, e.Ceiling)
	}
	h.refuses(Overrides{}, "acp", `rung auto (F:3) is looser than the ceiling assisted of acp (F:2): choose a stricter rung, or raise approvals.ceiling`)
	h.refuses(Overrides{}, "run", `rung write (F:2) is looser than the ceiling manual of run (F:3): choose a stricter rung, or raise approvals.ceiling`)
	h.refuses(Overrides{Rung: "bypass"}, "agui", `rung bypass (--rung) is looser than the ceiling assisted of agui (F:2): choose a stricter rung, or raise approvals.ceiling`)
	h = newHouse(t, `{"approvals": {"ceiling": "manual"}}`)
	if e := h.must(Overrides{}, "run"); e.Rung != approvals.Manual {
		t.Errorf("the default rung stands above the ceiling: %v", e.Rung)
	}
	h = newHouse(t, "")
	h.refuses(Overrides{Rung: "bypass"}, "agui", `rung bypass (--rung) is looser than the ceiling auto of agui (built-in): choose a stricter rung, or raise approvals.ceiling`)
}

// previews lists rules with the line that they were written at.
func previews(list []approvals.SourcedEntry) []string {
	out := []string{}
	for _, e := range list {
		out = append(out, e.Entry.Pattern+" @"+e.Source[strings.LastIndexByte(e.Source, ':')+1:])
	}
	return out
}

func TestSurfaceMerge(t *testing.T) {
	h := newHouse(t, `{
  "approvals": {
    "mode": "manual", "raterTimeoutMs": 5,
    "deny": [ { "type": "shell", "matcher": "exact", "pattern": "d1" } ],
    "escalate": [ { "type": "shell", "matcher": "exact", "pattern": "e1" } ],
    "allow": [
      // two rules
      { "type": "shell", "matcher": "exact", "pattern": "a1" },
      { "type": "shell", "matcher": "exact", "pattern": "a2" },
    ],
    "mcp": { "defaults": { "trustAnnotations": ["readOnlyHint"] } },
  },
  "model": { "provider": "openai", "name": "m", "baseUrl": "http://x/v1" },
  "builtInTools": { "gth_grep": { "fileSet": "all" }, "run_shell_command": { "timeout": 3000 } },
  "commands": {
    "acp": { "approvals": {
      "mode": "write",
      "deny": [ { "type": "shell", "matcher": "exact", "pattern": "d2" } ],
      "escalate": [],
      "allow": [],
      "mcp": {},
    } },
    "run": { "approvals": "auto", "model": { "provider": "scripted", "script": "turns.yaml" }, "builtInTools": ["gth_web_fetch"] },
  },
}`)
	acp, run, agui := h.must(Overrides{}, "acp"), h.must(Overrides{}, "run"), h.must(Overrides{}, "agui")
	if acp.Rung != approvals.Write || run.Rung != approvals.Auto || agui.Rung != approvals.Manual {
		t.Errorf("rungs %v %v %v", acp.Rung, run.Rung, agui.Rung)
	}
	for _, tc := range []struct {
		name      string
		got, want []string
	}{
		{"acp deny adds up", previews(acp.Approvals.Deny), []string{"d1 @4", "d2 @18"}},
		{"acp escalate stays", previews(acp.Approvals.Escalate), []string{"e1 @5"}},
		{"acp allow is replaced", previews(acp.Approvals.Allow), []string{}},
		{"run inherits", previews(run.Approvals.Allow), []string{"a1 @8", "a2 @9"}},
		{"run deny", previews(run.Approvals.Deny), []string{"d1 @4"}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
	if acp.Approvals.RaterTimeoutMs != 5 || len(acp.Approvals.MCP.Defaults.TrustAnnotations) != 0 || len(run.Approvals.MCP.Defaults.TrustAnnotations) != 1 {
		t.Errorf("acp %+v, run %+v", acp.Approvals, run.Approvals.MCP)
	}
	if run.Model.Provider != "scripted" || run.Model.BaseURL != "" || run.Model.Script != filepath.Join(filepath.Dir(h.file), "turns.yaml") || acp.Model.Name != "m" {
		t.Errorf("models %+v %+v", run.Model, acp.Model)
	}
	if acp.Shell.TimeoutMs != 3000 || run.Shell.TimeoutMs != 120_000 || acp.BuiltInTools["gth_grep"].FileSet != "all" || !*run.BuiltInTools["gth_web_fetch"].Enabled {
		t.Errorf("tools %+v %+v %+v", acp.Shell, run.Shell, run.BuiltInTools)
	}
	if got := acp.Origins["shell.timeoutMs"]; got != h.file+":14" {
		t.Errorf("origin of the shell's timeout: %q", got)
	}
}

func TestSections(t *testing.T) {
	h := newHouse(t, `{
  "$schema": "./schema.json",
  "profiles": { "judge": { "model": { "provider": "openai", "name": "j", "apiKeyEnv": "JUDGE_KEY" } } },
  "approvals": { "rater": "judge" },
  "mcpServers": {
    "files": { "command": "mcp-files", "args": ["--root", "."], "env": { "TOKEN": "t0p" }, "cwd": "/x", "enabled": false },
    "web": { "type": "http", "url": "https://mcp.example/mcp", "headers": { "Authorization": "Bearer t0p" } },
  },
  "builtInTools": { "run_tests": { "command": "go test ./..." }, "gth_web_fetch": false, "run_lint": { "enabled": false } },
  "telemetry": { "commands": true },
}`)
	e := h.must(Overrides{}, "run")
	off := false
	if diff := cmp.Diff(map[string]MCPServer{
		"files": {Command: "mcp-files", Args: []string{"--root", "."}, Env: map[string]string{"TOKEN": "t0p"}, Cwd: "/x", Enabled: &off},
		"web":   {Type: "http", URL: "https://mcp.example/mcp", Headers: map[string]string{"Authorization": "Bearer t0p"}},
	}, e.MCPServers); diff != "" {
		t.Error(diff)
	}
	if e.Approvals.Rater != "judge" || e.Profiles["judge"].Model.APIKeyEnv != "JUDGE_KEY" || !e.Telemetry.Commands {
		t.Errorf("%+v %+v", e.Approvals, e.Profiles)
	}
	if tool := e.BuiltInTools["run_tests"]; !*tool.Enabled || tool.Command != "go test ./..." || *e.BuiltInTools["gth_web_fetch"].Enabled {
		t.Errorf("%+v", e.BuiltInTools)
	}
	for at, source := range e.Origins {
		if strings.Contains(at+source, "t0p") {
			t.Errorf("a secret is in the origins: %s %s", at, source)
		}
	}
}

func TestParseApprovals(t *testing.T) {
	a, err := ParseApprovals([]byte(`{"mode":"auto","deny":[{"type":"tool","matcher":"exact","pattern":"x"}]}`))
	if err != nil || *a.Mode != approvals.Auto || a.Deny[0].Source != "approvals:1" || a.Allow != nil {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = ParseApprovals([]byte(`"bypass"`))
	if err != nil || *a.Mode != approvals.Bypass {
		t.Errorf("%+v, %v", a, err)
	}
	for raw, want := range map[string]string{
		`"ask"`:             `approvals:1:1: approvals "ask" no longer exists: choose "write" (files in the workspace change unasked) or "manual"`,
		`7`:                 "approvals:1:1: approvals must be a rung or an object, not a number",
		`{"moed":"auto"}`:   `approvals:1:2: unknown key "moed" in approvals: did you mean "mode"?`,
		`{"mode":"auto"} x`: "approvals:1:17: the file is not valid JSONC: invalid character 'x' after top-level value",
	} {
		if _, err := ParseApprovals([]byte(raw)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", raw, err, want)
		}
	}
}
