package persistence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// storedGrant is a grant of a workspace. Place keeps the order in which
// grants were given. One that was revoked is kept and does not count, so
// that whoever completes its answer later does not bring it back.
type storedGrant struct {
	Workspace string          `json:"workspace"`
	Place     uint64          `json:"place"`
	Grant     approvals.Grant `json:"grant"`
	Revoked   bool            `json:"revoked,omitempty"`
}

func checkGrant(workspace, id string) error {
	if workspace == "" {
		return errors.New("it has no workspace")
	}
	return checkID("grant", id)
}

// PutGrant stores a grant of the workspace, in the place of one of its id;
// nothing when that was revoked.
func (s *seat) PutGrant(ctx context.Context, workspace string, g approvals.Grant) error {
	err := checkGrant(workspace, g.ID)
	if err == nil {
		err = s.db.do(ctx, &write{sync: true, solo: true, run: func(t *txn) error {
			var was storedGrant
			err := t.load(grantKey(workspace, g.ID), &was)
			if errors.Is(err, errAbsent) {
				was.Workspace = workspace
				was.Place, err = t.count()
			}
			if err != nil || was.Revoked {
				return err
			}
			was.Grant = g
			return saveReadable(t, grantKey(workspace, g.ID), was)
		}})
	}
	if err != nil {
		return fmt.Errorf("put grant %.80q of workspace %.200q: %w", g.ID, workspace, err)
	}
	return nil
}

// Grants returns the grants of the workspace in the order they were given.
func (s *seat) Grants(ctx context.Context, workspace string) ([]approvals.Grant, error) {
	var found []storedGrant
	prefix := digestPrefix(tabGrant, workspace)
	err := s.db.read(ctx, func(t *txn) error {
		found = nil
		return t.scan(prefix, nil, true, func(_ []byte, value func() ([]byte, error)) (bool, error) {
			var g storedGrant
			p, err := value()
			if err == nil {
				err = unmarshal(tabGrant, p, &g)
			}
			if errors.Is(err, ErrDamaged) {
				s.db.o.Logger.Error("a grant can not be read and does not count", slog.String("workspace", workspace), slog.Any("error", err))
				return true, nil
			}
			if err == nil && g.Workspace == workspace && !g.Revoked {
				found = append(found, g)
			}
			return true, err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list grants of workspace %.200q: %w", workspace, err)
	}
	slices.SortFunc(found, func(a, b storedGrant) int { return cmp.Compare(a.Place, b.Place) })
	var grants []approvals.Grant
	for _, g := range found {
		grants = append(grants, g.Grant)
	}
	return grants, nil
}

// DeleteGrant removes a grant of the workspace.
func (s *seat) DeleteGrant(ctx context.Context, workspace, id string) error {
	err := s.db.do(ctx, &write{sync: true, solo: true, run: func(t *txn) error {
		if checkGrant(workspace, id) != nil {
			return session.ErrNotFound
		}
		key := grantKey(workspace, id)
		var was storedGrant
		switch err := t.load(key, &was); {
		case errors.Is(err, errAbsent), err == nil && was.Revoked:
			return session.ErrNotFound
		case errors.Is(err, ErrDamaged):
			t.remove(key)
			return nil
		case err != nil:
			return err
		}
		was.Revoked = true
		return saveReadable(t, key, was)
	}})
	if err != nil {
		return fmt.Errorf("delete grant %.80q of workspace %.200q: %w", id, workspace, err)
	}
	return nil
}
