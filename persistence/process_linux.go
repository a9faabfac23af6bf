package persistence

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// stat returns the fields of /proc/PID/stat behind the command's name: the
// first is the state, the second the parent.
func procStat(pid int) [][]byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The name is in parentheses and may hold any byte.
	return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
}

// processStart tells when a process began, empty when it is not known.
func processStart(pid int) string {
	const start = 19
	if f := procStat(pid); len(f) > start {
		return string(f[start])
	}
	return ""
}

// processExists reports whether a process runs or is stopped. One that was
// killed and not yet waited for does not count.
func processExists(pid int) bool {
	f := procStat(pid)
	return len(f) > 0 && f[0][0] != 'Z' && f[0][0] != 'X'
}

// processStopped reports whether a process is stopped by a signal, and what
// it has done so far: two equal texts mean that it did not run in between.
func processStopped(pid int) (stopped bool, done string) {
	f := procStat(pid)
	const utime, stime = 11, 12
	if len(f) <= stime || f[0][0] != 'T' {
		return false, ""
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false, ""
	}
	done = fmt.Sprintf("%s %s", f[utime], f[stime])
	for line := range bytes.Lines(status) {
		if bytes.Contains(line, []byte("ctxt_switches:")) {
			done += " " + string(bytes.TrimSpace(line))
		}
	}
	return true, done
}

// processParent is the parent of a process, 0 when it is not known.
func processParent(pid int) int {
	f := procStat(pid)
	if len(f) < 2 {
		return 0
	}
	n, err := strconv.Atoi(string(f[1]))
	if err != nil {
		return 0
	}
	return n
}

// sameProgram reports whether a process runs the program that we are.
func sameProgram(pid int) bool {
	ours, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && os.SameFile(ours, theirs)
}
