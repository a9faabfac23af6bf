package fsys

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// Bounds of one read.
const (
	maxLines     = 2000
	maxReadBytes = 50 << 10
	maxLineChars = 2000
	maxScan      = 256 << 20 // bytes passed over on the way to a window
	maxTailBytes = 4 << 20   // bytes looked at from the end
	maxCount     = 8 << 20   // files up to this size have their lines counted
	blockSize    = 64 << 10
)

const (
	lineCut       = " [line cut]"
	byteOrderMark = "\ufeff"
)

// ReadFile returns lines of a text file as they are, without line numbers,
// and a last line in brackets that says what was left out.
func (f *FS) ReadFile(ctx context.Context, a ReadArgs) (Result, error) {
	win, err := a.window()
	if err != nil {
		return Result{}, err
	}
	s, t, err := f.resolve(ctx, a.Path)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	file, err := f.openRead(s)
	if err != nil {
		return Result{}, err
	}
	defer file.Close()
	if t.wantsDir {
		return Result{}, fmt.Errorf("%s is a file and not a directory: leave out the slash at the end", f.show(s.abs))
	}
	text, err := f.readWindow(ctx, s, file, win)
	if err != nil {
		return Result{}, err
	}
	return Result{Text: text}, nil
}

// window says which lines are wanted. tail counts from the end when set.
type window struct{ first, count, tail int }

func (a ReadArgs) window() (window, error) {
	w := window{first: 1, count: maxLines}
	ways := 0
	if a.Offset != nil || a.Limit != nil {
		ways++
	}
	for _, arg := range []struct {
		name string
		p    *int
		dst  *int
	}{{"offset", a.Offset, &w.first}, {"limit", a.Limit, &w.count}, {"head", a.Head, &w.count}, {"tail", a.Tail, &w.tail}} {
		if arg.p == nil {
			continue
		}
		if arg.name == "head" || arg.name == "tail" {
			ways++
		}
		if *arg.p < 1 {
			return w, fmt.Errorf("%s is %d and must be at least 1: lines are counted from 1", arg.name, *arg.p)
		}
		*arg.dst = *arg.p
	}
	if ways > 1 {
		return w, errors.New("offset and limit, head, and tail exclude each other: give only one of the three")
	}
	w.count, w.tail = min(w.count, maxLines), min(w.tail, maxLines)
	return w, nil
}

func (f *FS) readWindow(ctx context.Context, s *spot, file *os.File, w window) (string, error) {
	in := bufio.NewReaderSize(withContext(ctx, file), blockSize)
	start, err := in.Peek(probe)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", f.explain(s.abs, err)
	}
	if what := binary(start); what != "" {
		return "", errBinary(f.show(s.abs), what, s.info.Size())
	}
	if bytes.HasPrefix(start, []byte(byteOrderMark)) {
		_, _ = in.Discard(len(byteOrderMark)) // it is in the buffer
		start = start[len(byteOrderMark):]
	}
	if len(start) == 0 {
		return "[The file is empty.]", nil
	}
	var text string
	if w.tail > 0 {
		text, err = readTail(ctx, file, s.info.Size(), w.tail)
	} else {
		text, err = readForward(in, f.show(s.abs), s.info.Size(), w)
	}
	var sentence *refusal
	if err != nil && !errors.As(err, &sentence) {
		err = f.explain(s.abs, err)
	}
	return text, err
}

// refusal is an error that is already a sentence for the model.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// page collects lines within the bounds.
type page struct {
	out  strings.Builder
	n    int
	cuts int
}

// add appends a line and reports whether it had room.
func (p *page) add(line []byte) bool {
	shown, cut := showLine(line)
	if p.n > 0 && p.out.Len()+len(shown)+1 > maxReadBytes {
		return false
	}
	if p.n > 0 {
		p.out.WriteByte('\n')
	}
	p.out.WriteString(shown)
	p.n++
	if cut {
		p.cuts++
	}
	return true
}

// showLine makes a line fit for a model: at most maxLineChars characters,
// valid UTF-8, no NUL.
func showLine(line []byte) (shown string, cut bool) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) > maxLineChars {
		at, chars := 0, 0
		for at < len(line) && chars < maxLineChars {
			_, size := utf8.DecodeRune(line[at:])
			at += size
			chars++
		}
		line, cut = line[:at], at < len(line)
	}
	shown = strings.ReplaceAll(strings.ToValidUTF8(string(line), "\ufffd"), "\x00", "\ufffd")
	if cut {
		shown += lineCut
	}
	return shown, cut
}

