package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
	"github.com/gth-server/gth-server/session/config"
)

type cfgCmd struct {
	Show     cfgShowCmd     `cmd:"" help:"Print the configuration in force, as JSON."`
	Validate cfgValidateCmd `cmd:"" help:"Check the configuration and say what is wrong with it."`
	Schema   cfgSchemaCmd   `cmd:"" help:"Print the JSON Schema of the configuration file."`
}

type surfaceFlag struct {
	Surface string `help:"Surface whose overrides count: acp, agui or run." enum:"acp,agui,run" default:"run"`
}

type cfgShowCmd struct {
	surfaceFlag
	modelFlags
	Origin bool `help:"Say for each value where it comes from."`
	JSON   bool `help:"Print it on one line."`
}

// Run prints the effective configuration. It holds no secret values: keys
// are named by variable.
func (c *cfgShowCmd) Run(std stdio, g *Globals) error {
	cfg, err := loadConfig(std, g, c.modelFlags, c.Surface)
	if err != nil {
		return err
	}
	var what any = describeConfig(cfg)
	if c.Origin {
		what = cfg.Origins
	}
	enc := json.NewEncoder(std.out)
	enc.SetEscapeHTML(false)
	if !c.JSON {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(what)
}

func describeConfig(cfg *config.Effective) map[string]any {
	rules := func(list []approvals.SourcedEntry) []map[string]any {
		out := []map[string]any{}
		for _, e := range list {
			out = append(out, map[string]any{"entry": e.Entry, "source": e.Source})
		}
		return out
	}
	servers := map[string]any{}
	for name, s := range cfg.MCPServers {
		servers[name] = map[string]any{"type": s.Type, "command": s.Command, "args": s.Args, "url": s.URL}
	}
	return map[string]any{
		"file": cfg.File, "dataDir": cfg.DataDir, "surface": cfg.Surface,
		"rung": cfg.Rung, "ceiling": cfg.Ceiling, "model": cfg.Model, "profiles": cfg.Profiles,
		"approvals":    map[string]any{"rater": cfg.Approvals.Rater, "allow": rules(cfg.Approvals.Allow), "deny": rules(cfg.Approvals.Deny), "escalate": rules(cfg.Approvals.Escalate)},
		"builtInTools": cfg.BuiltInTools, "shell": cfg.Shell, "mcpServers": servers,
		"server": cfg.Server, "telemetry": cfg.Telemetry, "limits": cfg.Limits,
	}
}

type cfgValidateCmd struct {
	surfaceFlag
	JSON bool `help:"Print JSON."`
}

// validity is the JSON of config validate.
type validity struct {
	File   string   `json:"file"`
	Valid  bool     `json:"valid"`
	Errors []string `json:"errors"`
}

// Run checks every layer, the rules included.
func (c *cfgValidateCmd) Run(std stdio, g *Globals) error {
	cfg, err := loadConfig(std, g, modelFlags{}, c.Surface)
	if err == nil {
		_, err = approvals.Compile(cfg.Rules())
	}
	v := validity{File: string(g.Config), Valid: err == nil, Errors: []string{}}
	if err != nil {
		v.Errors = strings.Split(err.Error(), "\n")
	} else {
		v.File = cfg.File
	}
	if c.JSON {
		if failed := writeJSON(std.out, v); failed != nil {
			return failed
		}
	}
	switch {
	case err != nil:
		return usage(err)
	case c.JSON:
		return nil
	}
	_, err = fmt.Fprintf(std.out, "%s: valid\n", terminal.Escape(orElse(v.File, "no configuration file; the defaults")))
	return err
}

type cfgSchemaCmd struct {
	JSON bool `help:"The schema is JSON in any case."`
}

// Run prints the schema.
func (c *cfgSchemaCmd) Run(std stdio) error {
	_, err := std.out.Write(append(config.Schema(), '\n'))
	return err
}
