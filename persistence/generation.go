package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gth-server/gth-server/session"
)

// generation is one set of Badger's files in a store's directory. The file
// "current" names the one in use; a store begins with 1. A new one is made
// when the files are repaired, and when a process that holds the lock and
// does not run is passed over; see docs/store.md, "Take-over".
type generation struct {
	dir string // of the store
	n   int
}

func (g generation) path() string {
	return filepath.Join(g.dir, fmt.Sprintf("store-%06d", g.n))
}

// fence is the file that tells whoever has g open that it may not go on.
func (g generation) fence() string { return g.path() + ".fenced" }

func (g generation) next() generation { return generation{g.dir, g.n + 1} }

func currentFile(dir string) string { return filepath.Join(dir, "current") }

// currentGeneration reads which generation is in use.
func currentGeneration(dir string) (generation, error) {
	b, err := os.ReadFile(currentFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return generation{dir, 1}, nil
	}
	if err != nil {
		return generation{}, fmt.Errorf("read which files are current: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 1 {
		return generation{}, fmt.Errorf("%s does not hold a number: %w: write the greatest number of the store- directories into it", currentFile(dir), ErrDamaged)
	}
	return generation{dir, n}, nil
}

// makeCurrent switches the store to g.
func (g generation) makeCurrent() error {
	return writeFileSynced(currentFile(g.dir), []byte(strconv.Itoa(g.n)+"\n"))
}

// errFenced is a store that another process has taken over.
var errFenced = fmt.Errorf("another process has taken the store over: %w", session.ErrLost)

// fenced reports whether this store may still speak for its directory. It
// is asked behind every read and commit: what was done before the fence is
// in the copy that the other process made, and what comes later is nobody's.
func (d *DB) fenced() error {
	if _, err := os.Lstat(d.gen.fence()); err == nil {
		return errFenced
	}
	return nil
}

// writeFileSynced replaces a file by one with this content, on the disk.
func writeFileSynced(path string, content []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir puts the names in a directory on the disk, where that is possible.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	_ = f.Sync() // not every system can; the files themselves are synced
	return nil
}
