package persistence

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/dgraph-io/badger/v4"
)

// format is what the store says of itself.
type format struct {
	Version int `json:"version"`
}

// scanKeys iterates the newest version of the keys with prefix only.
func scanKeys(prefix []byte) badger.IteratorOptions {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.PrefetchValues = prefix, false
	return o
}

// migrate checks the version of the store and brings an older one up to
// date. It may be cut off at any point and is then done again: values that
// were brought up to date are left alone, and the store names its new
// version last.
func (d *DB) migrate() error {
	b := d.badger.NewTransaction(false)
	defer b.Discard()
	var f format
	err := (&txn{b: b}).load([]byte{tabFormat}, &f)
	switch {
	case errors.Is(err, errAbsent) && d.readOnly:
		return fmt.Errorf("%w: there is no store in %s and it takes no writes", ErrUnavailable, d.dir)
	case errors.Is(err, errAbsent):
		return d.saveFormat() // a new store
	case err != nil:
		return fmt.Errorf("read the version of the store: %w", err)
	case f.Version > version:
		return errNewer(f.Version)
	case f.Version == version:
		return nil
	case d.readOnly:
		return nil // values are brought up to date as they are read
	}
	d.o.Logger.Info("the store is brought up to date", slog.Int("from", f.Version), slog.Int("to", version))
	n, err := d.upgradeValues(b)
	if err != nil {
		return fmt.Errorf("bring the store from version %d to %d: %w", f.Version, version, err)
	}
	d.o.Logger.Info("the store is up to date", slog.Int("values", n))
	return d.saveFormat()
}

func (d *DB) saveFormat() error {
	b := d.badger.NewTransaction(true)
	defer b.Discard()
	t := &txn{b: b}
	if err := t.save([]byte{tabFormat}, format{Version: version}); err != nil {
		return err
	}
	return errors.Join(apply(b, t.changes), b.Commit(), d.badger.Sync())
}

// upgradeValues writes every older value of the state b in today's form.
func (d *DB) upgradeValues(b *badger.Txn) (int, error) {
	wb := d.badger.NewWriteBatch()
	defer wb.Cancel()
	o := badger.DefaultIteratorOptions
	it := b.NewIterator(o)
	defer it.Close()
	n := 0
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().KeyCopy(nil)
		value, err := it.Item().ValueCopy(nil)
		if err != nil {
			return n, err
		}
		if len(value) >= 2 && value[0] == version {
			continue
		}
		payload, err := unseal(key[0], value)
		if err != nil {
			return n, fmt.Errorf("key %q: %w", key, err)
		}
		if err := wb.Set(key, seal(key[0], payload)); err != nil {
			return n, err
		}
		n++
	}
	return n, wb.Flush()
}
