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
	return func(ctx context.Context) (any, error) {
		var f session.Filter
		f.Cursor, _ = p.Cursor.Get()
		if cwd, ok := p.Cwd.Get(); ok && cwd != "" {
			if !filepath.IsAbs(cwd) {
				return nil, invalidParams("cwd %q is not absolute: give the absolute path that session/new was given", cwd)
			}
			f.Cwd = cwd
		}
		metas, next, err := c.server.opts.Manager.List(ctx, f)
		if errors.Is(err, session.ErrNotFound) {
			return nil, invalidParams("cursor %q is unknown: begin again without one", f.Cursor)
		}
		if err != nil {
			return nil, failure("the sessions could not be listed", err)
		}
		res := wire.ListSessionsResponse{Sessions: []wire.SessionInfo{}}
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
	return func(ctx context.Context) (any, error) {
		return c.reopen(ctx, p.SessionID, p.Cwd, true, func(a *attached) any {
			rung := a.s.Rung()
			return wire.LoadSessionResponse{Modes: wire.Some(c.modes(rung)), ConfigOptions: wire.Some(c.configOptions(rung)), Meta: c.serverReport(a.s.ID(), r.Params)}
		})
	}
}

// resumeSession serves session/resume: as load, without telling what
// happened.
func (c *conn) resumeSession(r stream.Request) stream.Work {
	var p wire.ResumeSessionRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	return func(ctx context.Context) (any, error) {
		return c.reopen(ctx, p.SessionID, p.Cwd, false, func(a *attached) any {
			rung := a.s.Rung()
			return wire.ResumeSessionResponse{Modes: wire.Some(c.modes(rung)), ConfigOptions: wire.Some(c.configOptions(rung)), Meta: c.serverReport(a.s.ID(), r.Params)}
		})
	}
}

// reopen makes a stored session one of this connection. One that is open
// here already stays as it is and is only told again.
func (c *conn) reopen(ctx context.Context, id wire.SessionID, cwd string, replay bool, result func(*attached) any) (any, error) {
	if a, err := c.lookup(id); err == nil {
		if err := sameCwd(a.s, cwd); err != nil {
			return nil, err
		}
		if replay {
			c.replay(a.s)
		}
		return result(a), nil
	}
	s, err := c.server.opts.Manager.Open(ctx, session.ID(id))
	if err != nil {
		return nil, openFailure(id, err)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := sameCwd(s, cwd); err != nil {
		if failed := s.Close(closing); failed != nil {
			c.log.Warn("a session that was not loaded did not close in time", "session", id, "error", failed)
		}
		return nil, err
	}
	a := prepare(c, s)
	if replay {
		a.tr = c.replay(s)
	}
	if !c.add(a) {
		go a.pump()
		return nil, failure("the session could not be opened", closeFor(closing, a))
	}
	return stream.Then{Result: result(a), After: func() { go a.pump() }}, nil
}

func sameCwd(s *session.Session, cwd string) error {
	if was := s.Spec().Cwd; cwd != "" && filepath.Clean(cwd) != filepath.Clean(was) {
		return invalidParams("the session works in %q, not in %q: load it with its own cwd", was, cwd)
	}
	return nil
}

func openFailure(id wire.SessionID, err error) error {
	if errors.Is(err, session.ErrNotFound) {
		e := wireError(wire.ErrorCodeResourceNotFound, "session %q is not stored: see session/list", string(id))
		return withDetails(e, e.Message)
	}
	return failure("the session could not be opened", err)
}

// deleteSession serves session/delete; unknown ids are no error.
func (c *conn) deleteSession(r stream.Request) stream.Work {
	var p wire.DeleteSessionRequest
	if err := decode(r, &p); err != nil {
		return fail(err)
	}
	a, err := c.lookup(p.SessionID)
	if err == nil {
		c.remove(a)
		a.stop(errSessionClose)
	}
	return func(ctx context.Context) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, closeRequestTime)
		defer cancel()
		if a != nil {
			if err := a.close(ctx, errSessionClose); err != nil {
				return nil, failure("the session did not close in time", err)
			}
			a.turns.Wait()
		}
		if err := c.server.opts.Manager.Delete(ctx, session.ID(p.SessionID)); err != nil {
			return nil, failure("the session could not be deleted", err)
		}
		return wire.DeleteSessionResponse{}, nil
	}
}

// replay tells the client a session's log: messages whole, calls finished
// and in one piece. It returns a translator that knows the calls which have
// not ended.
func (c *conn) replay(s *session.Session) *translator {
	tr := newTranslator()
	for _, rec := range s.Records() {
		for _, u := range tr.replayed(rec.Event) {
			c.notify(s.ID(), u)
		}
	}
	for _, call := range tr.calls {
		c.notify(s.ID(), wire.SessionUpdate{ToolCall: call.pending()})
	}
	if title := s.Title(); title != "" {
		c.notify(s.ID(), titleUpdate(title))
	}
	return tr
}

func titleUpdate(title string) wire.SessionUpdate {
	return wire.SessionUpdate{SessionInfoUpdate: &wire.SessionInfoUpdate{Title: wire.Some(visible(title))}}
}

// replayed returns what a client is told of a stored event later on.
func (t *translator) replayed(ev session.Event) []wire.SessionUpdate {
	switch e := ev.(type) {
	case session.TurnStarted:
		return userMessage(e)
	case session.CallAnnounced:
		t.announce(e)
	case session.CallEnded:
		known := t.calls[e.CallID]
		updates := t.end(e)
		if known == nil {
			return updates
		}
		call, u := known.pending(), updates[0].ToolCallUpdate
		call.Status, _ = u.Status.Get()
		call.Content, _ = u.Content.Get()
		call.RawOutput = u.RawOutput
		return []wire.SessionUpdate{{ToolCall: call}}
	case session.Text:
		return t.whole("text ", e.Message, e.Text, e.Partial)
	case session.Reasoning:
		return t.whole("thought ", e.Message, e.Text, false)
	}
	return nil
}

// userMessage repeats a prompt.
func userMessage(e session.TurnStarted) []wire.SessionUpdate {
	var out []wire.SessionUpdate
	for _, b := range e.Prompt {
		content := textBlock(b.Text)
		if b.Type == "resource_link" {
			link := &wire.ResourceLink{Name: b.Name, URI: b.URI}
			if b.MimeType != "" {
				link.MimeType = wire.Some(b.MimeType)
			}
			content = wire.ContentBlock{ResourceLink: link}
		}
		out = append(out, wire.SessionUpdate{UserMessageChunk: &wire.ContentChunk{Content: content, MessageID: wire.Some(wire.MessageID("user-" + e.ID))}})
	}
	return out
}
