package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudwego/eino/components/model"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/config"
	"github.com/gth-server/gth-server/telemetry"
)

// app is one process: configuration, model, telemetry and the manager that
// owns its sessions.
type app struct {
	cfg     *config.Effective
	cwd     string
	rung    approvals.Rung
	policy  *approvals.Policy
	model   runner.ModelConfig
	env     []string
	tel     *telemetry.Telemetry
	log     *slog.Logger
	manager *session.Manager
	store   session.Store
	spill   func() (string, error) // makes the directory of long outputs, once
	spilled atomic.Pointer[string] // that directory
	closers []closer
	closing func(time.Duration) (context.Context, context.CancelFunc)
	grace   time.Duration // for all closers together
	started model.ToolCallingChatModel
}

type closer struct {
	name  string
	close func(context.Context) error
}

// What ending a process may take, the last spans included. An editor
// expects its agent to be gone within two seconds of the end of input, most
// of which acp uses for its turns.
const (
	shutdownGrace = 5 * time.Second
	editorGrace   = 400 * time.Millisecond
	forcedGrace   = 1500 * time.Millisecond // after either, for what is killed to be gone
)

// newApp reads the configuration and starts what the command needs. The
// caller must close it.
func newApp(ctx context.Context, std stdio, g *Globals, m modelFlags, surface, cwd string, keep keeping) (*app, error) {
	cfg, err := loadConfig(std, g, m, surface)
	if err != nil {
		return nil, err
	}
	if cwd, err = workdir(cwd); err != nil {
		return nil, err
	}
	return startApp(ctx, std, g, cfg, cwd, keep)
}

func loadConfig(std stdio, g *Globals, m modelFlags, surface string) (*config.Effective, error) {
	cfg, err := config.Load(config.Overrides{
		File: string(g.Config), Model: string(m.Model), BaseURL: string(m.BaseURL), Rung: string(m.Rung), DataDir: string(g.DataDir),
	}, std.env, surface)
	if err != nil {
		return nil, usage(err)
	}
	return cfg, nil
}

func startApp(ctx context.Context, std stdio, g *Globals, cfg *config.Effective, cwd string, keep keeping) (_ *app, err error) {
	a := &app{cfg: cfg, cwd: cwd, rung: cfg.Rung, closing: std.closing, grace: shutdownGrace}
	var closeLog func() error
	if a.log, closeLog, err = openLog(std, g, cfg); err != nil {
		return nil, err
	}
	a.later("log", func(context.Context) error { return closeLog() })
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.policy, err = approvals.Compile(cfg.Rules()); err != nil {
		return nil, usage(err)
	}
	if a.model, err = modelConfig(std, cfg); err != nil {
		return nil, err
	}
	if a.started, err = runner.NewModel(ctx, a.model); err != nil {
		return nil, usage(err)
	}
	if c, ok := a.started.(io.Closer); ok {
		a.later("model", func(context.Context) error { return c.Close() })
	}
	a.env = runner.ToolEnv(std.environ, secretNames(cfg))
	a.tel, err = telemetry.Setup(ctx, telemetry.Config{Version: version, Getenv: std.env, OnError: func(err error) {
		a.log.Warn("telemetry export failed", "err", err)
	}})
	if err != nil {
		return nil, usage(err)
	}
	a.later("telemetry", a.tel.Shutdown)
	if a.store, err = keep.open(ctx, cfg, a.log); err != nil {
		return nil, err
	}
	a.later("store", func(context.Context) error { return a.store.Close() })
	a.spill = sync.OnceValues(a.makeSpill)
	a.later("spill files", a.removeSpill)
	a.manager = session.NewManager(ctx, session.Options{
		Store: a.store, NewRunner: a.newRunner, Logger: a.log,
		AskExpiry: time.Duration(cfg.Limits.AskExpiryMs) * time.Millisecond,
	})
	a.later("sessions", a.closeSessions)
	return a, nil
}

// makeSpill makes the directory of long outputs when the first session needs
// it; an editor's process that opens none, or is killed, leaves nothing.
func (a *app) makeSpill() (string, error) {
	dir, err := os.MkdirTemp("", "gth-server-spill-")
	if err != nil {
		return "", usage(fmt.Errorf("directory for long output: %w: set TMPDIR to a directory that can be written", err))
	}
	a.spilled.Store(&dir)
	return dir, nil
}

