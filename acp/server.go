package acp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/gth-server/gth-server/acp/internal/stream"
	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// How long the end of a connection may take. Together they stay below the
// two seconds in which an editor expects the process to be gone.
const (
	drainTime = 300 * time.Millisecond // for turns and requests to end
	closeTime = 800 * time.Millisecond // for sessions to close politely
	forceTime = 400 * time.Millisecond // and then for what they kill to be gone
)

// Options configure a Server. Manager is required.
type Options struct {
	Manager *session.Manager
	Name    string         // machine name of the agent
	Title   string         // name for people
	Version string         // of the agent
	Rung    approvals.Rung // of new sessions
	Ceiling approvals.Rung // the loosest rung that a session may be moved to
	Logger  *slog.Logger   // nil discards
}

// Server serves clients. It is safe for concurrent use.
type Server struct {
	opts Options
	log  *slog.Logger
}

// New returns a server.
func New(o Options) *Server {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{opts: o, log: log}
}

// Serve serves one client until the end of in, and returns nil then; or
// until ctx ends or out fails, and returns why. Before it returns, the
// connection's turns are cancelled and its sessions closed. It closes
// neither in nor out.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	c := newConn(ctx, s)
	// Requests end by shutdown, in order, and not all at once with ctx.
	c.rpc = stream.New(context.WithoutCancel(ctx), in, out, stream.Options{Accept: c.accept, Logger: s.log})
	close(c.ready)
	var err error
	select {
	case <-c.rpc.Ended():
		if cause := c.rpc.Err(); cause != nil {
			err = fmt.Errorf("the connection to the client broke: %w", cause)
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.shutdown(ctx)
	return err
}
