//go:build unix

package config

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A FIFO is refused at once: nothing waits for a writer.
func TestFIFO(t *testing.T) {
	h := newHouse(t, "")
	fifo := filepath.Join(h.dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	h.refuses(Overrides{File: fifo}, "acp", `configuration file "H/fifo" (--config): is not a regular file: name a file`)
}
