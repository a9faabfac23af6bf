package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gth-server/gth-server/approvals"
)

// Answer settles an ask of any session in the store. It needs no lease: the
// process that has the session open brings its log to it, or whoever opens
// the session next does. The first answer wins; a later one gets the stored
// result together with ErrConflict. A workspace grant that it brought is
// stored when Answer returns. a.At must be set.
func Answer(ctx context.Context, store Store, askID string, a approvals.Answer) (StoredAsk, error) {
	ask, err := store.GetAsk(ctx, askID)
	if err != nil {
		return StoredAsk{}, fmt.Errorf("answer ask %.60q: %w", askID, err)
	}
	meta, err := store.Meta(ctx, ID(ask.Request.Session))
	if err != nil {
		return StoredAsk{}, fmt.Errorf("answer ask %s: its session: %w", askID, err)
	}
	d, err := settled(&ask.Request, a, meta.Rung)
	if err != nil {
		return StoredAsk{}, err
	}
	stored, err := store.AnswerAsk(ctx, askID, a, d)
	if err != nil && !errors.Is(err, ErrConflict) {
		return stored, err
	}
	return stored, errors.Join(err, putGrant(ctx, store, meta, stored))
}

// putGrant stores the workspace grant that an answer brought, which must not
// wait for the session to be opened. It is done for a late answer too: the
// process of the first one may have died in between.
func putGrant(ctx context.Context, store Store, meta Meta, ask StoredAsk) error {
	_, d := became(ask)
	if d.Grant == nil || d.Grant.Scope != approvals.ScopeWorkspace {
		return nil
	}
	workspace, err := filepath.EvalSymlinks(meta.Cwd)
	if err == nil {
		err = store.PutGrant(ctx, workspace, *d.Grant)
	}
	if err != nil {
		return fmt.Errorf("the answer to ask %s is stored and its grant for the workspace is not: %w: answer again to repeat it", ask.Request.ID, err)
	}
	return nil
}
