package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gth-server/gth-server/runner/internal/provider"
)

const (
	maxErrorBody = 16 << 10
	maxMessage   = 500
)

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 20 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 20 * time.Second,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     60 * time.Second,
		ForceAttemptHTTP2:   true,
	}
}

// caller turns unsuccessful answers into errors and ends silent ones. It is
// a RoundTripper because the client library drops the answer's headers.
type caller struct {
	next    http.RoundTripper
	silence time.Duration
}

func (c *caller) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	watch := time.AfterFunc(c.silence, func() { cancel(provider.ErrSilent) })
	resp, err := c.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		watch.Stop()
		err = causeOf(ctx, err)
		cancel(nil)
		return nil, err
	}
	body := &watchedBody{ReadCloser: resp.Body, ctx: ctx, watch: watch, cancel: cancel, silence: c.silence}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer body.Close()
		return nil, statusError(resp, body)
	}
	resp.Body = body
	return resp, nil
}

// causeOf prefers our own reason over "context canceled".
func causeOf(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), provider.ErrSilent) {
		return provider.ErrSilent
	}
	return err
}

// watchedBody restarts the silence watch with each read.
type watchedBody struct {
	io.ReadCloser
	ctx     context.Context
	watch   *time.Timer
	cancel  context.CancelCauseFunc
	silence time.Duration
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
		b.watch.Reset(b.silence)
	case !errors.Is(err, io.EOF):
		err = causeOf(b.ctx, err)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.watch.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

func statusError(resp *http.Response, body io.Reader) error {
	raw, _ := io.ReadAll(io.LimitReader(body, maxErrorBody))
	e := &provider.Error{Status: resp.StatusCode, Message: message(raw)}
	if resp.StatusCode < 400 {
		e.Message = "redirected, which is not followed: set the base URL to the final address"
	}
	e.RetryAfter = retryAfter(resp.Header, time.Now())
	return e
}

// message takes the words out of the usual error shapes.
func message(raw []byte) string {
	var shape struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	text := string(raw)
	if json.Unmarshal(raw, &shape) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		var plain string
		switch {
		case json.Unmarshal(shape.Error, &inner) == nil && inner.Message != "":
			text = inner.Message
		case json.Unmarshal(shape.Error, &plain) == nil && plain != "":
			text = plain
		case shape.Message != "":
			text = shape.Message
		case json.Unmarshal(shape.Detail, &plain) == nil && plain != "":
			text = plain
		}
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

// retryAfter reads the standard header (seconds or a date) and the one in
// milliseconds that some servers send.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