func readForward(in *bufio.Reader, name string, size int64, w window) (string, error) {
	var p page
	line, scanned, full := 0, 0, false
	for !full {
		text, n, err := nextLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		line++
		if scanned += n; scanned > maxScan {
			return "", &refusal{fmt.Sprintf("%s is too large to look further than %d bytes: use tail, or a program", name, maxScan)}
		}
		if line < w.first {
			continue
		}
		full = p.n == w.count || !p.add(text)
	}
	last := w.first + p.n - 1
	if p.n == 0 {
		return "", &refusal{fmt.Sprintf("%s has %d lines: offset %d is past its end", name, line, w.first)}
	}
	total := fmt.Sprintf("%d", line)
	if full {
		more, err := countLines(in, size)
		if err != nil {
			return "", err
		}
		if total = "more"; more >= 0 {
			total = fmt.Sprintf("%d", line+more)
		}
	}
	return p.out.String() + notes(w.first, last, total, full, p.cuts), nil
}

func notes(first, last int, total string, more bool, cuts int) string {
	var b strings.Builder
	if more {
		fmt.Fprintf(&b, "\n\n[Lines %d to %d of %s. Read on with offset %d.]", first, last, total, last+1)
	} else if first > 1 {
		fmt.Fprintf(&b, "\n\n[Lines %d to %d, the end of the file.]", first, last)
	}
	if cuts > 0 {
		fmt.Fprintf(&b, "\n\n[%d of these lines are longer than %d characters and were cut.]", cuts, maxLineChars)
	}
	return b.String()
}

// nextLine returns the next line without its end and how many bytes it took.
// Of a line longer than the reader's buffer only the beginning is returned.
func nextLine(in *bufio.Reader) (line []byte, n int, err error) {
	chunk, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		if errors.Is(err, io.EOF) && len(chunk) > 0 {
			return chunk, len(chunk), nil
		}
		return bytes.TrimSuffix(chunk, []byte("\n")), len(chunk), err
	}
	line = bytes.Clone(chunk[:maxLineChars*utf8.UTFMax+1])
	for n = len(chunk); errors.Is(err, bufio.ErrBufferFull) && n <= maxScan; n += len(chunk) {
		chunk, err = in.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, n, err
	}
	return line, n, nil
}

// countLines counts the lines that follow, or returns -1 for a large file.
func countLines(in *bufio.Reader, size int64) (int, error) {
	if size > maxCount {
		return -1, nil
	}
	n, open := 0, false
	for {
		chunk, err := in.ReadSlice('\n')
		switch {
		case err == nil:
			n, open = n+1, false
		case errors.Is(err, bufio.ErrBufferFull):
			open = true
		case errors.Is(err, io.EOF):
			if open || len(chunk) > 0 {
				n++
			}
			return n, nil
		default:
			return 0, err
		}
	}
}

// readTail returns the last lines. It looks at the end of the file only.
func readTail(ctx context.Context, file *os.File, size int64, want int) (string, error) {
	data, at, err := lastBytes(ctx, file, size, want)
	if err != nil {
		return "", err
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	whole := at == 0
	if !whole && len(lines) > 1 {
		lines = lines[1:] // its beginning may be missing
	}
	from := max(len(lines)-want, 0)
	for used, i := 0, len(lines)-1; i >= from; i-- {
		shown, _ := showLine(lines[i])
		if used += len(shown) + 1; used > maxReadBytes && i < len(lines)-1 {
			from = i + 1
			break
		}
	}
	var p page
	for _, line := range lines[from:] {
		p.add(line)
	}
	text := strings.TrimPrefix(p.out.String(), byteOrderMark)
	if !whole || from > 0 {
		text += fmt.Sprintf("\n\n[The last %d lines; there are more before them.]", p.n)
	}
	return text + notes(1, p.n, "", false, p.cuts), nil
}

// lastBytes reads blocks from the end until they hold want lines and one
// more, or maxTailBytes. at is where they begin.
func lastBytes(ctx context.Context, file *os.File, size int64, want int) (data []byte, at int64, err error) {
	at = size
	for newlines := 0; at > 0 && newlines <= want && size-at < maxTailBytes; {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		n := min(at, blockSize)
		block := make([]byte, n, int(n)+len(data))
		if _, err := io.ReadFull(io.NewSectionReader(file, at-n, n), block); err != nil {
			return nil, 0, err
		}
		newlines += bytes.Count(block, []byte("\n"))
		data = append(block, data...)
		at -= n
	}
	return data, at, nil
}
