package acp

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/gth-server/gth-server/acp/internal/stream"
	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/session"
)

// listSessions serves session/list.
func (c *conn) listSessions(r stream.Request) stream.Work {
	var p wire.ListSessionsRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	var f session.Filter
	f.Cursor, _ = p.Cursor.Get()
	if f.Cwd, _ = p.Cwd.Get(); f.Cwd != "" && !filepath.IsAbs(f.Cwd) {
		return fail(invalidParams("cwd %q is not absolute: give the absolute path that session/new was given", f.Cwd))
	}
	return func(ctx context.Context) (any, error) {
		metas, next, err := c.server.opts.Manager.List(ctx, f)
		if errors.Is(err, session.ErrNotFound) {
			return nil, invalidParams("cursor %.80q is unknown: begin again without one", f.Cursor)
		}
		if err != nil {
			return nil, failure("the sessions could not be listed", err)
		}
		var res wire.ListSessionsResponse
		for _, m := range metas {
			info := wire.SessionInfo{SessionID: wire.SessionID(m.ID), Cwd: m.Cwd, UpdatedAt: wire.Some(m.UpdatedAt.UTC().Format(time.RFC3339))}
			if m.Title != "" {
				info.Title = wire.Some(visible(m.Title))
			}
			res.Sessions = append(res.Sessions, info)
		}
		if next != "" {
			res.NextCursor = wire.Some(next)
		}
		return res, nil
	}
}

// loadSession serves session/load: what happened is told as updates, and
// then the answer comes.
func (c *conn) loadSession(r stream.Request) stream.Work {
	var p wire.LoadSessionRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	return c.inOrder(p.SessionID, func(ctx context.Context) (any, error) {
		a, err := c.reopen(ctx, p.SessionID, p.Cwd, true)
		if err != nil {
			return nil, err
		}
		rung := a.s.Rung()
		res := wire.LoadSessionResponse{
			Modes: wire.Some(c.modes(rung)), ConfigOptions: wire.Some(c.configOptions(rung)), Meta: c.serverReport(a.s.ID(), r.Params),
		}
		return stream.Then{Result: res, After: a.start}, nil
	})
}

// resumeSession serves session/resume: as load, without telling what
// happened.
func (c *conn) resumeSession(r stream.Request) stream.Work {
	var p wire.ResumeSessionRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	return c.inOrder(p.SessionID, func(ctx context.Context) (any, error) {
		a, err := c.reopen(ctx, p.SessionID, p.Cwd, false)
		if err != nil {
			return nil, err
		}
		rung := a.s.Rung()
		res := wire.ResumeSessionResponse{
			Modes: wire.Some(c.modes(rung)), ConfigOptions: wire.Some(c.configOptions(rung)), Meta: c.serverReport(a.s.ID(), r.Params),
		}
		return stream.Then{Result: res, After: a.start}, nil
	})
}

// reopen makes a stored session one of this connection. One that is open
// here already begins anew, with its questions; while a turn has it, it can
// be resumed, which changes nothing, and not be told again.
func (c *conn) reopen(ctx context.Context, id wire.SessionID, cwd string, replay bool) (*attached, error) {
	s, busy, err := c.open(ctx, id, cwd)
	if err != nil {
		return nil, err
	}
	if busy != nil {
		if replay {
			e := wireError(wire.ErrorCodeInternalError, "session %s has a turn that runs: cancel it or wait for its end, then load the session again", s.ID())
			return nil, withDetails(e, e.Message)
		}
		return busy, nil
	}
	if err := c.lower(ctx, s); err != nil {
		return nil, c.undo(ctx, s, err)
	}
	a, past := prepare(c, s)
	if replay {
		err = a.replay(ctx, past)
	} else {
		a.tr.remember(past)
	}
	if err == nil && !c.add(a) {
		err = failure("the session could not be opened", errConnEnded)
	}
	if err != nil {
		a.sub.Close()
		return nil, c.undo(ctx, s, err)
	}
	return a, nil
}

// open returns a session that belongs to nobody on this connection now, or
// with busy the one that a turn of this connection has. The directory is
// compared first: opening a session has effects.
func (c *conn) open(ctx context.Context, id wire.SessionID, cwd string) (s *session.Session, busy *attached, err error) {
	m := c.server.opts.Manager
	meta, err := m.Meta(ctx, session.ID(id))
	if err != nil {
		return nil, nil, openFailure(id, err)
	}
	if filepath.Clean(cwd) != filepath.Clean(meta.Cwd) {
		return nil, nil, invalidParams("session %s works in %q, not in %q: load it with its own cwd", meta.ID, meta.Cwd, cwd)
	}
	if a := c.find(id); a != nil {
		alive := a.alive()
		if !a.retire() {
			return a.s, a, nil
		}
		c.remove(a)
		<-a.pumped
		if alive {
			return a.s, nil, nil
		}
	}
	if s, err = m.Open(ctx, meta.ID); err != nil {
		return nil, nil, openFailure(id, err)
	}
	return s, nil, nil
}

func openFailure(id wire.SessionID, err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return unknownSession(id, "is not stored: see session/list")
	}
	return failure("the session could not be opened", err)
}

// undo closes a session that was opened in vain and returns why.
func (c *conn) undo(ctx context.Context, s *session.Session, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		c.log.Warn("a session that was not loaded did not close in time", "session", s.ID(), "error", err)
	}
	return why
}

// deleteSession serves session/delete; unknown ids are no error.
func (c *conn) deleteSession(r stream.Request) stream.Work {
	var p wire.DeleteSessionRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	end := c.ending(p.SessionID)
	return c.inOrder(p.SessionID, func(ctx context.Context) (any, error) {
		if _, err := end(ctx); err != nil {
			return nil, err
		}
		err := c.server.opts.Manager.Delete(ctx, session.ID(p.SessionID))
		if err != nil && !errors.Is(err, session.ErrNotFound) {
			return nil, failure("the session could not be deleted", err)
		}
		return wire.DeleteSessionResponse{}, nil
	})
}

// closeSession serves session/close: cancel and free.
func (c *conn) closeSession(r stream.Request) stream.Work {
	var p wire.CloseSessionRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	end := c.ending(p.SessionID)
	return c.inOrder(p.SessionID, func(ctx context.Context) (any, error) {
		known, err := end(ctx)
		if err != nil {
			return nil, err
		}
		if !known {
			return nil, unknownSession(p.SessionID, "is not open here")
		}
		return wire.CloseSessionResponse{}, nil
	})
}

// ending returns what closes a session of this connection and waits for the
// answers of its prompts; it reports false when there is no such session. What
// the session does is cancelled at once, unless something before, such as a
// load, is not done.
func (c *conn) ending(id wire.SessionID) func(context.Context) (bool, error) {
	var a *attached
	if c.order.before(id) == none {
		if a, _ = c.take(id); a != nil {
			a.stop(errSessionClose)
		}
	}
	return func(ctx context.Context) (known bool, err error) {
		ctx, cancel := context.WithTimeout(ctx, closeRequestTime)
		defer cancel()
		if a == nil {
			a, _ = c.take(id)
		}
		for ; a != nil; a, _ = c.take(id) {
			known = true
			if err := a.close(ctx, errSessionClose); err != nil {
				return known, failure("the session did not close in time", err)
			}
			a.turns.Wait()
		}
		return known, nil
	}
}
