package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/sourcegraph/jsonrpc2"
)

// objects is the jsonrpc2.ObjectStream over lines. ReadObject is called by
// one goroutine, WriteObject by any.
type objects struct {
	in     *lineReader
	log    *slog.Logger
	params json.RawMessage // of the message read last; the reader's goroutine only

	jobs   chan job
	ended  chan struct{} // closed at the end of input or when writing fails
	closed chan struct{}
	once   struct{ ended, closed sync.Once }
	mu     sync.Mutex
	err    error // why writing or reading failed
}

// job is one line to write.
type job struct {
	line []byte
	done chan error
}

func newObjects(in io.Reader, out io.Writer, maxLine int, log *slog.Logger) *objects {
	s := &objects{
		in: newLineReader(in, maxLine), log: log,
		jobs: make(chan job), ended: make(chan struct{}), closed: make(chan struct{}),
	}
	go s.writeLoop(out)
	return s
}

// writeLoop is the only writer of out. It is a goroutine of its own so that
// a peer that does not read cannot hold up Close.
func (s *objects) writeLoop(out io.Writer) {
	for {
		select {
		case j := <-s.jobs:
			_, err := out.Write(j.line)
			if err != nil {
				s.end(fmt.Errorf("write to the client: %w", err))
			}
			j.done <- err
		case <-s.closed:
			return
		}
	}
}

func (s *objects) write(line []byte) error {
	j := job{line, make(chan error, 1)}
	select {
	case s.jobs <- j:
	case <-s.closed:
		return jsonrpc2.ErrClosed
	}
	select {
	case err := <-j.done:
		return err
	case <-s.closed:
		return jsonrpc2.ErrClosed
	}
}

// end marks that nothing more will come; err is nil at the end of input.
func (s *objects) end(err error) {
	s.once.ended.Do(func() {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		close(s.ended)
	})
}

func (s *objects) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// ReadObject reads the next message into v; what is none is answered here.
// At the end of input it blocks until Close, because jsonrpc2 stops writing
// once reading has failed.
func (s *objects) ReadObject(v any) error {
	for {
		select {
		case <-s.closed:
			return io.EOF
		default:
		}
		line, err := s.in.next()
		switch {
		case errors.Is(err, errTooLong):
			s.refuse(shapeFault(nil, fmt.Sprintf("invalid request: a line may have at most %d bytes", s.in.max)))
			continue
		case err != nil:
			if errors.Is(err, io.EOF) {
				err = nil
			} else {
				err = fmt.Errorf("read from the client: %w", err)
			}
			s.end(err)
			<-s.closed
			return io.EOF
		}
		if s.decode(line, v) {
			return nil
		}
	}
}

// decode turns a line into v and reports whether there was a message in it.
func (s *objects) decode(line []byte, v any) bool {
	line = trim(line)
	if len(line) == 0 {
		return false
	}
	m, f := parse(line)
	if f != nil {
		s.refuse(f)
		return false
	}
	text := m.response
	if m.method != "" {
		var err error
		if text, err = m.envelope(); err != nil {
			s.refuse(shapeFault(m.id, "invalid request: "+err.Error()))
			return false
		}
	}
	if text == nil {
		s.log.Debug("ignored an answer to no question")
		return false
	}
	if err := json.Unmarshal(text, v); err != nil {
		s.refuse(shapeFault(m.id, "invalid request: "+err.Error()))
		return false
	}
	s.params = m.params
	return true
}

func (s *objects) refuse(f *fault) {
	line, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc2.Error `json:"error"`
	}{"2.0", f.id, f.err})
	if err == nil {
		err = s.write(append(line, '\n'))
	}
	if err != nil {
		s.log.Debug("could not refuse a message", "error", err)
	}
}

// WriteObject writes a message of jsonrpc2 as one line.
func (s *objects) WriteObject(obj any) error {
	line, err := encode(obj)
	if err != nil {
		return err
	}
	return s.write(line)
}

// Close ends every read and write of a message.
func (s *objects) Close() error {
	s.once.closed.Do(func() { close(s.closed) })
	return nil
}

// trim cuts JSON's white space off both ends.
func trim(b []byte) []byte {
	space := func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }
	for len(b) > 0 && space(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && space(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}
