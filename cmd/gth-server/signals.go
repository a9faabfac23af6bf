package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signalError is the cause of a context that a signal cancelled.
type signalError struct{ sig syscall.Signal }

func (e signalError) Error() string {
	switch e.sig {
	case syscall.SIGINT:
		return "interrupted (SIGINT)"
	case syscall.SIGTERM:
		return "told to end (SIGTERM)"
	case syscall.SIGHUP:
		return "the terminal went away (SIGHUP)"
	}
	return "ended by " + e.sig.String()
}

// code is the exit code that a shell reports for the signal.
func (e signalError) code() int { return 128 + int(e.sig) }

// signalContext returns a context that the first signal cancels which asks
// the process to end, and one that the second signal cancels: what has a
// grace is then ended without it. The third signal kills, as if nobody
// listened. Signals that were ignored when the process started, as under
// nohup, stay so.
//
// It also makes a write to a closed pipe an error instead of a death that
// would leave children and temporary files behind.
func signalContext(parent context.Context) (ctx, hurry context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	hurry, force := context.WithCancel(parent)
	ch := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE) // not Ignore, which children would inherit
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-ch:
			sig, _ := s.(syscall.Signal)
			cancel(signalError{sig})
		case <-quit:
			return
		}
		select {
		case <-ch:
			signal.Stop(ch)
			force()
		case <-quit:
		}
	}()
	return ctx, hurry, func() {
		signal.Stop(ch)
		close(quit)
		<-done
		force()
		cancel(nil)
	}
}

// closing returns a context for giving things back. It does not descend
// from the command's, which may be over, and ends after grace or when a
// second signal asks for haste.
func (s stdio) closing(grace time.Duration) (context.Context, context.CancelFunc) {
	parent := s.hurry
	if parent == nil {
		parent = context.Background()
	}
	return context.WithTimeout(parent, grace)
}
