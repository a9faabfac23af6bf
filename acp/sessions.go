package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gth-server/gth-server/acp/internal/stream"
	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/session"
)

// closeRequestTime bounds how long session/close waits.
const closeRequestTime = 5 * time.Second

// newSession serves session/new. A server list never fails it.
func (c *conn) newSession(r stream.Request) stream.Work {
	var p wire.NewSessionRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	return func(ctx context.Context) (any, error) {
		if err := checkCwd(p.Cwd); err != nil {
			return nil, err
		}
		s, err := c.server.opts.Manager.Create(ctx, session.Spec{Cwd: p.Cwd, Surface: surface, Rung: c.server.opts.Rung})
		if err != nil {
			return nil, failure("the session could not be made", err)
		}
		a, _ := prepare(c, s)
		if !c.add(a) {
			cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
			defer cancel()
			return nil, failure("the session could not be made", closeFor(cctx, a))
		}
		rung := s.Rung()
		res := wire.NewSessionResponse{
			SessionID: wire.SessionID(s.ID()), Modes: wire.Some(c.modes(rung)), ConfigOptions: wire.Some(c.configOptions(rung)),
			Meta: c.serverReport(s.ID(), r.Params),
		}
		return stream.Then{Result: res, After: a.start}, nil
	}
}

// closeFor closes a session that came too late and says why.
func closeFor(ctx context.Context, a *attached) error {
	if err := a.close(ctx, errConnEnded); err != nil {
		return fmt.Errorf("%w; closing it failed: %w", errConnEnded, err)
	}
	return errConnEnded
}

func checkCwd(cwd string) error {
	if !filepath.IsAbs(cwd) {
		return invalidParams("cwd %q is not absolute: give the absolute path of the project directory", cwd)
	}
	switch fi, err := os.Stat(cwd); {
	case err != nil:
		return invalidParams("cwd %q cannot be used: %v; give an existing directory", cwd, err)
	case !fi.IsDir():
		return invalidParams("cwd %q is not a directory: give the project directory", cwd)
	}
	return nil
}

// unstarted is one server of the client's list in the answer's _meta.
type unstarted struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Reason string `json:"reason"`
}

// serverReport tells in the log and in _meta which of the client's servers
// are not started. It reads the list as it came, so that an entry which
// does not fit the schema is reported too.
func (c *conn) serverReport(id session.ID, params json.RawMessage) json.RawMessage {
	var p struct {
		Servers []json.RawMessage `json:"mcpServers"`
	}
	if json.Unmarshal(params, &p) != nil || len(p.Servers) == 0 {
		return nil
	}
	var list []unstarted
	for i, raw := range p.Servers {
		var named struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &named) != nil || named.Name == "" {
			named.Name = fmt.Sprintf("number %d", i+1)
		}
		list = append(list, unstarted{named.Name, "not started", "servers given by the client are not supported yet"})
		c.log.Warn("an MCP server of the client is not started: not supported yet", "session", id, "server", named.Name)
	}
	meta, err := json.Marshal(map[string]any{"gth-server": map[string]any{"mcpServers": list}})
	if err != nil {
		return nil
	}
	return meta
}

// cancelSession serves session/cancel. Without a turn it does nothing.
func (c *conn) cancelSession(r stream.Request) stream.Work {
	var p wire.CancelNotification
	err := decode(r, &p)
	if err == nil {
		var a *attached
		if a, err = c.lookup(p.SessionID); err == nil {
			a.cancel()
		}
	}
	if err != nil {
		c.log.Debug("ignored a session/cancel", "error", err)
	}
	if r.Notification() {
		return nil
	}
	return fail(err)
}
