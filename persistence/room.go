package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// reserveLen is the room that is kept for opening and closing a store on a
// full disk. Badger writes into mapped files: where the disk has no block
// for such a write the process dies, so nothing may be written that could
// find the disk full. Hence this file and Options.MinFree.
const reserveLen = 8 << 20

func reserveFile(dir string) string { return filepath.Join(dir, "reserve") }

// makeRoom sees to it that a store can be opened: on a full disk it gives
// up the reserve, and fails when there is none.
func makeRoom(dir string) error {
	free, err := freeBytes(dir)
	if err != nil {
		return fmt.Errorf("ask for the room on the disk: %w: %w", ErrUnavailable, err)
	}
	if free >= reserveLen {
		return keepReserve(dir)
	}
	if err := os.Remove(reserveFile(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if free, err = freeBytes(dir); err != nil || free < reserveLen/2 {
		return errors.Join(fmt.Errorf("%w: the disk is full, %d bytes are free: make room", ErrUnavailable, free), err)
	}
	return nil
}

// keepReserve makes the reserve when it is missing and there is room for it.
func keepReserve(dir string) error {
	if fi, err := os.Stat(reserveFile(dir)); err == nil && fi.Size() == reserveLen {
		return nil
	}
	free, err := freeBytes(dir)
	if err != nil || free < 2*reserveLen {
		return err
	}
	f, err := os.OpenFile(reserveFile(dir), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep a reserve: %w: %w", ErrUnavailable, err)
	}
	if err := errors.Join(allocate(f, reserveLen), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("keep a reserve: %w: %w", ErrUnavailable, err), os.Remove(reserveFile(dir)))
	}
	return nil
}

// giveUpReserve makes room where the disk is too full to close a store.
func (d *DB) giveUpReserve() {
	if free, err := freeBytes(d.dir); err != nil || free >= reserveLen {
		return
	}
	if err := os.Remove(reserveFile(d.dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.o.Logger.Warn("the store's reserve on the full disk could not be used", "error", err)
	}
}

// hasRoom says why the disk has no room for a write.
func (d *DB) hasRoom() error {
	free, err := freeBytes(d.dir)
	if err != nil {
		return fmt.Errorf("ask for the room on the disk of %s: %w: %w", d.dir, ErrUnavailable, err)
	}
	if free < d.o.MinFree {
		return fmt.Errorf("%w for writing: the disk of %s has %d bytes free and %d are kept for other programs: make room", ErrUnavailable, d.dir, free, d.o.MinFree)
	}
	return nil
}

// writeZeros allocates by writing, where there is no better way.
func writeZeros(f *os.File, n int64) error {
	zeros := make([]byte, 1<<16)
	for n > 0 {
		m, err := f.Write(zeros[:min(n, int64(len(zeros)))])
		if err != nil {
			return err
		}
		n -= int64(m)
	}
	return nil
}
