package persistence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// readOnly reports whether dir takes no files, for another reason than that
// it is full.
func readOnly(dir string) bool {
	f, err := os.CreateTemp(dir, "probe-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	return errors.Is(err, os.ErrPermission) || isReadOnly(err)
}

// openToRead opens a store that takes no writes. Files that were not closed
// well can only be read after a repair, which is made on a copy.
func (d *DB) openToRead() error {
	d.readOnly = true
	d.broken = fmt.Errorf("%w for writing: %s is read-only: make it writable and start again", ErrUnavailable, d.dir)
	open := func(path string, ro bool) error {
		return guarded(func() (err error) {
			d.badger, err = badger.Open(badgerOptions(path, d.o.Logger).WithReadOnly(ro))
			return err
		})
	}
	err := open(d.gen.path(), true)
	if err == nil {
		return nil
	}
	if isLocked(err) {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	scratch, terr := os.MkdirTemp("", "gth-server-store-")
	if terr != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, err), terr)
	}
	copied := filepath.Join(scratch, "store")
	cerr := copyFiles(context.Background(), d.gen.path(), copied)
	if cerr == nil {
		cerr = open(copied, false)
	}
	if cerr != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, err), cerr, os.RemoveAll(scratch))
	}
	d.scratch = scratch
	d.o.Logger.Warn("the store takes no writes and was not closed well: a copy is read", slog.String("copy", copied))
	return nil
}
