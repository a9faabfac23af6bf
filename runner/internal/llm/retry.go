package llm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/gth-server/gth-server/runner/internal/provider"
)

// Retry says how failed model calls are repeated. Zero fields take the
// defaults named beside them.
type Retry struct {
	Attempts int           // in all, 5; 3 when no connection can be made
	Budget   time.Duration // waiting in all, 90 s
	First    time.Duration // first wait, doubled each time, 500 ms
	Longest  time.Duration // of one wait of our own choice, 20 s
}

func (r Retry) start() *budget {
	if r.Attempts <= 0 {
		r.Attempts = 5
	}
	if r.Budget <= 0 {
		r.Budget = 90 * time.Second
	}
	if r.First <= 0 {
		r.First = 500 * time.Millisecond
	}
	if r.Longest <= 0 {
		r.Longest = 20 * time.Second
	}
	return &budget{Retry: r, left: r.Budget, wait: r.First, attempts: 1}
}

type budget struct {
	Retry
	left     time.Duration
	wait     time.Duration
	attempts int // begun
}

// next says how long to wait before the next attempt, and whether there is
// one. A server's wish is honoured to the full or, when the budget is
// smaller, not tried at all.
func (b *budget) next(err error) (time.Duration, bool) {
	limit := b.Attempts
	if unreachable(err) {
		limit = min(limit, maxDials)
	}
	if !temporary(err) || b.attempts >= limit {
		return 0, false
	}
	// A fifth of jitter keeps sessions that failed together apart.
	wait := time.Duration(float64(b.wait) * (0.9 + 0.2*rand.Float64()))
	var pe *provider.Error
	if errors.As(err, &pe) && pe.RetryAfter > 0 {
		wait = pe.RetryAfter
	}
	if wait > b.left {
		return 0, false
	}
	b.left -= wait
	b.wait = min(2*b.wait, b.Longest)
	b.attempts++
	return wait, true
}

// maxDials bounds the attempts to reach a server that is not there: a wrong
// address should be told soon.
const maxDials = 3

func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// temporary reports whether the same request may succeed later: the server
// said so, or the connection failed on the way.
func temporary(err error) bool {
	var pe *provider.Error
	if errors.As(err, &pe) {
		return pe.Temporary()
	}
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	if errors.As(err, &dns) && dns.IsNotFound || errors.As(err, &cert) || errors.Is(err, provider.ErrSilent) {
		return false
	}
	if errors.Is(err, errCut) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return true
	}
	var ne net.Error
	return errors.As(err, &ne)
}

// Cause says what kind of failure ended a call.
type Cause string

// The causes.
const (
	CauseAuth     Cause = "auth"     // the key is missing or was refused
	CauseProvider Cause = "provider" // everything else
)

// Failure is a model call that failed for good.
type Failure struct {
	Cause Cause
	Err   error
	Hint  string // what to do
}

func (f *Failure) Error() string { return f.Err.Error() + ": " + f.Hint }

// Unwrap returns the last attempt's error.
func (f *Failure) Unwrap() error { return f.Err }

func explain(err error, label string, attempts int) error {
	f := &Failure{Cause: CauseProvider, Err: fmt.Errorf("model %s: %w", label, plain(err))}
	if attempts > 1 {
		f.Err = fmt.Errorf("model %s failed %d times: %w", label, attempts, plain(err))
	}
	f.Hint = hint(err)
	var pe *provider.Error
	if errors.As(err, &pe) && (pe.Status == http.StatusUnauthorized || pe.Status == http.StatusForbidden) {
		f.Cause = CauseAuth
	}
	return f
}

// plain takes the method and address off, which may hold what a person
// wrote into the URL.
func plain(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

func hint(err error) string {
	var pe *provider.Error
	if !errors.As(err, &pe) {
		switch {
		case errors.Is(err, errEmpty):
			return "send the prompt again or choose another model"
		case errors.Is(err, errCut), errors.Is(err, io.ErrUnexpectedEOF):
			return "the connection or the server broke off; send the prompt again"
		case errors.Is(err, errLong):
			return "set model.maxTokens or choose another model"
		case errors.Is(err, provider.ErrSilent):
			return "check the server and its load"
		case errors.Is(err, syscall.ECONNREFUSED):
			return "nothing listens there; start the server or correct the base URL"
		}
		return "check the base URL, the network and the server"
	}
	switch {
	case pe.Status == http.StatusUnauthorized, pe.Status == http.StatusForbidden:
		return "check the API key and what it may use"
	case pe.Status == http.StatusNotFound:
		return "check the model name and the base URL"
	case pe.Status == http.StatusTooManyRequests && pe.RetryAfter > 0:
		return fmt.Sprintf("wait %s and send the prompt again", pe.RetryAfter.Round(time.Second))
	case pe.Status == http.StatusTooManyRequests:
		return "wait, then send the prompt again"
	case pe.Temporary():
		return "the provider has a fault; send the prompt again later"
	}
	return "the provider does not accept the request; check model name, base URL and limits"
}

func errorType(err error) string {
	var pe *provider.Error
	switch {
	case errors.As(err, &pe):
		return fmt.Sprint(pe.Status)
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, errCut):
		return "cut"
	}
	return "connection"
}

func splitLabel(label string) (providerName, name string) {
	before, after, ok := strings.Cut(label, ":")
	if !ok {
		return "unknown", label
	}
	return before, after
}
