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
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
)

// version is set by the linker in releases.
var version = "dev"

func main() {
	os.Exit(realMain())
}

func realMain() int {
	std := stdio{
		in: os.Stdin, out: output{os.Stdout}, err: os.Stderr, env: os.Getenv, environ: os.Environ(),
		inTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		outTTY: term.IsTerminal(int(os.Stdout.Fd())),
		errTTY: term.IsTerminal(int(os.Stderr.Fd())),
	}
	ctx, hurry, stop := signalContext(context.Background())
	defer stop()
	std.hurry = hurry
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

	hurry context.Context // ends when nothing may take its time any more; nil never ends
}

// run parses args, runs the command and returns the exit code.
func run(ctx context.Context, std stdio, args []string) int {
	var c cli
	var grammar any = &c
	if len(args) > 0 && args[0] == "acp" {
		grammar = &c.editorCLI
	}
	exited := -1
	parser, err := newParser(grammar, std, func(code int) { exited = code; panic(helpShown{}) })
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

func newParser(grammar any, std stdio, exit func(int)) (*kong.Kong, error) {
	return kong.New(grammar,
		kong.Name("gth-server"),
		kong.Description("A coding agent whose every tool call passes one gate."),
		kong.Writers(std.out, std.err),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Vars{"version": version},
	)
}

// asHelp turns the command help, which people try, into the flag.
func asHelp(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
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
	kctx, err := parser.Parse(asHelp(args))
	var out *outputError
	switch {
	case errors.As(err, &out):
		return nil, report(std, out)
	case err != nil:
		return nil, report(std, usage(fmt.Errorf("%w: see %s --help", err, nearestCommand(err))))
	}
	return kctx, 0
}

// nearestCommand names the command whose help explains a usage error.
func nearestCommand(err error) string {
	name := "gth-server"
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil {
		for _, p := range wrong.Context.Path {
			if p.Command != nil {
				name += " " + p.Command.Name
			}
		}
	}
	return name
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
	exitNoReader    = 141
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

// report prints err on standard error and returns its code. What err quotes
// of others cannot act on a terminal.
func report(std stdio, err error) int {
	if err == nil {
		return exitDone
	}
	code := exitInternal
	var sig signalError
	if errors.As(err, &sig) {
		code = sig.code()
	}
	var out *outputError
	if errors.As(err, &out) && errors.Is(err, syscall.EPIPE) {
		return exitNoReader // whoever closed the pipe knows
	}
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
		if exit.err == nil {
			return code
		}
	}
	lines := strings.Split(strings.TrimRight(err.Error(), "\n"), "\n")
	for i, l := range lines {
		lines[i] = terminal.Escape(l)
	}
	fmt.Fprintf(std.err, "gth-server: %s\n", strings.Join(lines, "\n  "))
	return code
}
