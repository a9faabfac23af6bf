// Package provider holds what the model providers share: how they report a
// failure, so that the caller can tell what is worth repeating.
//
// A provider guarantees to return an error that wraps *Error for each
// answer of a server that is not a success, and any other error when the
// connection failed. It never repeats a call by itself.
package provider

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// ErrNoKey means that the provider needs a key and none is set.
var ErrNoKey = errors.New("no API key is set")

// ErrSilent means that the server sent nothing for too long. It is not
// worth repeating: the next call would wait as long.
var ErrSilent = errors.New("the model provider sent nothing for too long")

// Error is a failure that the server reported.
type Error struct {
	Status     int           // HTTP status
	RetryAfter time.Duration // what the server asked to wait, 0 when it did not say
	Message    string        // the server's words, shortened, untrusted
}

func (e *Error) Error() string {
	s := fmt.Sprintf("the model provider answered %d", e.Status)
	if t := http.StatusText(e.Status); t != "" {
		s += " " + t
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return e.Status >= 500
}
