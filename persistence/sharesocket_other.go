//go:build !linux && !darwin

package persistence

import (
	"errors"
	"net"
	"time"
)

// sharing tells whether processes can share a store on this system.
const sharing = false

var errNoSharing = errors.New("processes can not share a store on this system")

func listenIn(string) (net.Listener, error)                { return nil, errNoSharing }
func dialIn(string, time.Duration) (net.Conn, error)       { return nil, errNoSharing }
func credentials(net.Conn) (uid, pid int, err error)       { return 0, 0, errNoSharing }
func checkServer(net.Conn) error                           { return errNoSharing }
func checkPeer(net.Conn, Options) (int, error)             { return 0, errNoSharing }
func lockFile(string) (release func(), ok bool, err error) { return nil, false, errNoSharing }
func lockDir(string) (release func(), ok bool, err error)  { return nil, false, errNoSharing }
