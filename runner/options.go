package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/cloudwego/eino/components/model"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/llm"
	"github.com/gth-server/gth-server/runner/internal/toolbox"
	"github.com/gth-server/gth-server/runner/internal/tools/fsys"
	"github.com/gth-server/gth-server/runner/internal/tools/shell"
	"github.com/gth-server/gth-server/session"
)

// Retry says how failed model calls are repeated. Zero fields take defaults.
type Retry = llm.Retry

// Options configure the runner of one session. Model and Place.Cwd are
// required.
type Options struct {
	Model        model.ToolCallingChatModel
	ModelLabel   string            // "provider:name", for spans and messages
	Policy       *approvals.Policy // nil means no rules
	Place        approvals.Place   // where calls happen; Roots are what file tools may reach
	Rater        Rater             // nil rates nothing: rated calls ask
	Tracer       trace.Tracer      // nil records nothing
	Logger       *slog.Logger      // nil discards
	MaxSteps     int               // model answers a turn, 0 is 200
	MaxTokens    int               // of a turn, in and out; 0 is no limit
	Off          []string          // names of tools that are not offered
	WallTime     time.Duration     // of a turn, 0 is 2 h
	ShellTimeout time.Duration     // 0 is the engine's default
	MaxOutput    int               // bytes of output the model reads of a command, 0 is the engine's default
	Env          []string          // environment of tools, filtered already, see ToolEnv; nil is a bare PATH
	SpillDir     string            // where long outputs are kept whole; empty keeps none
	SystemPrompt string            // empty is the built-in text
	Retry        Retry
}

const (
	defaultMaxSteps = 200
	defaultWallTime = 2 * time.Hour
)

// Runner plays the turns of one session. It implements [session.Runner] and
// [session.Resumer]; of Run and Resume one call is made at a time.
type Runner struct {
	o      Options
	gate   *Gate
	files  *fsys.FS
	engine *shell.Engine // nil where there is no bash
	client *llm.Client
	tools  toolbox.Box
}

var _ session.Runner = (*Runner)(nil)

// New returns a runner and opens the workspace roots of its file tools.
func New(ctx context.Context, o Options) (*Runner, error) {
	if o.Model == nil {
		return nil, errors.New("runner: no model is set: choose one with --model provider:name or in the configuration")
	}
	o.applyDefaults()
	fso := fsys.Options{Roots: rootsOf(o.Place)}
	if o.SpillDir != "" {
		fso.ReadOnlyExtra = []string{o.SpillDir}
	}
	files, err := fsys.Open(fso)
	if err != nil {
		return nil, fmt.Errorf("runner: %w", err)
	}
	r := &Runner{o: o, gate: NewGate(o.Rater, o.Tracer), files: files}
	if r.engine, err = shell.New(shell.Options{Logger: o.Logger}); err != nil {
		o.Logger.WarnContext(ctx, "the shell tool is not offered", "error", err)
		r.engine = nil
	}
	r.client = &llm.Client{Model: o.Model, Label: o.ModelLabel, Retry: o.Retry, Tracer: o.Tracer, Logger: o.Logger}
	r.tools = toolbox.New(toolbox.Options{
		Cwd: o.Place.Cwd, Files: files, Engine: r.engine, Env: o.Env,
		Timeout: o.ShellTimeout, MaxOutput: o.MaxOutput, SpillDir: o.SpillDir, Off: o.Off,
	})
	return r, nil
}

// Close ends what commands left running and releases the workspace roots.
func (r *Runner) Close(ctx context.Context) error {
	var err error
	if r.engine != nil {
		err = r.engine.Close(ctx)
	}
	return errors.Join(err, r.files.Close())
}

func (o *Options) applyDefaults() {
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxSteps <= 0 {
		o.MaxSteps = defaultMaxSteps
	}
	if o.WallTime <= 0 {
		o.WallTime = defaultWallTime
	}
	if o.Env == nil {
		o.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	}
	if o.SystemPrompt == "" {
		o.SystemPrompt = defaultPrompt
	}
	// Quoted, since a directory's name is somebody else's text.
	o.SystemPrompt += "\n\nWorking directory: " + strconv.Quote(o.Place.Cwd)
}

// rootsOf lists the workspace roots with the working directory first:
// relative paths start there.
func rootsOf(p approvals.Place) []string {
	roots := []string{p.Cwd}
	for _, dir := range p.Roots {
		if dir != p.Cwd {
			roots = append(roots, dir)
		}
	}
	return roots
}
