package fsys

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

const (
	maxEditBytes = 10 << 20 // of a file that edit_file changes
	maxDiffBytes = 1 << 20  // of an old content that a Diff carries
)

// WriteFile creates or replaces a file and makes its parents. A file that
// holds the content already is left alone.
func (f *FS) WriteFile(ctx context.Context, a WriteArgs) (Result, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	s, err := f.resolveForWrite(ctx, a.Path)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	name, size := f.show(s.abs), plural(len(a.Content), "byte")
	old, known := f.oldText(ctx, s)
	if known && *old == a.Content {
		return Result{Text: fmt.Sprintf("%s holds exactly this content already.", name)}, nil
	}
	isNew := s.info == nil
	if err := f.replace(ctx, s, a.Content); err != nil {
		return Result{}, err
	}
	if isNew {
		return Result{Text: fmt.Sprintf("Created %s with %s.", name, size), Diffs: []Diff{{Path: s.abs, New: a.Content}}}, nil
	}
	res := Result{Text: fmt.Sprintf("Replaced the content of %s with %s.", name, size)}
	if known {
		res.Diffs = []Diff{{Path: s.abs, Old: old, New: a.Content}}
	}
	return res, nil
}

// resolveForWrite finds the spot of a file that may be written.
func (f *FS) resolveForWrite(ctx context.Context, raw string) (*spot, error) {
	s, t, err := f.resolve(ctx, raw)
	if err != nil {
		return nil, err
	}
	if err := f.mayWrite(s, t); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (f *FS) mayWrite(s *spot, t target) error {
	name := f.show(s.abs)
	if s.frozen {
		return fmt.Errorf("%s is in a directory that can be read only: write inside the workspace", name)
	}
	if s.info != nil {
		if err := f.mustBeRegular(s); err != nil {
			return err
		}
		if s.info.Mode().Perm()&0o222 == 0 {
			return fmt.Errorf("%s is write-protected: ask the user before its permissions are changed", name)
		}
	}
	if t.wantsDir {
		return fmt.Errorf("%s names a directory, it ends in a slash: name a file", name)
	}
	return nil
}

// oldText returns the present content if it is text of a size that people
// want to compare.
func (f *FS) oldText(ctx context.Context, s *spot) (*string, bool) {
	if s.info == nil || s.info.Size() > maxDiffBytes {
		return nil, false
	}
	text, err := f.readWhole(ctx, s, maxDiffBytes)
	if err != nil || binary([]byte(text[:min(len(text), probe)])) != "" {
		return nil, false
	}
	return &text, true
}

// replace puts content at s in one step: a temporary file beside it is
// written, brought to disk and renamed.
func (f *FS) replace(ctx context.Context, s *spot, content string) error {
	if err := f.makeParents(s); err != nil {
		return f.explainWrite(s, err)
	}
	temp := ".gth-" + rand.Text() + ".tmp"
	err := writeTemp(s, temp, content)
	if err == nil {
		err = ctx.Err() // the last moment at which nothing has changed
	}
	if err == nil {
		err = swap(s, temp)
	}
	if err != nil {
		_ = s.dir.Remove(temp) // it may not exist; the first error counts
		return f.explainWrite(s, err)
	}
	if d, err := s.dir.Open("."); err == nil {
		_ = d.Sync() // the rename is done; some file systems cannot sync directories
		_ = d.Close()
	}
	return nil
}

func (f *FS) makeParents(s *spot) error {
	for len(s.missing) > 0 {
		name := s.missing[0]
		if err := s.dir.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err := s.dir.Lstat(name)
		if err != nil || !info.IsDir() {
			return errMoved
		}
		d, err := openDir(s.dir, name, info)
		if err != nil {
			return err
		}
		s.opened = append(s.opened, d)
		s.dir, s.missing = d, s.missing[1:]
	}
	return nil
}

// writeTemp writes the temporary file with the permissions that the target
// has, or those of any new file.
func writeTemp(s *spot, temp, content string) (err error) {
	mode := fs.FileMode(0o666)
	if s.info != nil {
		mode = 0o600 // until it has the owner and mode of the old file
	}
	file, err := s.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.WriteString(content); err != nil {
		return err
	}
	if s.info != nil {
		keepOwner(file, s.info)
		if err := file.Chmod(s.info.Mode().Perm()); err != nil {
			return err
		}
	}
	return file.Sync()
}

// swap renames the temporary file over the target if the target still is
// what was looked at.
func swap(s *spot, temp string) error {
	now, err := s.dir.Lstat(s.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if s.info != nil {
			return errChanged
		}
	case err != nil:
		return err
	case s.info == nil || !os.SameFile(now, s.info) || now.Size() != s.info.Size() || !now.ModTime().Equal(s.info.ModTime()):
		return errChanged
	}
	return s.dir.Rename(temp, s.name)
}

var errChanged = errors.New("it was changed by somebody else in the meantime: read it again first")

func (f *FS) explainWrite(s *spot, err error) error {
	name := f.show(s.abs)
	switch {
	case errors.Is(err, errChanged):
		return fmt.Errorf("%s was not written: %w", name, errChanged)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s was not written: its directory does not permit it: choose another place or ask the user", name)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%s was not written: the disk is full: ask the user to make room", name)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s was not written: the file system is read only: choose another place", name)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s was not written: %w", name, err)
	}
	return f.explain(s.abs, err)
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, strings.TrimSuffix(word, "s"))
}
