package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/toolbox"
	"github.com/gth-server/gth-server/runner/internal/tools/shell"
)

// ExecOptions say what Exec runs and where.
type ExecOptions struct {
	Reading *approvals.Reading // of a shell call that the gate or a person approved
	Posture approvals.Posture  // for the guards
	Dir     string             // working directory
	Env     []string           // filtered already
	Timeout time.Duration      // 0 is the engine's default
	Output  io.Writer          // gets what the command prints, as it prints; not called concurrently
	Notes   io.Writer          // gets what is said about the command, such as a refusal; nil is Output
	Tracer  trace.Tracer       // nil records nothing
}

// execOutput bounds what is passed on of a command outside a session, since
// the engine keeps as much in memory.
const execOutput = 256 << 20

// Exec runs a judged command outside any session and returns its exit
// code; 126 means that a guard refused a part of it. The error says why it
// could not run, or is ctx's cause.
func Exec(ctx context.Context, o ExecOptions) (exit int, err error) {
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if o.Notes == nil {
		o.Notes = o.Output
	}
	req, err := toolbox.ShellRequest(o.Reading, o.Posture)
	if err != nil {
		return 0, err
	}
	engine, err := shell.New(shell.Options{})
	if err != nil {
		return 0, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		err = errors.Join(err, engine.Close(closing))
	}()
	ctx, span := o.Tracer.Start(ctx, "execute_tool "+toolbox.ShellName)
	defer span.End()
	req.Dir, req.Env, req.Timeout, req.MaxOutput = o.Dir, o.Env, o.Timeout, execOutput
	req.OnOutput = func(chunk string) { _, _ = io.WriteString(o.Output, chunk) }
	res, err := engine.Run(ctx, req)
	if err != nil {
		return 0, err
	}
	if span.IsRecording() {
		span.SetAttributes(attribute.Int("process.exit.code", res.ExitCode))
	}
	switch {
	case res.Cancelled:
		return res.ExitCode, context.Cause(ctx)
	case res.Refused:
		fmt.Fprintln(o.Notes, res.Refusal)
	case res.TotalBytes > execOutput:
		fmt.Fprintf(o.Notes, "the output was cut after %d bytes\n", execOutput)
	case res.TimedOut:
		fmt.Fprintf(o.Notes, "stopped after %s: the time limit was reached\n", res.Duration.Round(time.Second))
	}
	return res.ExitCode, nil
}
