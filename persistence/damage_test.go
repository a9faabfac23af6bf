package persistence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

const (
	damageSessions = 10
	damageRecords  = 12
)

// crashed makes a store with tables, a value log and a write-ahead log, as a
// process leaves it that was killed, and returns its directory.
func crashed(t *testing.T) string {
	t.Helper()
	ctx, dir := context.Background(), t.TempDir()
	o := Options{Dir: filepath.Join(dir, "live")}
	big := strings.Repeat("big ", 100_000)
	for _, part := range []int{0, 1, 2} { // two parts in tables, one in the log
		d := openTest(t, o)
		for i := range damageSessions {
			id := session.ID(fmt.Sprintf("s%02d", i))
			var l session.Lease
			var err error
			if part == 0 {
				if l, err = d.Create(ctx, testMeta(id)); err == nil {
					err = d.PutAsk(ctx, l, approvals.Request{ID: string(id), Session: string(id), Created: at})
				}
			} else {
				l, err = d.Acquire(ctx, id)
			}
			for n := 0; n < damageRecords/3 && err == nil; n++ {
				at := part*damageRecords/3 + n
				text := fmt.Sprint(at, strings.Repeat(" text", 60))
				if n == 2 && i%5 == 0 {
					text = fmt.Sprint(at, " ", big)
				}
				_, err = d.Append(ctx, textBatch(l, session.Seq(at), text))
			}
			if err == nil {
				err = d.PutGrant(ctx, "/work", approvals.Grant{ID: fmt.Sprint(part, i), Entry: approvals.Entry{Type: "exec", Matcher: "prefix", Pattern: "make"}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if part < 2 {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := copyFiles(ctx, d.gen.path(), filepath.Join(dir, "killed", filepath.Base(d.gen.path()))); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "killed")
}

// found is what is there of a store.
type found struct{ sessions, records, grants int }

func (f found) less() bool {
	return f.sessions < damageSessions || f.records < damageSessions*damageRecords || f.grants < 3*damageSessions
}

// readAll opens a store and counts what is there, which must be the
// beginning of what was written. An error is what a person would see.
func readAll(t *testing.T, dir string, log *slog.Logger, f func(d *DB, id session.ID, n int)) (got found, err error) {
	t.Helper()
	ctx := context.Background()
	d, err := Open(ctx, Options{Dir: dir, Logger: log})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer func() {
		if cerr := d.Close(); cerr != nil {
			t.Fatal(cerr)
		}
	}()
	page, _, err := d.List(ctx, session.Filter{Limit: 1000})
	if err != nil {
		return got, err
	}
	for _, m := range page {
		recs, err := d.After(ctx, m.ID, 0, 0)
		if err != nil {
			return got, err
		}
		for i, r := range recs {
			if !strings.HasPrefix(r.Event.(session.Text).Text, fmt.Sprint(i, " ")) || r.Seq != session.Seq(i)+1 {
				t.Fatalf("record %d of %s is another one", i+1, m.ID)
			}
		}
		got.sessions, got.records = got.sessions+1, got.records+len(recs)
		if f != nil {
			f(d, m.ID, len(recs))
		}
	}
	if _, err := d.OpenAsks(ctx, ""); err != nil {
		return got, err
	}
	gs, err := d.Grants(ctx, "/work")
	got.grants = len(gs)
	return got, err
}

// goesOn writes to a session of a repaired store.
func goesOn(t *testing.T) func(d *DB, id session.ID, n int) {
	return func(d *DB, id session.ID, n int) {
		l, err := d.Acquire(context.Background(), id)
		if err != nil {
			t.Fatalf("acquire %s: %v", id, err)
		}
		if _, err := d.Append(context.Background(), textBatch(l, session.Seq(n), fmt.Sprint(n, " more"))); err != nil {
			t.Fatalf("append to %s: %v", id, err)
		}
	}
}

func TestDamagedFiles(t *testing.T) {
	whole := crashed(t)
	base := filepath.Base(generation{"", 1}.path())
	entries, err := os.ReadDir(filepath.Join(whole, base))
	if err != nil {
		t.Fatal(err)
	}
	damages := map[string]func(b []byte) []byte{
		"flip":     func(b []byte) []byte { b[len(b)/2] ^= 0x55; return b },
		"flip end": func(b []byte) []byte { b[len(b)-3] ^= 0x55; return b },
		"cut":      func(b []byte) []byte { return b[:len(b)/2] },
		"empty":    func([]byte) []byte { return nil },
		"zeros":    func(b []byte) []byte { clear(b[len(b)/3 : len(b)/2]); return b },
		"garbage": func(b []byte) []byte {
			for i := range b {
				b[i] = byte(i * 37)
			}
			return b
		},
		"gone": nil,
	}
	cases := 0
	for _, e := range entries {
		few := !slices.Contains([]string{"000001.sst", "00001.mem", "MANIFEST"}, e.Name())
		for name, damage := range damages {
			if few && !slices.Contains([]string{"flip", "garbage", "gone"}, name) || e.Name() == "DISCARD" {
				continue // DISCARD holds nothing yet
			}
			t.Run(e.Name()+" "+name, func(t *testing.T) {
				cases++
				dir := t.TempDir()
				if err := copyFiles(context.Background(), filepath.Join(whole, base), filepath.Join(dir, base)); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, base, e.Name())
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				used := bytes.TrimRight(b, "\x00") // the rest is only room
				if damage == nil {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				} else {
					if err := os.WriteFile(path, append(damage(bytes.Clone(used)), b[len(used):]...), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				var log bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
				got, err := readAll(t, dir, logger, nil)
				if err != nil {
					// It was found while reading. The next opening repairs it.
					if !errors.Is(err, ErrDamaged) {
						t.Fatalf("an error of another kind: %v", err)
					}
					if got, err = readAll(t, dir, logger, nil); err != nil {
						t.Fatalf("not repaired by opening again: %v", err)
					}
				}
				t.Logf("%+v; said: %.300s", got, log.String())
				// A log without its end looks like one that never had it.
				endless := strings.HasSuffix(e.Name(), ".mem") && slices.Contains([]string{"gone", "empty", "cut", "flip end"}, name)
				if got.less() && log.Len() == 0 && !endless {
					t.Fatal("something was lost and nobody said so")
				}
				if got.sessions == 0 {
					t.Fatal("one file cost every session")
				}
				again, err := readAll(t, dir, logger, goesOn(t))
				if err != nil || again != got {
					t.Fatalf("%+v, and opened again %+v, %v", got, again, err)
				}
				if _, err := readAll(t, dir, logger, nil); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	t.Logf("%d cases of damage to %d files", cases, len(entries))
}
