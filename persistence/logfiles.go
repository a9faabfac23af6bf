package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// logFiles syncs the logs that Badger writes. Its own Sync covers the newest
// write-ahead log and value log only: one that was retired since may hold
// the newest commits until its table is written, or values for good. And it
// syncs both, where most writes touch one. Used by the writer's goroutine.
type logFiles struct {
	dir     string
	number  int      // of the current write-ahead log
	current *os.File // nil until it is first synced
	values  bool     // the value log was written since the last sync
}

// openLogFiles finds the logs of a store that was just opened.
func openLogFiles(dir string) (*logFiles, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return nil, err
	}
	l := &logFiles{dir: dir}
	for _, n := range names {
		var id int
		if _, err := fmt.Sscanf(strings.TrimSuffix(filepath.Base(n), ".mem"), "%d", &id); err == nil {
			l.number = max(l.number, id)
		}
	}
	return l, nil
}

func (l *logFiles) path(id int) string { return filepath.Join(l.dir, fmt.Sprintf("%05d.mem", id)) }

// wrote notes what a commit changed.
func (l *logFiles) wrote(changes []change) {
	for _, c := range changes {
		l.values = l.values || len(c.value) >= valueThreshold
	}
}

// sync puts what was committed on the disk, values before what points to
// them.
func (l *logFiles) sync() error {
	if l.values {
		names, err := filepath.Glob(filepath.Join(l.dir, "*.vlog"))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := syncFile(name); err != nil {
				return err
			}
		}
		l.values = false
	}
	for {
		if err := l.syncCurrent(); err != nil {
			return err
		}
		if _, err := os.Stat(l.path(l.number + 1)); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if err := l.close(); err != nil {
			return err
		}
		l.number++
	}
}

// syncCurrent syncs one write-ahead log. One that is gone is in a table by
// now, which was synced.
func (l *logFiles) syncCurrent() (err error) {
	if l.current == nil {
		l.current, err = os.OpenFile(l.path(l.number), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			l.current = nil
			return nil
		}
		if err != nil {
			return err
		}
	}
	return syncData(l.current)
}

func (l *logFiles) close() error {
	if l.current == nil {
		return nil
	}
	err := l.current.Close()
	l.current = nil
	return err
}

func syncFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(syncData(f), f.Close())
}
