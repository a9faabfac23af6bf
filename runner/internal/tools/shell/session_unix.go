//go:build linux || darwin

package shell

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// supported reports whether scripts can be run and ended on this system.
func supported() error { return nil }

// ownSession gives bash a session of its own: its processes can be found
// and signalled together, and have no terminal to ask at.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// exitCode is what a shell would put into $?.
func exitCode(s *os.ProcessState) int {
	if s == nil {
		return -1
	}
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// sessionAlive reports whether a process of the session still runs; one
// that ended and that nobody waited for does not count where /proc tells.
func sessionAlive(pid int) bool {
	return syscall.Kill(-pid, 0) == nil && (!procTells() || len(sessionMembers(pid)) > 0)
}

func termSession(pid int) { signalSession(pid, syscall.SIGTERM) }

func killSession(pid int) { signalSession(pid, syscall.SIGKILL) }

// signalSession signals the group of bash and, where /proc tells, the
// groups that job control made beside it.
func signalSession(pid int, sig syscall.Signal) {
	_ = syscall.Kill(-pid, sig)
	for p := range sessionMembers(pid) {
		_ = syscall.Kill(p, sig)
	}
}

// sessionMembers returns the live processes of a session with their start
// times. It is empty where there is no /proc.
func sessionMembers(sid int) map[int]uint64 {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	members := make(map[int]uint64)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it ended
		}
		// The name in parentheses may hold anything.
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(fields) < 20 || fields[0][0] == 'Z' || string(fields[3]) != strconv.Itoa(sid) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			continue
		}
		started, _ := strconv.ParseUint(string(fields[19]), 10, 64)
		members[pid] = started
	}
	return members
}

// stillOurs reports whether the session is the one that was seen when its
// leader ended: the number may have been given to a stranger meanwhile.
func stillOurs(sid int, seen map[int]uint64) bool {
	if len(seen) == 0 {
		return !procTells() && sessionAlive(sid)
	}
	for pid, started := range sessionMembers(sid) {
		if at, ok := seen[pid]; ok && at == started {
			return true
		}
	}
	return false
}

func procTells() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}
