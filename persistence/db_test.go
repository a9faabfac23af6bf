package persistence

import (
	"context"
	"testing"

	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// openTest opens a store that is closed when the test ends.
func openTest(t testing.TB, o Options) *DB {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	d, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestContract(t *testing.T) {
	sessiontest.RunStore(t, func(t *testing.T) session.Store {
		d, err := Open(t.Context(), Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}
