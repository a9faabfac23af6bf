package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// walFiles follows the write-ahead logs of Badger. Its Sync covers the
// current one only; one that was retired since may hold the newest commits
// until its table is written. Used by the writer's goroutine.
type walFiles struct {
	dir     string
	current int
}

// openWALFiles finds the log that a store which was just opened writes.
func openWALFiles(dir string) (*walFiles, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return nil, err
	}
	w := &walFiles{dir: dir}
	for _, n := range names {
		var id int
		if _, err := fmt.Sscanf(strings.TrimSuffix(filepath.Base(n), ".mem"), "%d", &id); err == nil {
			w.current = max(w.current, id)
		}
	}
	return w, nil
}

func (w *walFiles) path(id int) string { return filepath.Join(w.dir, fmt.Sprintf("%05d.mem", id)) }

// syncRetired syncs the logs that were retired since the last call and are
// still there. One that is gone is in a table, which was synced.
func (w *walFiles) syncRetired() error {
	for {
		if _, err := os.Stat(w.path(w.current + 1)); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		f, err := os.OpenFile(w.path(w.current), os.O_RDWR, 0)
		w.current++
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
}
