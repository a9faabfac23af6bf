//go:build linux

package persistence

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// smallDisk mounts a disk of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small disk can not be mounted here (needs root and CAP_SYS_ADMIN): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes the last byte of a disk and returns what gives it back.
func fill(t *testing.T, disk string) (free func()) {
	t.Helper()
	path := filepath.Join(disk, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := 1 << 20; n > 0; {
		if _, err = f.Write(make([]byte, n)); err != nil {
			n /= 2
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	ctx, disk := context.Background(), smallDisk(t, "96m")
	o := Options{Dir: filepath.Join(disk, "store")}
	d, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Create(ctx, testMeta("s"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := d.Append(ctx, textBatch(l, session.Seq(i), strings.Repeat("x", 10_000))); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.PutAsk(ctx, l, approvals.Request{ID: "a", Session: "s", Created: at}); err != nil {
		t.Fatal(err)
	}
	free := fill(t, disk)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "make room") {
			t.Fatalf("%s on a full disk: %v", what, err)
		}
	}
	check := func(d *DB) {
		t.Helper()
		_, err := d.Append(ctx, textBatch(l, 20, "no"))
		refused("append", err)
		_, err = d.AnswerAsk(ctx, "a", approvals.Answer{Choice: approvals.AllowOnce, At: at}, approvals.Decision{Action: approvals.Approve})
		refused("answer", err)
		refused("grant", d.PutGrant(ctx, "/w", approvals.Grant{ID: "g"}))
		if a, err := d.GetAsk(ctx, "a"); err != nil || a.State != session.AskOpen {
			t.Fatalf("the ask: %v, %v", a.State, err)
		}
		if recs, err := d.After(ctx, "s", 0, 0); err != nil || len(recs) != 20 {
			t.Fatalf("%d records, %v", len(recs), err)
		}
	}
	check(d)
	if err := d.Close(); err != nil {
		t.Fatalf("close on a full disk: %v", err)
	}
	// What is stored opens and is readable although the disk is full.
	if d, err = Open(ctx, o); err != nil {
		t.Fatalf("open on a full disk: %v", err)
	}
	check(d)
	if err := d.Close(); err != nil {
		t.Fatalf("close again: %v", err)
	}
	free()
	if d, err = Open(ctx, o); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	again, err := d.Acquire(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	full := fill(t, disk)
	_, err = d.Append(ctx, textBatch(again, 20, "no"))
	refused("append", err)
	full()
	if _, err := d.Append(ctx, textBatch(again, 20, "yes")); err != nil {
		t.Fatalf("append when there is room again: %v", err)
	}
}

// TestNoRoomAtAll opens where there is not even room for a new store.
func TestNoRoomAtAll(t *testing.T) {
	disk := smallDisk(t, "2m")
	_, err := Open(context.Background(), Options{Dir: filepath.Join(disk, "store")})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "make room") {
		t.Fatalf("got %v", err)
	}
}

// TestReadOnlyDisk closes one store well and leaves one as a crash does.
func TestReadOnlyDisk(t *testing.T) {
	for name, crash := range map[string]bool{"closed": false, "crashed": true} {
		t.Run(name, func(t *testing.T) {
			ctx, disk := context.Background(), smallDisk(t, "96m")
			o := Options{Dir: filepath.Join(disk, "store")}
			d, err := Open(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			l, err := d.Create(ctx, testMeta("s"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Append(ctx, textBatch(l, 0, "1")); err != nil {
				t.Fatal(err)
			}
			asCrashed := filepath.Join(disk, "crashed")
			if err := copyFiles(ctx, d.gen.path(), filepath.Join(asCrashed, filepath.Base(d.gen.path()))); err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if crash {
				o.Dir = asCrashed
			}
			if err := os.Chmod(asCrashed, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			s, err := OpenShared(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			if recs, err := s.After(ctx, "s", 0, 0); err != nil || len(recs) != 1 {
				t.Fatalf("%d records, %v", len(recs), err)
			}
			if page, _, err := s.List(ctx, session.Filter{}); err != nil || len(page) != 1 {
				t.Fatalf("%d sessions, %v", len(page), err)
			}
			if _, err := s.Acquire(ctx, "s"); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "read-only") {
				t.Fatalf("acquire on a read-only disk: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
