package session_test

import (
	"testing"

	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

func TestMemoryStore(t *testing.T) {
	sessiontest.RunStore(t, func(*testing.T) session.Store { return session.NewMemory() })
}
