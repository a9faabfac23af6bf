//go:build linux || darwin || freebsd

package persistence

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// freeBytes is the room for this user on the disk of dir.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(min(st.Bavail, 1<<40)) * int64(st.Bsize), nil
}

// onDisk is the room that a file really takes.
func onDisk(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return fi.Size()
}
