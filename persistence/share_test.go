package persistence

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// testBeat makes deaths quick to notice.
const testBeat = 100 * time.Millisecond

func openShared(t testing.TB, dir string) *Shared {
	t.Helper()
	s, err := OpenShared(context.Background(), Options{Dir: dir, Beat: testBeat})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pair is a store through another process's, with both in this one.
type pair struct {
	*Shared
	leader *Shared
}

func (p pair) Close() error { return errors.Join(p.Shared.Close(), p.leader.Close()) }

func TestContractOfLeader(t *testing.T) {
	sessiontest.RunStore(t, func(t *testing.T) session.Store { return openShared(t, t.TempDir()) })
}

func TestContractThroughSharing(t *testing.T) {
	sessiontest.RunStore(t, func(t *testing.T) session.Store {
		dir := t.TempDir()
		leader := openShared(t, dir)
		member := openShared(t, dir)
		if member.link.remote == nil {
			t.Fatal("the second did not join the first")
		}
		return pair{member, leader}
	})
}
