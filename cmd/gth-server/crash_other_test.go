//go:build !unix

package main

import "testing"

func TestCrash(t *testing.T) {
	t.Skip("kills with SIGKILL and shares a store between processes, neither of which this system has")
}
