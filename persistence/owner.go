package persistence

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
)

// owner is a process as a holder of leases. Instance tells apart what pid
// and start do not: a pid that was used again, two stores in one process.
type owner struct {
	PID      int    `json:"pid"`
	Start    string `json:"start,omitempty"` // when the process began, in the system's words
	Instance string `json:"instance"`
}

func newOwner() (owner, error) {
	id, err := newNonce()
	if err != nil {
		return owner{}, err
	}
	pid := os.Getpid()
	return owner{PID: pid, Start: processStart(pid), Instance: id}, nil
}

// alive reports whether the process may still be there. Where the system
// does not tell when a process began, any process of that pid counts.
func (o owner) alive() bool {
	return processExists(o.PID) && (o.Start == "" || processStart(o.PID) == o.Start)
}

// newNonce is a name that nobody else picks.
func newNonce() (string, error) {
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("pick a name: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}
