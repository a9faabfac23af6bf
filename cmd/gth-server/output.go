package main

import (
	"context"
	"io"
	"os"
	"sync"
)

// outputError says that standard output cannot be written: the disk is
// full, or the reader went away.
type outputError struct{ err error }

func (e *outputError) Error() string {
	return "standard output cannot be written: " + e.err.Error()
}

func (e *outputError) Unwrap() error { return e.err }

// output is standard output, whose failures can be told from all others.
type output struct{ file *os.File }

func (o output) Write(b []byte) (int, error) {
	n, err := o.file.Write(b)
	if err != nil {
		err = &outputError{err}
	}
	return n, err
}

// sink passes output on and cancels the command when that fails, so that
// nothing works on for a reader that is gone. It is safe for concurrent
// use.
type sink struct {
	w      io.Writer
	cancel context.CancelCauseFunc

	mu  sync.Mutex
	err error
}

// newSink returns a sink and the context that it cancels.
func newSink(ctx context.Context, w io.Writer) (*sink, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &sink{w: w, cancel: cancel}, ctx
}

func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.w.Write(b)
	if err != nil {
		s.err = err
		s.cancel(err)
	}
	return n, err
}

// failure returns why a write failed, if one did. The sink is not to be
// used any more.
func (s *sink) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel(nil)
	return s.err
}
