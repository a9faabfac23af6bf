package persistence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/gth-server/gth-server/session"
)

// How often the store looks after itself.
const (
	collectEvery = 10 * time.Minute
	retainEvery  = time.Hour
	firstRetain  = time.Minute
)

// maintain finishes deletions, collects the value log and removes what is
// too old, until ctx ends.
func (d *DB) maintain(ctx context.Context) {
	if d.readOnly {
		return
	}
	d.finishDeletions(ctx)
	d.checkTables(ctx)
	collect := time.NewTicker(collectEvery)
	defer collect.Stop()
	retain := time.NewTimer(firstRetain)
	defer retain.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-collect.C:
			d.collect(ctx)
		case <-retain.C:
			if err := d.retain(ctx); err != nil && ctx.Err() == nil {
				d.o.Logger.Warn("old sessions were not removed", slog.Any("error", err))
			}
			retain.Reset(retainEvery)
		}
	}
}

func (d *DB) finishDeletions(ctx context.Context) {
	ids, err := d.hidden(ctx)
	for _, id := range ids {
		if _, serr := d.sweep(ctx, id); serr != nil {
			err = errors.Join(err, serr)
		}
	}
	if err != nil && ctx.Err() == nil {
		d.o.Logger.Warn("a deletion of sessions was not finished", slog.Any("error", err))
	}
}

// collect gives room in the value log back while that is worth it.
func (d *DB) collect(ctx context.Context) {
	for ctx.Err() == nil && d.writable() == nil {
		err := d.badger.RunValueLogGC(0.5)
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			return
		}
		if err != nil {
			d.o.Logger.Warn("the value log was not collected", slog.Any("error", err))
			return
		}
	}
}

// retain removes closed sessions that are too old, and the oldest ones while
// the store is too large.
func (d *DB) retain(ctx context.Context) error {
	closed, err := d.closedSessions(ctx)
	if err != nil {
		return err
	}
	size, err := d.size()
	if err != nil {
		return err
	}
	oldest := d.o.Now().Add(-d.o.Retention)
	for _, m := range closed {
		tooOld := d.o.Retention > 0 && m.UpdatedAt.Before(oldest)
		tooLarge := d.o.MaxBytes > 0 && size > d.o.MaxBytes
		if !tooOld && !tooLarge {
			return nil // the others are newer
		}
		if err := d.hide(ctx, m.ID); err != nil {
			return err
		}
		freed, err := d.sweep(ctx, m.ID)
		if err != nil {
			return err
		}
		size -= freed
		d.o.Logger.Info("an old session was removed", slog.String("session", string(m.ID)),
			slog.Time("updated", m.UpdatedAt), slog.Bool("tooOld", tooOld), slog.Bool("storeTooLarge", tooLarge))
	}
	return nil
}

// closedSessions returns the sessions that nobody holds, oldest change first.
func (d *DB) closedSessions(ctx context.Context) ([]session.Meta, error) {
	var closed []session.Meta
	err := d.read(ctx, func(t *txn) error {
		closed = nil
		return t.scan([]byte{tabMeta}, nil, true, func(_ []byte, value func() ([]byte, error)) (bool, error) {
			var m session.Meta
			p, err := value()
			if err == nil {
				err = unmarshal(tabMeta, p, &m)
			}
			if err != nil {
				return false, err
			}
			h, err := t.head(m.ID)
			if err == nil && d.heldBy(m.ID, h) == nil {
				closed = append(closed, m)
			}
			return true, err
		})
	})
	slices.SortFunc(closed, func(a, b session.Meta) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	return closed, err
}

// size is what the files of the store hold, without the room that is only
// set aside.
func (d *DB) size() (int64, error) {
	var n int64
	err := filepath.WalkDir(d.gen.path(), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			n += onDisk(fi)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure the store: %w", err)
	}
	return n, nil
}
