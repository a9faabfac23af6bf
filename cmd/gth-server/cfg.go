package main

import (
	"fmt"

	"github.com/gth-server/gth-server/approvals"
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
}

// Run prints the effective configuration. It holds no secret values: keys
// are named by variable.
func (c *cfgShowCmd) Run(std stdio, g *Globals) error {
	cfg, err := loadConfig(std, g, c.modelFlags, c.Surface)
	if err != nil {
		return err
	}
	if c.Origin {
		return writeJSON(std.out, cfg.Origins)
	}
	return writeJSON(std.out, describeConfig(cfg))
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
}

// Run checks every layer, the rules included.
func (c *cfgValidateCmd) Run(std stdio, g *Globals) error {
	cfg, err := loadConfig(std, g, modelFlags{}, c.Surface)
	if err != nil {
		return err
	}
	if _, err := approvals.Compile(cfg.Rules()); err != nil {
		return usage(err)
	}
	where := cfg.File
	if where == "" {
		where = "no configuration file; the defaults"
	}
	_, err = fmt.Fprintf(std.out, "%s: valid\n", where)
	return err
}

type cfgSchemaCmd struct{}

// Run prints the schema.
func (c *cfgSchemaCmd) Run(std stdio) error {
	_, err := std.out.Write(append(config.Schema(), '\n'))
	return err
}
