//go:build unix

package fsys

import (
	"io/fs"
	"os"
	"syscall"
)

// nonblock keeps an open from waiting for the other end of a FIFO.
const nonblock = syscall.O_NONBLOCK

// keepOwner gives f the owner of the file that it replaces where the system
// allows it. Without the right to do so the file belongs to the user, as after
// any editor that saves by renaming.
func keepOwner(f *os.File, old fs.FileInfo) {
	was, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	info, err := f.Stat()
	if err != nil {
		return
	}
	now, ok := info.Sys().(*syscall.Stat_t)
	if ok && (was.Uid != now.Uid || was.Gid != now.Gid) {
		_ = f.Chown(int(was.Uid), int(was.Gid)) // best effort, see above
	}
}
