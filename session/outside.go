package session

import (
	"context"
	"fmt"

	"github.com/gth-server/gth-server/approvals"
)

// Answer settles an ask of any session in the store. It needs no lease: the
// process that has the session open brings its log to it, or whoever opens
// the session next does. The first answer wins; a later one gets the stored
// result together with ErrConflict. a.At must be set.
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
	return store.AnswerAsk(ctx, askID, a, d)
}
