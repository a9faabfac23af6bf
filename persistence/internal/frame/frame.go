// Package frame sends JSON values over a byte stream, each with its length
// before it.
//
// Guarantees: a frame is read whole or an error is returned; no length that
// a peer names makes the reader allocate more than it received.
//
// Not guaranteed: anything about what the values hold.
package frame

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Max is the longest frame, in bytes of JSON.
const Max = 96 << 20

// ErrTooLong is a frame beyond Max.
var ErrTooLong = errors.New("the message is too long")

const headLen = 4

// Encode returns v as one frame.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, headLen))
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the bytes of arguments stay as they are
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	n := b.Len() - headLen
	if n > Max {
		return nil, fmt.Errorf("%d bytes: %w: at most %d fit", n, ErrTooLong, Max)
	}
	binary.BigEndian.PutUint32(b.Bytes(), uint32(n))
	return b.Bytes(), nil
}

// Decode reads one frame into v. io.EOF is a stream that ended between two
// frames.
func Decode(r io.Reader, v any) error {
	var head [headLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > Max {
		return fmt.Errorf("%d bytes: %w: at most %d fit", n, ErrTooLong, Max)
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return json.Unmarshal(b.Bytes(), v)
}
