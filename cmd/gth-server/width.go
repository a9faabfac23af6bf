package main

import (
	"os"

	"golang.org/x/term"
)

// terminalWidth returns the columns of the terminal on standard error,
// less one so that nothing wraps by itself.
func terminalWidth() int {
	if w, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil && w > 0 {
		return w - 1
	}
	return 79
}
