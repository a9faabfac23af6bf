package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

type grantsCmd struct {
	List   grantsListCmd   `cmd:"" help:"List what was allowed for a workspace."`
	Show   grantsShowCmd   `cmd:"" help:"Print one grant whole."`
	Revoke grantsRevokeCmd `cmd:"" help:"Take a grant back; sessions that run notice at their next call."`
}

type workspaceFlag struct {
	Cwd string `help:"Workspace to look at." placeholder:"DIR" default:"."`
}

const grantsHint = "gth-server grants list shows what there is"

// grants calls f with the workspace's key, the real path of the directory.
func (w workspaceFlag) grants(ctx context.Context, std stdio, g *Globals, f func(store session.Store, workspace string, all []approvals.Grant) error) error {
	dir, err := workdir(w.Cwd)
	if err != nil {
		return err
	}
	key, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return usage(fmt.Errorf("workspace %q: %w", dir, err))
	}
	return withStore(ctx, std, g, func(store session.Store) error {
		all, err := store.Grants(ctx, key)
		if err != nil {
			return err
		}
		return f(store, key, all)
	})
}

type grantsListCmd struct {
	workspaceFlag
	JSON bool `help:"Print one JSON document."`
}

// Run lists the grants of a workspace.
func (c *grantsListCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	return c.grants(ctx, std, g, func(_ session.Store, workspace string, all []approvals.Grant) error {
		if c.JSON {
			if all == nil {
				all = []approvals.Grant{}
			}
			return writeJSON(std.out, map[string]any{"workspace": workspace, "grants": all})
		}
		rows := [][]string{}
		for _, gr := range all {
			rows = append(rows, []string{gr.ID, stamp(gr.At), gr.By, gr.Rung.String(), gr.Entry.Summary()})
		}
		return table(std, []string{"GRANT", "SINCE", "BY", "RUNG", "WHAT"}, rows)
	})
}

type grantsShowCmd struct {
	workspaceFlag
	ID string `arg:"" help:"Id of the grant."`
}

// Run prints one grant as JSON.
func (c *grantsShowCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	return c.grants(ctx, std, g, func(_ session.Store, workspace string, all []approvals.Grant) error {
		for _, gr := range all {
			if gr.ID == c.ID {
				return writeJSON(std.out, gr)
			}
		}
		return usage(fmt.Errorf("grant %q is not in workspace %s: %s", c.ID, workspace, grantsHint))
	})
}

type grantsRevokeCmd struct {
	workspaceFlag
	ID []string `arg:"" help:"Ids of the grants."`
}

// Run revokes grants.
func (c *grantsRevokeCmd) Run(ctx context.Context, std stdio, g *Globals) error {
	return c.grants(ctx, std, g, func(store session.Store, workspace string, _ []approvals.Grant) error {
		for _, id := range c.ID {
			if err := store.DeleteGrant(ctx, workspace, id); err != nil {
				return unknown(fmt.Errorf("revoke: %w", err), grantsHint)
			}
		}
		return nil
	})
}
