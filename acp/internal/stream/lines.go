package stream

import (
	"bufio"
	"errors"
	"io"
)

// DefaultMaxLine is the longest line that is read, in bytes.
const DefaultMaxLine = 32 << 20

var errTooLong = errors.New("line too long")

// lineReader cuts a stream into lines.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	if limit <= 0 {
		limit = DefaultMaxLine
	}
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: limit}
}

// next returns the next line without its end, in memory of its own. The
// last line needs no end. errTooLong means that a line was skipped whole.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > l.max+1 {
			return nil, l.skip(err)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			line = line[:len(line)-1]
			if len(line) > l.max {
				return nil, errTooLong
			}
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case len(line) > l.max:
			return nil, errTooLong
		case len(line) > 0:
			return line, nil
		default:
			return nil, err
		}
	}
}

// skip drops the rest of a line whose last read gave err.
func (l *lineReader) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	return errTooLong
}
