//go:build !linux

package persistence

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

// processStart is not known here.
func processStart(int) string { return "" }

// processExists reports whether a process of this pid is there.
func processExists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	if runtime.GOOS == "windows" { // finding it was the test
		return true
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// processStopped is not known here.
func processStopped(int) (stopped bool, done string) { return false, "" }

// processParent is not known here.
func processParent(int) int { return 0 }

// sameProgram is not known here.
func sameProgram(int) bool { return false }
