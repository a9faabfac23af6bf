package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/gth-server/gth-server/acp/internal/wire"
	"github.com/gth-server/gth-server/session"
)

// Causes with which turns and asks are cancelled.
var (
	errClientCancel = errors.New("the client cancelled the turn")
	errSuperseded   = errors.New("a new prompt took the place of the turn")
	errSessionClose = errors.New("the client closed the session")
	errConnEnded    = fmt.Errorf("the client went away: %w", session.ErrOwnerLost)
	errTurnOver     = errors.New("the turn is over")
	errSettled      = errors.New("the question is answered")
	errReopened     = errors.New("the client opened the session once more")
	errDropped      = errors.New("the client cancelled the question")
)

func wireError(code wire.ErrorCode, format string, args ...any) *jsonrpc2.Error {
	return &jsonrpc2.Error{Code: int64(code), Message: fmt.Sprintf(format, args...)}
}

// withDetails adds the sentence that says what to do; some clients show
// only this one.
func withDetails(e *jsonrpc2.Error, details string) *jsonrpc2.Error {
	b, err := json.Marshal(map[string]string{"details": details})
	if err == nil {
		e.Data = (*json.RawMessage)(&b)
	}
	return e
}

// withdrawn is the answer to a request that nobody waits for any more.
func withdrawn(ctx context.Context) *jsonrpc2.Error {
	return wireError(wire.ErrorCodeRequestCancelled, "the request was not carried out: %v", context.Cause(ctx))
}

// unknownSession is the answer to an id that nothing is known of.
func unknownSession(id wire.SessionID, hint string) *jsonrpc2.Error {
	e := wireError(wire.ErrorCodeResourceNotFound, "session %.80q %s", string(id), hint)
	return withDetails(e, e.Message)
}

func invalidParams(format string, args ...any) *jsonrpc2.Error {
	e := wireError(wire.ErrorCodeInvalidParams, format, args...)
	return withDetails(e, e.Message)
}

// failure turns an error of ours into what the client is told. A missing
// key is the only one that asks the client to authenticate.
func failure(what string, err error) *jsonrpc2.Error {
	var te *session.TurnError
	if errors.As(err, &te) {
		return turnFailure(what, te.Kind, te.Error())
	}
	return withDetails(wireError(wire.ErrorCodeInternalError, "%s: %v", what, err), err.Error())
}

func turnFailure(what string, kind session.ErrorKind, text string) *jsonrpc2.Error {
	if text == "" {
		text = "no reason was given: see the server's log"
	}
	code := wire.ErrorCodeInternalError
	if kind == session.KindAuth {
		code = wire.ErrorCodeAuthenticationRequired
	}
	return withDetails(wireError(code, "%s: %s", what, text), text)
}
