package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestFileErrors(t *testing.T) {
	const shellEntry = `{"type": "shell", "matcher": "exact", "pattern": "x"}`
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "{\n  \"model\": {\n    \"modle\": 1,\n  },\n}", `F:3:5: unknown key "modle" in model: use provider, name, baseUrl, apiKeyEnv, script, maxTokens or temperature`},
		{"typing error", "{\n  \"model\": { \"nmae\": \"x\" },\n}", `F:2:14: unknown key "nmae" in model: did you mean "name"?`},
		{"at the top", `{"aprovals": "auto"}`, `F:1:2: unknown key "aprovals" at the top level: did you mean "approvals"?`},
		{"other case", `{"Model": {}}`, `F:1:2: unknown key "Model" at the top level: did you mean "model"?`},
		{"part of a name", `{"model": {"url": "http://x"}}`, `F:1:12: unknown key "url" in model: did you mean "baseUrl"?`},
		{"a key in the file", `{"model": {"apiKey": "sk-hush"}}`, `F:1:12: unknown key "apiKey" in model: did you mean "apiKeyEnv"?`},
		{"surface", `{"commands": {"chat": {}}}`, `F:1:15: unknown key "chat" in commands: use acp, agui or run`},
		{"near surface", `{"commands": {"agiu": {}}}`, `F:1:15: unknown key "agiu" in commands: use acp, agui or run`},
		{"nested", `{"commands": {"run": {"approvals": {"allows": []}}}}`, `F:1:37: unknown key "allows" in commands.run.approvals: did you mean "allow"?`},
		{"column counts characters", `{"profiles": {"größe": {"modell": {}}}}`, "F:1:24: profiles.größe needs model: the chat model.\nF:1:25: unknown key \"modell\" in profiles.größe: did you mean \"model\"?"},
		{"long key", `{"` + strings.Repeat("k", 100) + `": 1}`, `F:1:2: unknown key "` + strings.Repeat("k", 60) + `"… at the top level: use $schema, model, profiles, approvals, commands, builtInTools, shell, mcpServers, server, telemetry or limits`},
		{"control characters in a key", `{"\u001b[2Jmodel": 1}`, `F:1:2: unknown key "\x1b[2Jmodel" at the top level: did you mean "model"?`},

		{"string for number", `{"limits": {"steps": "9"}}`, `F:1:22: limits.steps must be a whole number, not a string`},
		{"number for string", `{"model": {"name": 5}}`, `F:1:20: model.name must be a string, not a number`},
		{"null", `{"model": null}`, `F:1:11: model must be an object, not null`},
		{"list for object", `{"model": []}`, `F:1:11: model must be an object, not a list`},
		{"number for yes or no", `{"telemetry": {"commands": 1}}`, `F:1:28: telemetry.commands must be true or false, not a number`},
		{"number for rung", `{"approvals": 3}`, `F:1:15: approvals must be a rung or an object, not a number`},
		{"number for tools", `{"builtInTools": 3}`, `F:1:18: builtInTools must be a list or an object, not a number`},
		{"text for tool", `{"builtInTools": {"read_file": "yes"}}`, `F:1:32: builtInTools.read_file must be true or false or an object, not a string`},
		{"no object", `[]`, `F:1:1: the file must be an object, not a list`},
		{"fraction", `{"limits": {"steps": 1.5}}`, `F:1:22: limits.steps must be a whole number from 1 to 100000`},
		{"out of range", `{"limits": {"steps": 0}}`, `F:1:22: limits.steps must be a whole number from 1 to 100000`},
		{"huge", `{"limits": {"steps": 99999999999999999999}}`, `F:1:22: limits.steps must be a whole number from 1 to 100000`},
		{"temperature", `{"model": {"temperature": 3}}`, `F:1:27: model.temperature must be a number from 0 to 2`},

		{"provider", `{"model": {"provider": "open-ai"}}`, `F:1:24: model.provider "open-ai" is unknown: did you mean "openai"?`},
		{"a key as variable", `{"model": {"apiKeyEnv": "sk-hush-hush"}}`, `F:1:25: model.apiKeyEnv must be the name of an environment variable, not a key`},
		{"password in URL", `{"model": {"baseUrl": "http://me:hunter2@x/v1"}}`, `F:1:23: model.baseUrl must not hold a user name or password: name a variable in apiKeyEnv instead`},
		{"broken URL with password", `{"model": {"baseUrl": "http://me:hunter2@x:port/"}}`, `F:1:23: model.baseUrl must be an http or https URL such as "http://127.0.0.1:8080/v1"`},
		{"no provider", `{"model": {"name": "x"}}`, `model.provider is not set: use openai or scripted`},
		{"no name", `{"model": {"provider": "openai"}}`, `model.name is not set: name the model that openai serves`},
		{"no script", `{"model": {"provider": "scripted"}}`, `model.script is not set: name the file of turns`},

		{"rung", `{"approvals": "asisted"}`, `F:1:15: approvals "asisted" is unknown: did you mean "assisted"?`},
		{"no rung at all", `{"approvals": {"mode": "paranoid"}}`, `F:1:24: approvals.mode "paranoid" is unknown: use manual, write, assisted, auto or bypass`},
		{"read-only", `{"approvals": "read-only"}`, `F:1:15: approvals "read-only" is called "manual" now`},
		{"auto-safe", `{"approvals": {"mode": "auto-safe"}}`, `F:1:24: approvals.mode "auto-safe" is called "assisted" now`},
		{"full-auto", `{"commands": {"acp": {"approvals": "full-auto"}}}`, `F:1:36: commands.acp.approvals "full-auto" is called "auto" now`},
		{"ask", `{"approvals": "ask"}`, `F:1:15: approvals "ask" no longer exists: choose "write" (files in the workspace change unasked) or "manual"`},
		{"strictness", `{"approvals": {"strictness": 2}}`, `F:1:16: approvals.strictness is retired: the rung alone says how strict the gate is, set "mode"`},
		{"allowlist", `{"approvals": {"allowlist": []}}`, `F:1:16: approvals.allowlist is retired: use "allow" with entries`},
		{"persistAllowlist", `{"approvals": {"persistAllowlist": true}}`, `F:1:16: approvals.persistAllowlist is retired: answers that are remembered for a workspace are kept by the server`},
		{"yolo", `{"builtInTools": {"run_shell_command": {"yolo": true}}}`, `F:1:41: builtInTools.run_shell_command.yolo is retired: use "approvals": "bypass"`},
		{"judge", `{"builtInTools": {"run_shell_command": {"judge": {}}}}`, `F:1:41: builtInTools.run_shell_command.judge is retired: the rungs assisted and auto rate, set "approvals.rater" for another model`},
		{"escalate threshold", `{"approvals": {"escalate": "high"}}`, `F:1:28: approvals.escalate must be a list of entries: the severity threshold of that name is retired, the rung decides`},
		{"allow as text", `{"approvals": {"allow": "ls"}}`, `F:1:25: approvals.allow must be a list of entries, not a string`},

		{"bare string", `{"approvals": {"allow": ["npm test"]}}`, `F:1:26: approvals.allow[0]: entry is a bare string: write { "type": "shell", "matcher": "exact", "pattern": "npm test" }`},
		{"matcher", "{\"approvals\": {\"deny\": [\n  " + shellEntry + ",\n  {\"type\": \"shell\",\n   \"matcher\": \"prefix\", \"pattern\": \"x\"}]}}", `F:4:15: approvals.deny[1]: field "matcher": "prefix" does not exist for type shell: use one of exact, glob, regexp`},
		{"no pattern", `{"approvals": {"deny": [{"type": "shell", "matcher": "exact"}]}}`, `F:1:25: approvals.deny[0]: field "pattern": is required: an entry is written { "type": …, "matcher": …, "pattern": … }`},
		{"unknown key of an entry", `{"approvals": {"deny": [{"type": "shell", "mathcer": "exact", "pattern": "x"}]}}`, `F:1:43: unknown key "mathcer" in approvals.deny[0]: did you mean "matcher"?`},
		{"repeated key of an entry", `{"approvals": {"deny": [{"type": "shell", "type": "tool", "matcher": "exact", "pattern": "x"}]}}`, `F:1:43: key "type" in approvals.deny[0] is written twice, first at line 1: keep one`},
		{"look-around", `{"approvals": {"allow": [{"type": "shell", "matcher": "regexp", "pattern": "^(?!rm)"}]}}`, "F:1:76: approvals.allow[0]: field \"pattern\": \"^(?!rm)\" does not compile (RE2 has no look-around and no back-references): error parsing regexp: invalid or unsupported Perl syntax: `(?!`"},
		{"hint", `{"approvals": {"mcp": {"defaults": {"trustAnnotations": ["readOnly"]}}}}`, `F:1:58: approvals.mcp.defaults.trustAnnotations[0] "readOnly" is unknown: did you mean "readOnlyHint"?`},
		{"rater", `{"approvals": {"rater": "judge"}, "profiles": {"a": {"model": {"provider": "openai", "name": "x"}}}}`, `F:1: approvals.rater "judge" is not a profile: define it under profiles, or use a`},
		{"rater of a surface", `{"commands": {"agui": {"approvals": {"rater": "judge"}}}}`, `F:1: commands.agui.approvals.rater "judge" is not a profile: define it under profiles`},
		{"too many rules", `{"limits": {"rules": 1}, "approvals": {"deny": [` + shellEntry + `,` + shellEntry + `]}}`, `approvals has 2 entries and limits.rules permits 1: remove some, or raise the limit`},

		{"server named star", `{"mcpServers": {"*": {"command": "x"}}}`, `F:1:17: mcpServers: the key "*" stands for every server in rules: give it another name`},
		{"server without a name", `{"mcpServers": {"": {"command": "x"}}}`, `F:1:17: mcpServers: an empty key cannot be named: give it a name`},
		{"server without address", `{"mcpServers": {"a": {"args": []}}}`, `F:1:22: mcpServers.a needs either command or url`},
		{"server of the wrong type", `{"mcpServers": {"a": {"type": "stdio", "url": "http://x"}}}`, `F:1:22: mcpServers.a has type "stdio", which does not go with its address: leave out type`},
		{"secret of the wrong type", `{"mcpServers": {"a": {"url": "http://x", "headers": {"Authorization": ["hunter2"]}}}}`, `F:1:71: mcpServers.a.headers.Authorization must be a string, not a list`},
		{"profile without a name", `{"profiles": {"judge": {"model": {"provider": "openai"}}}}`, `F:1:34: profiles.judge.model needs name: the model's name as its provider spells it.`},
		{"tool", `{"builtInTools": ["gth_gerp"]}`, `F:1:19: builtInTools[0] "gth_gerp" is unknown: did you mean "gth_grep"?`},
		{"dev command", `{"builtInTools": {"run_tests": {"timeout": 5}}}`, `F:1:32: builtInTools.run_tests needs command: write what to run`},
		{"origin", `{"server": {"allowedOrigins": ["localhost:3000"]}}`, `F:1:32: server.allowedOrigins[0] must be an origin such as http://localhost:3000`},

		{"repeated key", "{\n  \"limits\": {},\n  \"limits\": {}\n}", `F:3:3: key "limits" in the top level is written twice, first at line 2: keep one`},
		{"repeated key, escaped", `{"limits": {}, "\u006cimits": {}}`, `F:1:16: key "limits" in the top level is written twice, first at line 1: keep one`},
		{"repeated server", `{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}`, `F:1:40: key "a" in mcpServers is written twice, first at line 1: keep one`},
		{"not closed", "{\n  \"model\": {", `F:2:13: the file is not valid JSONC: parsing value: unexpected EOF`},
		{"secret in broken text", `{"model": {"apiKeyEnv": hunter2}}`, `F:1:25: the file is not valid JSONC: invalid literal`},
		{"empty", " ", `F:1:2: the file is not valid JSONC: parsing value: unexpected EOF`},
		{"not UTF-8", "{\n \"a\xff\": 1}", `F:2:4: the text is not UTF-8: save the file as UTF-8`},
		{"brackets", strings.Repeat("[", 30_000), `F: the file has 30000 opening brackets and may have 20000: make it smaller`},
	} {
		t.Run(tc.name, func(t *testing.T) { newHouse(t, tc.text).refuses(Overrides{}, "run", tc.want) })
	}
}

