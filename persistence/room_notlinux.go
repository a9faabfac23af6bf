//go:build !linux

package persistence

import "os"

// allocate gives f blocks for n bytes.
func allocate(f *os.File, n int64) error { return writeZeros(f, n) }

// syncData puts the content of f on the disk.
func syncData(f *os.File) error { return f.Sync() }
