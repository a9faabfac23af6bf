package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gth-server/gth-server/acp"
)

type acpCmd struct {
	modelFlags
}

// Run serves one editor until its input ends.
func (c *acpCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	out, restore, err := claimStdout(std)
	if err != nil {
		return err
	}
	defer restore()
	app, err := newApp(ctx, std, g, c.modelFlags, "acp", ".", onDiskLazily)
	if err != nil {
		return err
	}
	defer app.close()
	app.grace = editorGrace
	if std.inTTY {
		fmt.Fprintln(std.err, "gth-server: this speaks JSON-RPC with an editor; to try it by hand use gth-server demo or run. Ctrl-D ends it.")
	}
	server := acp.New(acp.Options{
		Manager: app.manager, Name: "gth-server", Title: "gth-server", Version: version,
		Rung: app.rung, Ceiling: app.cfg.Ceiling, Logger: app.log,
	})
	err = server.Serve(ctx, std.in, out)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("acp: connection failed: %w", err)
	}
	return nil
}

// claimStdout keeps the real standard output for the protocol and points
// os.Stdout at standard error, so that nothing in the process that prints
// can break the stream.
func claimStdout(std stdio) (io.Writer, func(), error) {
	out, ok := std.out.(output)
	if !ok {
		return std.out, func() {}, nil
	}
	return dupStdout(out.file)
}
