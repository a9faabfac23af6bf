package persistence

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives f blocks for n bytes.
func allocate(f *os.File, n int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeZeros(f, n)
	}
	return err
}

// syncData puts the content of f on the disk, without its times.
func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
