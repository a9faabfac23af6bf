package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetTyped drops what was typed at the terminal and not read yet.
func forgetTyped() {
	_ = unix.IoctlSetInt(int(os.Stdin.Fd()), unix.TCFLSH, unix.TCIFLUSH)
}
