package fsys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	maxLinks    = 40 // links followed on the way to one path
	maxAttempts = 4  // resolutions when somebody else moves things about
)

// errMoved reports that a component changed between looking and opening.
var errMoved = errors.New("it was changed while it was being opened: try again")

// spot is where a path leads: an open directory that was reached without
// following a link, and a name in it that was no link when it was looked at.
// Close it.
type spot struct {
	abs     string      // root as configured and the components below it
	dir     *os.Root    // the directory that holds name
	name    string      // "." for a root itself
	info    fs.FileInfo // nil when nothing is there
	missing []string    // directories to make below dir before name
	frozen  bool        // inside a root that may be read only
	opened  []*os.Root
}

func (s *spot) close() {
	for _, d := range s.opened {
		_ = d.Close() // nothing was written through a directory handle
	}
}

// resolve finds the spot of a path argument.
func (f *FS) resolve(ctx context.Context, raw string) (*spot, target, error) {
	t, err := f.parsePath(raw)
	if err != nil {
		return nil, t, err
	}
	for range maxAttempts {
		if err = ctx.Err(); err != nil {
			break
		}
		var s *spot
		if s, err = f.walk(t.abs); err == nil {
			return s, t, nil
		}
		if !errors.Is(err, errMoved) {
			break
		}
	}
	return nil, t, err
}

// walker follows one path from component to component. It resolves links
// itself, so that each directory can be opened by a name that is not one.
type walker struct {
	fs    *FS
	root  *root
	dirs  []*os.Root // dirs[0] is the root's handle, the rest are ours
	done  []string   // names of dirs[1:]
	rest  []string   // still to go
	links int
	mine  []*os.Root
}

func (f *FS) walk(abs string) (s *spot, err error) {
	w := &walker{fs: f}
	defer func() {
		if err != nil {
			(&spot{opened: w.mine}).close()
			err = f.explain(abs, err)
		}
	}()
	if err := w.enter(components(abs)); err != nil {
		return nil, err
	}
	for len(w.rest) > 0 {
		name := w.rest[0]
		w.rest = w.rest[1:]
		s, err := w.step(name)
		if s != nil || err != nil {
			return s, err
		}
	}
	info, err := w.top().Stat(".")
	if err != nil {
		return nil, err
	}
	return w.spot(".", info, nil), nil
}

// enter starts again at the root that contains parts.
func (w *walker) enter(parts []string) error {
	r, rest := w.fs.locate(parts)
	if r == nil {
		return errEscapes
	}
	h, err := r.open()
	if err != nil {
		return err
	}
	w.root, w.rest = r, rest
	w.dirs, w.done = []*os.Root{h}, nil
	return nil
}

func (w *walker) top() *os.Root { return w.dirs[len(w.dirs)-1] }

// step takes one component. It returns a spot when the path ends here.
func (w *walker) step(name string) (*spot, error) {
	if name == "." {
		return nil, nil
	}
	if name == ".." {
		return nil, w.up()
	}
	info, err := w.top().Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return w.absent(name)
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, w.follow(name)
	case info.IsDir() && len(w.rest) > 0:
		return nil, w.down(name, info)
	case len(w.rest) > 0:
		return nil, syscall.ENOTDIR
	}
	return w.spot(name, info, nil), nil
}

// up handles "..", which only the target of a link can hold. Above a root it
// goes on only if the path comes back into one.
func (w *walker) up() error {
	if len(w.done) > 0 {
		w.dirs, w.done = w.dirs[:len(w.dirs)-1], w.done[:len(w.done)-1]
		return nil
	}
	above := components(w.root.real)
	for rest := append([]string{".."}, w.rest...); ; rest = rest[1:] {
		if len(rest) == 0 || rest[0] != ".." {
			return w.enter(append(above, rest...))
		}
		above = above[:max(len(above)-1, 0)]
	}
}

func (w *walker) follow(name string) error {
	if w.links++; w.links > maxLinks {
		return syscall.ELOOP
	}
	to, err := w.top().Readlink(name)
	if err != nil {
		return errMoved
	}
	if filepath.IsAbs(to) {
		return w.enter(append(components(to), w.rest...))
	}
	w.rest = append(components(to), w.rest...)
	return nil
}

func (w *walker) down(name string, info fs.FileInfo) error {
	d, err := openDir(w.top(), name, info)
	if err != nil {
		return err
	}
	w.mine = append(w.mine, d)
	w.dirs, w.done = append(w.dirs, d), append(w.done, name)
	return nil
}

func (w *walker) absent(name string) (*spot, error) {
	way := append([]string{name}, w.rest...)
	for _, p := range way {
		if p == ".." {
			return nil, fs.ErrNotExist
		}
	}
	last := len(way) - 1
	return w.spot(way[last], nil, way[:last:last]), nil
}

func (w *walker) spot(name string, info fs.FileInfo, missing []string) *spot {
	parts := append(append([]string{}, w.done...), missing...)
	if name != "." {
		parts = append(parts, name)
	}
	rest := filepath.Join(parts...)
	s := &spot{dir: w.top(), name: name, info: info, missing: missing, frozen: w.root.readOnly, opened: w.mine}
	s.abs = filepath.Join(w.root.path, rest)
	// A link may have led from an outer root into an inner, read-only one.
	if r, _ := w.fs.locate(components(filepath.Join(w.root.real, rest))); r != nil {
		s.frozen = s.frozen || r.readOnly
	}
	return s
}

// openDir opens the directory name of d, which was seen as info, and makes
// sure that it is the one that was seen.
func openDir(d *os.Root, name string, info fs.FileInfo) (*os.Root, error) {
	sub, err := d.OpenRoot(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	if err != nil {
		return nil, errMoved
	}
	got, err := sub.Stat(".")
	if err != nil || !os.SameFile(info, got) {
		_ = sub.Close()
		return nil, errMoved
	}
	return sub, nil
}

var errEscapes = errors.New("outside the workspace")

// explain turns an error of the system into a sentence for the model. The
// path is the one that was asked for, never one that a link revealed.
func (f *FS) explain(abs string, err error) error {
	if err == nil {
		return nil
	}
	name := f.show(abs)
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	switch {
	case errors.Is(err, errEscapes):
		return f.errOutside(abs)
	case errors.Is(err, errMoved):
		return fmt.Errorf("open %s: %w", name, errMoved)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist: look for it with list_directory", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s is not accessible: permission denied", name)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s does not exist: a part of the path is a file and not a directory", name)
	case errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("%s leads through too many symbolic links: use the path they stand for", name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%s has a name that is too long for the file system: use a shorter one", quote(abs))
	}
	return fmt.Errorf("%s: %w", name, err)
}
