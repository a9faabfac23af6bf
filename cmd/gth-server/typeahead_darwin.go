package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetTyped drops what was typed at the terminal and not read yet.
func forgetTyped() {
	const inputQueue = 1 // FREAD of sys/fcntl.h
	_ = unix.IoctlSetPointerInt(int(os.Stdin.Fd()), unix.TIOCFLUSH, inputQueue)
}
