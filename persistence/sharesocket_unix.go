//go:build linux || darwin

package persistence

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// sharing tells whether processes can share a store on this system.
const sharing = true

// maxSocketPath is what fits into an address of a Unix socket.
const maxSocketPath = 100

// socketPath is where the process that has the store open listens. Where
// the directory's name is too long for an address, another name leads to it.
func socketPath(dir string) (path string, done func(), err error) {
	path = filepath.Join(dir, "socket")
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	if runtime.GOOS != "linux" {
		sum := sha256.Sum256([]byte(dir))
		return filepath.Join(os.TempDir(), fmt.Sprintf("gth-server-%d-%x", os.Getuid(), sum[:8])), func() {}, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/socket", f.Fd()), func() { f.Close() }, nil
}

// listenIn listens beside the store in dir. The caller has the store open,
// so whoever listened there before does not any more.
func listenIn(dir string) (net.Listener, error) {
	path, done, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// The name is left behind: by then it may be somebody else's.
	ln.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// dialIn connects to the process that listens beside the store in dir.
func dialIn(dir string, within time.Duration) (net.Conn, error) {
	path, done, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	return net.DialTimeout("unix", path, within)
}

// credentials returns user and process on the other side of a socket. The
// process is 0 where the system does not tell.
func credentials(c net.Conn) (uid, pid int, err error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, 0, fmt.Errorf("%T is no Unix socket", c)
	}
	rc, err := u.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	cerr := rc.Control(func(fd uintptr) { uid, pid, err = socketPeer(int(fd)) })
	return uid, pid, errors.Join(cerr, err)
}

// checkServer refuses to work on the store of another user.
func checkServer(c net.Conn) error {
	uid, pid, err := credentials(c)
	if err != nil {
		return fmt.Errorf("ask who serves the store: %w", err)
	}
	if uid != os.Getuid() {
		return fmt.Errorf("process %d of user %d serves the store, and this one is of user %d: remove the socket beside the store", pid, uid, os.Getuid())
	}
	return nil
}

// checkPeer refuses other users, and what o.Peer refuses.
func checkPeer(c net.Conn, o Options) (int, error) {
	uid, pid, err := credentials(c)
	switch {
	case err != nil:
		return 0, fmt.Errorf("ask who wants the store: %w", err)
	case uid != os.Getuid():
		return 0, fmt.Errorf("process %d is of user %d", pid, uid)
	}
	refuse := o.Peer
	if refuse == nil {
		refuse = refuseChildren
	}
	if pid != 0 {
		err = refuse(pid)
	}
	return pid, err
}

// refuseChildren refuses a process that a gth-server started, directly or
// not: what an agent runs must not answer for the person.
func refuseChildren(pid int) error {
	for i := 0; i < 1000; i++ {
		pid = processParent(pid)
		if pid <= 1 {
			return nil
		}
		if pid == os.Getpid() || sameProgram(pid) {
			return fmt.Errorf("it was started by the gth-server with pid %d: what an agent runs has no access", pid)
		}
	}
	return errors.New("its ancestry has no end")
}

// lockFile takes an advisory lock that ends with the process or release.
func lockFile(path string) (release func(), taken bool, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	return lock(f)
}

// lockDir takes the lock that Badger takes on its directory.
func lockDir(path string) (release func(), taken bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	return lock(f)
}

func lock(f *os.File) (release func(), taken bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return func() { f.Close() }, true, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return nil, false, errors.Join(err, f.Close())
}
