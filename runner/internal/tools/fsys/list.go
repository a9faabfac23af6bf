package fsys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Bounds of one listing.
const (
	maxEntries    = 2000
	maxListBytes  = 50 << 10
	maxDirEntries = 50000 // read and sorted at all
	dirBatch      = 1000
)

// ListDirectory lists a directory, sorted by name: directories end in a
// slash, links show where they lead.
func (f *FS) ListDirectory(ctx context.Context, a ListArgs) (Result, error) {
	s, _, err := f.resolve(ctx, a.Path)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	dir, err := f.openList(s)
	if err != nil {
		return Result{}, err
	}
	entries, all, err := readEntries(ctx, dir)
	if err != nil {
		return Result{}, f.explain(s.abs, err)
	}
	return Result{Text: listing(dir, entries, all)}, nil
}

func (f *FS) openList(s *spot) (*os.Root, error) {
	switch {
	case s.info == nil:
		return nil, f.explain(s.abs, fs.ErrNotExist)
	case !s.info.IsDir():
		return nil, fmt.Errorf("%s is not a directory: read_file shows a file", f.show(s.abs))
	case s.name == ".":
		return s.dir, nil
	}
	dir, err := openDir(s.dir, s.name, s.info)
	if err != nil {
		return nil, f.explain(s.abs, err)
	}
	s.opened = append(s.opened, dir)
	return dir, nil
}

// readEntries returns the entries sorted by name; all is false when there
// are more than are looked at.
func readEntries(ctx context.Context, dir *os.Root) (entries []fs.DirEntry, all bool, err error) {
	d, err := dir.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	for len(entries) < maxDirEntries {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		batch, err := d.ReadDir(dirBatch)
		entries = append(entries, batch...)
		if errors.Is(err, io.EOF) {
			all = true
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, all, nil
}

func listing(dir *os.Root, entries []fs.DirEntry, all bool) string {
	if len(entries) == 0 {
		return "[The directory is empty.]"
	}
	var b strings.Builder
	shown := 0
	for _, e := range entries {
		line := entryLine(dir, e)
		if shown == maxEntries || b.Len()+len(line)+1 > maxListBytes {
			break
		}
		b.WriteString(line)
		b.WriteByte('\n')
		shown++
	}
	if left := len(entries) - shown; left > 0 || !all {
		more := ""
		if !all {
			more = "at least "
		}
		fmt.Fprintf(&b, "\n[%s%d more entries are not shown. List a directory below this one.]\n", more, left)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func entryLine(dir *os.Root, e fs.DirEntry) string {
	name := plain(e.Name())
	switch mode := e.Type(); {
	case mode.IsDir():
		return name + "/"
	case mode&fs.ModeSymlink != 0:
		to, err := dir.Readlink(e.Name())
		if err != nil {
			return name + " (symbolic link)"
		}
		return name + " -> " + plain(cutText(to, maxPath))
	case !mode.IsRegular():
		return name + " (" + kind(mode) + ")"
	}
	return name
}
