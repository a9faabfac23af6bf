//go:build !unix

package fsys

import (
	"io/fs"
	"os"
)

const nonblock = 0

func keepOwner(*os.File, fs.FileInfo) {}
