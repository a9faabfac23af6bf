package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
)

// asker asks the person at standard input; questions appear on out, which
// is coloured when it is a terminal.
func (s stdio) asker(out io.Writer, tty bool) *terminal.Asker {
	a := terminal.NewAsker(s.in, out, terminal.Painter{On: colour(s, tty)}, terminalWidth())
	if s.inTTY {
		a.Forget = forgetTyped
	}
	return a
}

// terminalWidth returns the columns of the terminal on standard error,
// less one so that nothing wraps by itself.
func terminalWidth() int {
	if w, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil && w > 0 {
		return w - 1
	}
	return 79
}
