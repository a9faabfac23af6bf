//go:build !linux && !darwin

package shell

import (
	"errors"
	"os"
	"syscall"
)

func supported() error {
	return errors.New("shell engine: scripts run on Linux and macOS only: switch the shell tool off on this system")
}

func ownSession() *syscall.SysProcAttr { return nil }

func exitCode(s *os.ProcessState) int { return s.ExitCode() }

func sessionAlive(int) bool { return false }

func termSession(int) {}

func killSession(int) {}

func sessionMembers(int) map[int]uint64 { return nil }

func stillOurs(int, map[int]uint64) bool { return false }
