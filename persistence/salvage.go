package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"google.golang.org/protobuf/proto"
)

// ErrInUse is a store that another process has open.
var ErrInUse = errors.New("another process has the store open")

// openReadable opens the files of g. When some are damaged it opens what is
// readable of them as the next generation, and keeps g aside.
func openReadable(o Options, g generation) (*badger.DB, generation, bool, error) {
	bo := badgerOptions(g.path(), o.Logger)
	_, err := os.Stat(checkMark(g.dir))
	asked := err == nil
	in, err := inspectLocked(g, bo, asked || g.tablesLen() <= checkAtOnce)
	if err != nil {
		return nil, g, false, err
	}
	if len(in.damaged) == 0 {
		b, err := openBadger(bo)
		if err == nil || errors.Is(err, ErrInUse) {
			return b, g, asked, err
		}
		if in.fault("badger", err); isDisk(err) {
			return nil, g, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	next, aside, err := g.salvage(o, in)
	if err != nil {
		return nil, g, false, fmt.Errorf("%w and can not be repaired: %s: %w", ErrDamaged, strings.Join(in.damaged, "; "), err)
	}
	o.Logger.Error("the store was damaged: it goes on with what is readable", slog.Any("damaged", in.damaged), slog.String("copy", aside))
	b, err := openBadger(badgerOptions(next.path(), o.Logger))
	if err != nil {
		return nil, next, false, fmt.Errorf("%w, the files are kept in %s: %w", ErrDamaged, aside, err)
	}
	return b, next, true, nil
}

// checkAtOnce is up to how many bytes tables are read as a whole before they
// are opened. Larger stores are checked while they are in use.
const checkAtOnce = 64 << 20

func (g generation) tablesLen() (n int64) {
	names, _ := filepath.Glob(filepath.Join(g.path(), "*.sst")) // the pattern is good
	for _, name := range names {
		if fi, err := os.Stat(name); err == nil {
			n += fi.Size()
		}
	}
	return n
}

// checkTables reads the tables of a large store. Badger ends an iteration at
// a damaged block as if there were no more keys, so nobody may notice.
func (d *DB) checkTables(ctx context.Context) {
	if d.gen.tablesLen() <= checkAtOnce {
		return
	}
	names, _ := filepath.Glob(filepath.Join(d.gen.path(), "*.sst")) // the pattern is good
	for _, name := range names {
		if !pause(ctx, checkPause) {
			return
		}
		err := guarded(func() error { return checkTable(name, true) })
		if err == nil || errors.Is(err, fs.ErrNotExist) { // it was merged into another one
			continue
		}
		if _, serr := os.Stat(name); serr == nil {
			d.noteDamage(slog.String("file", filepath.Base(name)), err)
		}
	}
}

// checkPause leaves the disk to others between two tables.
const checkPause = 50 * time.Millisecond

// checkMark is there when the next opening is to look at everything.
func checkMark(dir string) string { return filepath.Join(dir, "check") }

// inspectLocked inspects g while no other process changes it.
func inspectLocked(g generation, bo badger.Options, thorough bool) (*inspection, error) {
	release, free, err := lockDir(g.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &inspection{}, nil
	case err != nil && sharing:
		return nil, fmt.Errorf("lock the files: %w: %w", ErrUnavailable, err)
	case err != nil: // locks of this kind are not known here: Badger has to find out
		return &inspection{}, nil
	case !free:
		return nil, ErrInUse
	}
	defer release()
	return g.inspect(bo, thorough)
}

func openBadger(bo badger.Options) (b *badger.DB, err error) {
	err = guarded(func() error {
		b, err = badger.Open(bo)
		return err
	})
	if err != nil && isLocked(err) {
		err = fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return b, err
}

func isLocked(err error) bool {
	return errors.Is(err, syscall.EWOULDBLOCK) || strings.Contains(err.Error(), "Another process is using this Badger database")
}

// isDisk reports whether the disk, and not what is on it, is at fault.
func isDisk(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, fs.ErrPermission} {
		if errors.Is(err, e) {
			return true
		}
	}
	for _, text := range []string{"no space left", "too many open files", "cannot allocate", "permission denied", "file too large", "read-only file system"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// salvage makes the next generation out of what is readable of g, makes it
// current and keeps g's files under another name, which it returns.
func (g generation) salvage(o Options, in *inspection) (generation, string, error) {
	next := g.next()
	if err := errors.Join(os.RemoveAll(next.path()), os.MkdirAll(next.path(), 0o700)); err != nil {
		return g, "", err
	}
	for id := range in.tables {
		if err := copyFile(table.NewFilename(id, g.path()), table.NewFilename(id, next.path())); err != nil {
			return g, "", err
		}
	}
	if err := next.writeManifest(in.tables); err != nil {
		return g, "", err
	}
	entries, err := os.ReadDir(g.path())
	if err != nil {
		return g, "", err
	}
	for _, e := range entries {
		name := e.Name()
		to := filepath.Join(next.path(), name)
		if mended, ok := in.logs[name]; ok {
			if mended != nil {
				err = writeFileSynced(to, mended)
			}
		} else if ext := filepath.Ext(name); ext == ".mem" || ext == ".vlog" {
			err = copyFile(filepath.Join(g.path(), name), to)
		}
		if err != nil {
			return g, "", err
		}
	}
	aside := filepath.Join(g.dir, "damaged-"+o.Now().UTC().Format("20060102-150405.000"))
	if err := errors.Join(syncDir(next.path()), next.makeCurrent(), os.Rename(g.path(), aside)); err != nil {
		return g, "", err
	}
	return next, aside, nil
}

// writeManifest writes Badger's list of the tables.
func (g generation) writeManifest(tables map[uint64]badger.TableManifest) error {
	const badgerVersion = 8
	set := &pb.ManifestChangeSet{}
	for id, t := range tables {
		set.Changes = append(set.Changes, &pb.ManifestChange{
			Id: id, Op: pb.ManifestChange_CREATE, Level: uint32(t.Level), KeyId: t.KeyID, Compression: uint32(t.Compression),
		})
	}
	changes, err := proto.Marshal(set)
	if err != nil {
		return err
	}
	b := append([]byte("Bdgr"), 0, 0, 0, badgerVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(changes)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(changes, castagnoli))
	return writeFileSynced(filepath.Join(g.path(), badger.ManifestFilename), append(b, changes...))
}

// noteDamage says what is damaged and asks the next opening to look at
// everything.
func (d *DB) noteDamage(where slog.Attr, err error) {
	d.o.Logger.Error("a part of the store can not be read: start again to keep what is readable", where, slog.Any("error", err))
	if d.readOnly {
		return
	}
	if err := os.WriteFile(checkMark(d.dir), nil, 0o600); err != nil {
		d.o.Logger.Warn("the next opening was not asked to repair the store", slog.Any("error", err))
	}
}
