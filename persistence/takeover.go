package persistence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// lockHolder is the process that has the current files open, as it says
// itself; 0 when nobody says so.
func lockHolder(dir string) int {
	g, err := currentGeneration(dir)
	if err != nil {
		return 0
	}
	b, err := os.ReadFile(filepath.Join(g.path(), "LOCK"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

func takeoverLock(dir string) string { return filepath.Join(dir, "takeover.lock") }

// passOver opens the store although pid, which does not run, has it open:
// it works on with a copy of the files and leaves pid with the old ones.
// done is what pid had done when it was seen stopped. The error is errGone
// when it runs again or another process is at it.
func (s *Shared) passOver(ctx context.Context, pid int, done string) (*link, error) {
	release, taken, err := lockFile(takeoverLock(s.dir))
	if err != nil {
		return nil, fmt.Errorf("take the store over: %w", err)
	}
	if !taken {
		return nil, fmt.Errorf("%w: a third process takes it over", errGone)
	}
	defer release()
	g, err := currentGeneration(s.dir)
	if err != nil {
		return nil, err
	}
	if lockHolder(s.dir) != pid {
		return nil, fmt.Errorf("%w: it has a new process", errGone)
	}
	next, err := g.succeed(ctx, func() bool {
		still, now := processStopped(pid)
		return still && now == done
	})
	if err != nil {
		return nil, err
	}
	s.o.Logger.Warn("the process that had the store open is stopped: the store goes on without it", slog.Int("pid", pid), slog.Int("files", next.n))
	return s.lead()
}

// succeed fences g off and makes a copy of it current, provided that nobody
// changed g meanwhile. Whoever has g open looks for the fence before it
// acknowledges anything, so whatever it acknowledged is in the copy.
func (g generation) succeed(ctx context.Context, unchanged func() bool) (generation, error) {
	next := g.next()
	if err := os.RemoveAll(next.path()); err != nil {
		return g, err
	}
	if err := os.WriteFile(g.fence(), nil, 0o600); err != nil {
		return g, fmt.Errorf("fence the files off: %w: %w", ErrUnavailable, err)
	}
	err := errors.Join(syncDir(g.dir), copyFiles(ctx, g.path(), next.path()))
	if err == nil && !unchanged() {
		err = fmt.Errorf("%w: its process runs again", errGone)
	}
	if err == nil {
		err = next.makeCurrent()
	}
	if err != nil {
		return g, errors.Join(err, os.RemoveAll(next.path()), os.Remove(g.fence()))
	}
	return next, nil
}

// copyFiles copies the files of a store. A second name for a table would not
// do: Badger empties a table before it removes it, under every name.
func copyFiles(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e.Name() == "LOCK" || !e.Type().IsRegular() {
			continue
		}
		if err := copyFile(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return fmt.Errorf("copy the store's files: %w: %w", ErrUnavailable, err)
		}
	}
	return syncDir(to)
}

// copyFile copies a file, and leaves out what is zero in a log: logs are
// mostly room. Where the file system can share blocks a table costs nothing.
func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if filepath.Ext(from) == ".sst" {
		_, err = io.Copy(dst, src)
	} else {
		err = copySparse(dst, src)
	}
	return errors.Join(err, dst.Sync(), dst.Close())
}

func copySparse(dst *os.File, src io.Reader) error {
	buf := make([]byte, copyLen)
	var at int64
	for {
		n, err := io.ReadFull(src, buf)
		if !zero(buf[:n]) {
			if _, err := dst.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return dst.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}

const copyLen = 64 << 10

// zeros is never written to.
var zeros [copyLen]byte

// zero reports whether b, of at most copyLen, holds nothing.
func zero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }

// tidy removes, for the process that has g open, what take-overs left: a
// fence of one that was cut off, and files that nobody has open any more.
func (g generation) tidy(log *slog.Logger) {
	release, taken, err := lockFile(takeoverLock(g.dir))
	if err != nil || !taken {
		return // somebody is at it, or files can not be locked here
	}
	defer release()
	err = os.Remove(g.fence())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for n := max(1, g.n-3); n < g.n; n++ {
		old := generation{g.dir, n}
		release, free, lerr := lockDir(old.path())
		if lerr == nil && free {
			err = errors.Join(err, os.RemoveAll(old.path()), removeIfThere(old.fence()))
			release()
		}
	}
	if err != nil {
		log.Warn("old files of the store were not removed", slog.Any("error", err))
	}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// pause waits, and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
