//go:build !unix

package main

import (
	"io"
	"os"
)

// dupStdout points the os.Stdout variable of this process at standard
// error; descriptors cannot be moved here.
func dupStdout(f *os.File) (io.Writer, func(), error) {
	os.Stdout = os.Stderr
	return f, func() { os.Stdout = f }, nil
}
