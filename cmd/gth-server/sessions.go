package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
	"github.com/gth-server/gth-server/session"
)

type sessionsCmd struct {
	List   sessionsListCmd   `cmd:"" help:"List stored sessions, newest first."`
	Show   sessionsShowCmd   `cmd:"" help:"Print what happened in a session."`
	Verify sessionsVerifyCmd `cmd:"" help:"Check the chain of decisions, of one session or of all. Exit 0 means intact."`
	Delete sessionsDeleteCmd `cmd:"" help:"Delete sessions with their logs and questions."`
}

type sessionsListCmd struct {
	Cwd   string `help:"Only sessions that work in DIR." placeholder:"DIR"`
	Limit int    `help:"At most this many; 0 is all." default:"50"`
	JSON  bool   `help:"Print one JSON document."`
}

const sessionsHint = "gth-server sessions list shows what there is"

// Run lists sessions.
func (c *sessionsListCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	return withStore(ctx, std, g, func(store session.Store) error {
		filter := session.Filter{Limit: c.Limit}
		if c.Cwd != "" {
			dir, err := workdir(c.Cwd)
			if err != nil {
				return err
			}
			filter.Cwd = dir
		}
		all, err := listSessions(ctx, store, filter)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(std.out, map[string]any{"sessions": all})
		}
		rows := [][]string{}
		for _, m := range all {
			rows = append(rows, []string{string(m.ID), stamp(m.UpdatedAt), m.Rung.String(), m.Surface, m.Cwd, m.Title})
		}
		return table(std, []string{"SESSION", "CHANGED", "RUNG", "SURFACE", "DIRECTORY", "TITLE"}, rows)
	})
}

// listSessions reads pages until f.Limit sessions are there, or all.
func listSessions(ctx context.Context, store session.Store, f session.Filter) ([]session.Meta, error) {
	limit, all := f.Limit, []session.Meta{}
	for {
		f.Limit = 200
		page, next, err := store.List(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if limit > 0 && len(all) >= limit {
			return all[:limit], nil
		}
		if next == "" {
			return all, nil
		}
		f.Cursor = next
	}
}

type sessionsShowCmd struct {
	ID   string `arg:"" help:"Id of the session."`
	JSON bool   `help:"Print every record as a JSON line."`
}

// Run prints a session's log.
func (c *sessionsShowCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	return withStore(ctx, std, g, func(store session.Store) error {
		meta, err := store.Meta(ctx, session.ID(c.ID))
		if err != nil {
			return unknown(err, sessionsHint)
		}
		records, err := store.After(ctx, meta.ID, 0, 0)
		if err != nil {
			return err
		}
		var w watcher = jsonLines{std.out}
		if !c.JSON {
			w = &progress{out: std.out, paint: terminal.Painter{On: colour(std, std.outTTY)}, verb: true}
			fmt.Fprintf(std.out, "session %s in %s, rung %s, changed %s\n", meta.ID, terminal.Escape(meta.Cwd), meta.Rung, stamp(meta.UpdatedAt))
		}
		for _, r := range records {
			w.record(r)
		}
		return nil
	})
}

type sessionsVerifyCmd struct {
	ID   []string `arg:"" optional:"" help:"Sessions to check; all without one."`
	JSON bool     `help:"Print one JSON document."`
}

type verified struct {
	Session   session.ID `json:"session"`
	Decisions int        `json:"decisions"`
	Head      string     `json:"head"`
	Error     *string    `json:"error"`
}

// Run recomputes the chain of each session.
func (c *sessionsVerifyCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	return withStore(ctx, std, g, func(store session.Store) error {
		ids, err := c.ids(ctx, store)
		if err != nil {
			return err
		}
		results, broken := []verified{}, 0
		for _, id := range ids {
			records, err := store.After(ctx, id, 0, 0)
			if err != nil {
				return unknown(err, sessionsHint)
			}
			v := verified{Session: id}
			if v.Head, v.Decisions, err = session.Verify(records); err != nil {
				text := err.Error()
				v.Error = &text
				broken++
			}
			results = append(results, v)
		}
		if err := c.print(std, results); err != nil {
			return err
		}
		if broken > 0 {
			return fmt.Errorf("sessions verify: %d of %d sessions are not what was recorded", broken, len(ids))
		}
		return nil
	})
}

func (c *sessionsVerifyCmd) ids(ctx context.Context, store session.Store) ([]session.ID, error) {
	ids := []session.ID{}
	for _, id := range c.ID {
		ids = append(ids, session.ID(id))
	}
	if len(ids) > 0 {
		return ids, nil
	}
	all, err := listSessions(ctx, store, session.Filter{})
	for _, m := range all {
		ids = append(ids, m.ID)
	}
	return ids, err
}

func (c *sessionsVerifyCmd) print(std stdio, results []verified) error {
	if c.JSON {
		return writeJSON(std.out, map[string]any{"sessions": results})
	}
	for _, v := range results {
		state := "intact"
		if v.Error != nil {
			state = "BROKEN: " + *v.Error
		}
		if _, err := fmt.Fprintf(std.out, "%s: %d decisions and answers, %s\n", v.Session, v.Decisions, terminal.Escape(state)); err != nil {
			return err
		}
	}
	return nil
}

type sessionsDeleteCmd struct {
	ID []string `arg:"" help:"Ids of the sessions."`
}

// Run deletes sessions that no process has open.
func (c *sessionsDeleteCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	return withStore(ctx, std, g, func(store session.Store) error {
		var errs []error
		for _, id := range c.ID {
			errs = append(errs, deleteSession(ctx, store, session.ID(id)))
		}
		return errors.Join(errs...)
	})
}

// deleteSession takes the lease first, so that a session which is open
// somewhere keeps its log.
func deleteSession(ctx context.Context, store session.Store, id session.ID) error {
	lease, err := store.Acquire(ctx, id)
	if err != nil {
		return unknown(fmt.Errorf("delete: %w", err), sessionsHint)
	}
	if err := store.Delete(ctx, id); err != nil {
		return errors.Join(fmt.Errorf("delete session %s: %w", id, err), store.Release(ctx, lease))
	}
	return nil
}
