package persistence

import (
	"os"
	"testing"

	"github.com/gth-server/gth-server/session"
)

// TestLazy: nothing is opened before the first call, and that one works;
// a store that was never used closes.
func TestLazy(t *testing.T) {
	for _, use := range []bool{true, false} {
		dir := t.TempDir()
		s, err := OpenShared(t.Context(), Options{Dir: dir, Lazy: true})
		if err != nil {
			t.Fatal(err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("%d files before the first call", len(entries))
		}
		if use {
			if _, _, err := s.List(t.Context(), session.Filter{}); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLazyFails: the error of opening comes with the first call.
func TestLazyFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/socket", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := OpenShared(t.Context(), Options{Dir: dir + "/socket/below", Lazy: true})
	if err == nil {
		_, _, err = s.List(t.Context(), session.Filter{})
		_ = s.Close()
	}
	if err == nil {
		t.Error("a store below a file was opened")
	}
}