// removeSpill is called when the sessions have ended.
func (a *app) removeSpill(context.Context) error {
	if dir := a.spilled.Load(); dir != nil {
		return os.RemoveAll(*dir)
	}
	return nil
}

// closeSessions ends the sessions politely as long as ctx lasts, and then by
// force, so that no child of a tool is left behind.
func (a *app) closeSessions(ctx context.Context) error {
	err := a.manager.Close(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	forced, cancel := context.WithTimeout(context.WithoutCancel(ctx), forcedGrace)
	defer cancel()
	return a.manager.Close(forced)
}

// newRunner makes the runner of one session.
func (a *app) newRunner(ctx context.Context, s session.Spec) (session.Runner, error) {
	dir, err := a.spill()
	if err != nil {
		return nil, err
	}
	spill := filepath.Join(dir, string(s.ID))
	if err := os.MkdirAll(spill, 0o700); err != nil {
		return nil, fmt.Errorf("spill directory of session %s: %w", s.ID, err)
	}
	return runner.New(ctx, runner.Options{
		Model:        a.started,
		ModelLabel:   a.model.Provider + ":" + a.model.Name,
		Policy:       a.policy,
		Place:        placeOf(s.Cwd, s.Roots, a.cfg),
		Tracer:       a.tel.Tracer,
		Logger:       a.log,
		MaxSteps:     a.cfg.Limits.Steps,
		MaxTokens:    a.cfg.Limits.TurnTokens,
		Off:          toolsOff(a.cfg),
		WallTime:     time.Duration(a.cfg.Limits.TurnMs) * time.Millisecond,
		ShellTimeout: time.Duration(a.cfg.Shell.TimeoutMs) * time.Millisecond,
		MaxOutput:    a.cfg.Shell.MaxOutputBytes,
		Env:          a.env,
		SpillDir:     spill,
	})
}

// toolsOff lists the tools that the configuration switches off.
func toolsOff(cfg *config.Effective) []string {
	var off []string
	for name, t := range cfg.BuiltInTools {
		if t.Enabled != nil && !*t.Enabled {
			off = append(off, name)
		}
	}
	return off
}

func (a *app) later(name string, f func(context.Context) error) {
	a.closers = append(a.closers, closer{name, f})
}

// close releases everything in reverse order, under a deadline of its own.
func (a *app) close() {
	ctx, cancel := a.closing(a.grace)
	defer cancel()
	for i := len(a.closers) - 1; i >= 0; i-- {
		c := a.closers[i]
		if err := c.close(ctx); err != nil {
			a.log.Warn("shutdown: cannot close "+c.name, "err", err)
		}
	}
	a.closers = nil
}

// defaultKeyEnv names the variable that holds a provider's key when the
// configuration names none.
const defaultKeyEnv = "OPENAI_API_KEY"

// modelConfig resolves the key of the configured model.
func modelConfig(std stdio, cfg *config.Effective) (runner.ModelConfig, error) {
	m := cfg.Model
	c := runner.ModelConfig{Provider: m.Provider, Name: m.Name, BaseURL: m.BaseURL, Script: m.Script, MaxTokens: m.MaxTokens, Temperature: m.Temperature}
	switch m.Provider {
	case "":
		return c, usage(errors.New("no model is configured: use --model openai:NAME, set GTH_MODEL, or write model in the configuration; demo needs none"))
	case "openai":
		name := orElse(m.APIKeyEnv, defaultKeyEnv)
		c.APIKey = std.env(name)
		if c.APIKey == "" && m.BaseURL == "" {
			return c, usage(fmt.Errorf("model %s:%s needs a key: set %s, or name a server of your own with --base-url", m.Provider, m.Name, name))
		}
	case "scripted":
		if c.Script == "" {
			c.Script = m.Name
		}
	}
	return c, nil
}

// secretNames lists the variables that hold keys by configuration, on any
// surface; no tool inherits them.
func secretNames(cfg *config.Effective) []string {
	names := []string{defaultKeyEnv, cfg.Model.APIKeyEnv}
	for _, p := range cfg.Profiles {
		names = append(names, p.Model.APIKeyEnv)
	}
	for _, c := range cfg.Commands {
		if c.Model != nil {
			names = append(names, c.Model.APIKeyEnv)
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}
