// Package fsys holds the file tools of a session: read, write, edit and list
// inside the session's roots.
//
// Guarantees:
//   - Nothing outside the roots is read, created or changed, also while
//     another process swaps directories for links: every step goes through a
//     directory handle that was reached without following a link. Links that
//     stay inside the roots are resolved first and then treated as the path
//     they lead to.
//   - Only regular files and directories are opened. A FIFO, socket or device
//     is refused without being opened, so nothing hangs on it.
//   - A write is all or nothing: the new content replaces the old by a rename
//     after it is on disk. Permission bits are kept.
//   - Results are bounded, whatever the size of the file.
//   - Errors are sentences for the model: what failed, and what to do.
//
// It does not decide whether a call may happen; the gate did that before. It
// does not recognise hard links to files outside the roots (a write replaces
// the name and leaves the other file alone, a read shows the shared content),
// and it does not keep extended attributes. docs/file-tools.md holds the
// rules for paths and the bounds.
package fsys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Options say where the tools may work. All paths are absolute.
type Options struct {
	// Roots may be read and written. The first is the directory that
	// relative paths start from.
	Roots []string
	// ReadOnlyExtra may be read only, for example a directory of spill
	// files. One that does not exist yet is looked for again at each call.
	ReadOnlyExtra []string
}

// FS runs the file tools. Safe for concurrent use; writes run one at a time.
type FS struct {
	roots   []*root
	writing sync.Mutex
}

// Result is what a tool gives back.
type Result struct {
	Text  string // for the model
	Diffs []Diff // what was changed, for people; empty for reads and dry runs
}

// Diff is a changed file, whole.
type Diff struct {
	Path string  // absolute
	Old  *string // nil for a new file
	New  string
}

// ReadArgs are the arguments of read_file. A window (Offset, Limit), Head and
// Tail exclude each other.
type ReadArgs struct {
	Path   string `json:"path"`
	Offset *int   `json:"offset,omitempty"` // first line, from 1
	Limit  *int   `json:"limit,omitempty"`  // number of lines
	Head   *int   `json:"head,omitempty"`   // first lines
	Tail   *int   `json:"tail,omitempty"`   // last lines
}

// WriteArgs are the arguments of write_file.
type WriteArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// EditArgs are the arguments of edit_file.
type EditArgs struct {
	Path   string `json:"path"`
	Edits  []Edit `json:"edits"`
	DryRun bool   `json:"dryRun,omitempty"` // only show what would change
}

// Edit replaces OldText, which must occur exactly once unless ReplaceAll.
type Edit struct {
	OldText    string `json:"oldText"`
	NewText    string `json:"newText"`
	ReplaceAll bool   `json:"replaceAll,omitempty"`
}

// ListArgs are the arguments of list_directory.
type ListArgs struct {
	Path string `json:"path"`
}

// Open opens the roots. They stay open until Close, also when their names
// are moved away.
func Open(o Options) (*FS, error) {
	if len(o.Roots) == 0 {
		return nil, errors.New("file tools: no workspace root is given: name at least one directory")
	}
	f := &FS{}
	for i, dir := range append(append([]string{}, o.Roots...), o.ReadOnlyExtra...) {
		r, err := openRoot(dir, i >= len(o.Roots))
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.roots = append(f.roots, r)
	}
	return f, nil
}

// Close releases the roots. Calls that are running may fail.
func (f *FS) Close() error {
	var errs []error
	for _, r := range f.roots {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

// root is one allowed directory.
type root struct {
	path     string // as configured, cleaned
	real     string // without links
	readOnly bool

	mu     sync.Mutex
	handle *os.Root // nil while a read-only directory is missing
	closed bool
}

func openRoot(dir string, readOnly bool) (*root, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("file tools: root %q is not absolute: give the full path", dir)
	}
	r := &root{path: filepath.Clean(dir), readOnly: readOnly}
	r.real = realPath(r.path)
	if _, err := r.open(); err != nil && (!readOnly || !errors.Is(err, os.ErrNotExist)) {
		return nil, fmt.Errorf("file tools: open root %q: %w: it must be a directory that exists", dir, err)
	}
	return r, nil
}

// open returns the handle; the root keeps it.
func (r *root) open() (*os.Root, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, os.ErrClosed
	}
	if r.handle == nil {
		h, err := os.OpenRoot(r.path)
		if err != nil {
			return nil, err
		}
		r.handle = h
	}
	return r.handle, nil
}

func (r *root) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.handle == nil {
		return nil
	}
	err := r.handle.Close()
	r.handle = nil
	return err
}

// realPath resolves the links of dir, or those of its nearest ancestor that
// exists.
func realPath(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	parent, name := filepath.Split(dir)
	if name == "" {
		return dir
	}
	return filepath.Join(realPath(filepath.Clean(parent)), name)
}