// Every problem of a file is reported, and those of flags with them.
func TestAllErrorsAreReported(t *testing.T) {
	h := newHouse(t, `{
  "model": { "nmae": "x", "maxTokens": "7" },
  "approvals": { "mode": "full-auto", "deny": [ "rm", { "type": "shell" } ] },
  "limits": { "steps": 0 },
}`)
	h.refuses(Overrides{Rung: "loose"}, "run", `
F:2:14: unknown key "nmae" in model: did you mean "name"?
F:2:40: model.maxTokens must be a whole number, not a string
F:3:26: approvals.mode "full-auto" is called "auto" now
F:3:49: approvals.deny[0]: entry is a bare string: write { "type": "shell", "matcher": "exact", "pattern": "rm" }
F:3:55: approvals.deny[1]: field "matcher": is required: an entry is written { "type": …, "matcher": …, "pattern": … }
F:4:24: limits.steps must be a whole number from 1 to 100000
--rung: rung "loose" is unknown: use manual, write, assisted, auto or bypass`)
	var b strings.Builder
	for i := range 70 {
		fmt.Fprintf(&b, "\"key%d\": 1,\n", i)
	}
	_, err := newHouse(t, "{"+b.String()+"}").load(Overrides{}, "run")
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != maxProblems+1 || !strings.HasSuffix(lines[maxProblems], ": and 20 more errors") {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// A hostile file of the largest size is refused quickly.
func TestLargeFiles(t *testing.T) {
	for name, text := range map[string]string{
		"members":  "{" + strings.Repeat(`"a":1,`, 150_000) + "}",
		"elements": `{"builtInTools":[` + strings.Repeat("1,", 400_000) + "]}",
		"lines":    "{" + strings.Repeat("\"a\":\n1,", 120_000) + "}",
		"nesting":  strings.Repeat("[", maxBrackets),
		"entries":  `{"approvals":{"deny":[` + strings.Repeat("{},", 19_000) + "]}}",
	} {
		start := time.Now()
		if _, err := newHouse(t, text).load(Overrides{}, "run"); err == nil {
			t.Errorf("%s: no error", name)
		}
		d := time.Since(start)
		t.Logf("%s: %d bytes in %v", name, len(text), d)
		if d > 3*time.Minute { // a hang, not a slow machine
			t.Errorf("%s took %v", name, d)
		}
	}
}
