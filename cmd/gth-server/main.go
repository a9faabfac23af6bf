// Command gth-server is a coding agent behind one gate: editors drive it
// over the Agent Client Protocol, scripts and CI run it headless, and every
// tool call passes the same decision.
//
// Guarantees: with the command acp nothing but JSON-RPC reaches standard
// output; run and exec never wait for a person who is not there; every
// command ends with one of the codes of docs/cli.md.
//
// This package only reads flags, wires the packages together, watches
// signals and turns errors into exit codes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"
)

// version is set by the linker in releases.
var version = "dev"

func main() {
	os.Exit(realMain())
}

func realMain() int {
	std := stdio{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv, environ: os.Environ(),
		inTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		outTTY: term.IsTerminal(int(os.Stdout.Fd())),
		errTTY: term.IsTerminal(int(os.Stderr.Fd())),
	}
	ctx, stop := signalContext(context.Background())
	defer stop()
	return run(ctx, std, os.Args[1:])
}

// stdio is everything a command has of the outside.
type stdio struct {
	in      io.Reader
	out     io.Writer
	err     io.Writer
	env     func(string) string
	environ []string

	inTTY, outTTY, errTTY bool
}

// signalError is the cause of a context that a signal cancelled.
type signalError struct{ sig os.Signal }

func (e signalError) Error() string { return "interrupted by " + e.sig.String() }

// signalContext is cancelled by the first interrupt; a second one kills the
// process, as if nobody listened.
func signalContext(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-ch:
			signal.Stop(ch)
			cancel(signalError{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		cancel(nil)
		<-done
	}
}

// run parses args, runs the command and returns the exit code.
func run(ctx context.Context, std stdio, args []string) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("gth-server"),
		kong.Description("A coding agent whose every tool call passes one gate."),
		kong.Writers(std.out, std.err),
		kong.Exit(func(code int) { exited = code; panic(helpShown{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: false}),
		kong.Vars{"version": version},
	)
	if err != nil {
		return report(std, err)
	}
	kctx, code := parse(parser, std, args, &exited)
	if kctx == nil {
		return code
	}
	kctx.BindTo(ctx, (*context.Context)(nil))
	return report(std, kctx.Run(std, &c.Globals))
}

// helpShown leaves kong's parser after it printed help or the version.
type helpShown struct{}

func parse(parser *kong.Kong, std stdio, args []string, exited *int) (kctx *kong.Context, code int) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(helpShown); !ok {
				panic(v)
			}
			kctx, code = nil, *exited
		}
	}()
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return nil, report(std, &exitError{code: exitUsage, err: fmt.Errorf("%w: see gth-server --help", err)})
	}
	return kctx, 0
}

// The exit codes of docs/cli.md.
const (
	exitDone        = 0
	exitInternal    = 1
	exitUsage       = 2
	exitModel       = 3
	exitLimit       = 4
	exitPerson      = 10
	exitAttack      = 11
	exitRefused     = 12
	exitInterrupted = 130
	exitTerminated  = 143
)

// exitError carries the code that a command ends with; a nil err prints
// nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage makes err end the command as a mistake of its caller.
func usage(err error) error { return &exitError{code: exitUsage, err: err} }

// report prints err on standard error and returns its code.
func report(std stdio, err error) int {
	if err == nil {
		return exitDone
	}
	code := exitInternal
	var sig signalError
	if errors.As(err, &sig) {
		code = exitInterrupted
		if sig.sig == syscall.SIGTERM {
			code = exitTerminated
		}
	}
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
		if exit.err == nil {
			return code
		}
	}
	fmt.Fprintf(std.err, "gth-server: %v\n", err)
	return code
}
