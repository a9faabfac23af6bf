package persistence

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"

	"github.com/gth-server/gth-server/session"
)

// ErrInUse is a store that another process has open.
var ErrInUse = errors.New("another process has the store open")

// openReadable opens the files of g.
func openReadable(o Options, g generation) (*badger.DB, generation, error) {
	var b *badger.DB
	err := guarded(func() (err error) {
		b, err = badger.Open(badgerOptions(g.path(), o.Logger))
		return err
	})
	if err == nil {
		return b, g, nil
	}
	if isLocked(err) {
		return nil, g, fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return nil, g, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func isLocked(err error) bool {
	return errors.Is(err, syscall.EWOULDBLOCK) || strings.Contains(err.Error(), "Another process is using this Badger database")
}

func (d *DB) noteDamage(id session.ID, err error) {
	d.o.Logger.Warn("a session can not be read", slog.String("session", string(id)), slog.Any("error", err))
}
