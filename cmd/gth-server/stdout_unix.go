//go:build unix

package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// dupStdout moves descriptor 1 away and puts standard error in its place.
// The copy is close-on-exec, so no child can write to it either.
func dupStdout(f *os.File) (io.Writer, func(), error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, nil, fmt.Errorf("acp: cannot keep standard output for the protocol: %w", err)
	}
	kept := os.NewFile(uintptr(fd), "protocol")
	if err := unix.Dup2(int(os.Stderr.Fd()), int(f.Fd())); err != nil {
		return nil, nil, fmt.Errorf("acp: cannot point standard output at standard error: %w", err)
	}
	return kept, func() { _ = kept.Close() }, nil
}
