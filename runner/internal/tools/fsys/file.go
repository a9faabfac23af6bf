package fsys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"
)

// openRead opens the regular file at s for reading. Anything else is refused
// before it is opened; the open itself cannot wait either.
func (f *FS) openRead(s *spot) (*os.File, error) {
	if s.info == nil {
		return nil, f.explain(s.abs, fs.ErrNotExist)
	}
	if err := f.mustBeRegular(s); err != nil {
		return nil, err
	}
	file, err := s.dir.OpenFile(s.name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, f.explain(s.abs, err)
		}
		return nil, f.explain(s.abs, errMoved)
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || !os.SameFile(info, s.info) {
		_ = file.Close() // opened for reading only
		return nil, f.explain(s.abs, errMoved)
	}
	s.info = info
	return file, nil
}

func (f *FS) mustBeRegular(s *spot) error {
	mode := s.info.Mode()
	if mode.IsRegular() {
		return nil
	}
	name := f.show(s.abs)
	if mode.IsDir() {
		return fmt.Errorf("%s is a directory: name a file in it, list_directory shows them", name)
	}
	return fmt.Errorf("%s is a %s and not a regular file: file tools do not open it", name, kind(mode))
}

// kind names what is not a regular file.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "FIFO"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// probe is how many bytes at the start decide whether a file is text.
const probe = 8000

// binary names what makes the start of a file no text, or returns "".
func binary(start []byte) string {
	switch {
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return "UTF-16 text"
	case bytes.IndexByte(start, 0) >= 0:
		return "a binary file"
	}
	return ""
}

func errBinary(name, what string, size int64) error {
	return fmt.Errorf("%s is %s (%d bytes) and cannot be shown as text: use a program that understands it", name, what, size)
}

// readWhole returns the content of the file at s, at most most bytes.
func (f *FS) readWhole(ctx context.Context, s *spot, most int64) (string, error) {
	file, err := f.openRead(s)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if s.info.Size() > most {
		return "", errTooBig(f.show(s.abs), s.info.Size(), most)
	}
	data, err := io.ReadAll(io.LimitReader(withContext(ctx, file), most+1))
	if err != nil {
		return "", f.explain(s.abs, err)
	}
	if int64(len(data)) > most {
		return "", errTooBig(f.show(s.abs), int64(len(data)), most)
	}
	return string(data), nil
}

func errTooBig(name string, size, most int64) error {
	return fmt.Errorf("%s has %d bytes and may have %d for this tool: change it with a program instead", name, size, most)
}

// contextReader stops between two reads when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func withContext(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// cutText cuts s after at most n bytes, at the end of a character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
