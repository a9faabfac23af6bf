package persistence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// rawBadger opens the files of a store without the store.
func rawBadger(t *testing.T, dir string) *badger.DB {
	t.Helper()
	if err := prepareDir(dir); err != nil {
		t.Fatal(err)
	}
	b, err := badger.Open(badgerOptions(generation{dir, 1}.path(), slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// writeOld makes a store of version 0: bare objects without an envelope.
func writeOld(t *testing.T, dir string, m session.Meta, g approvals.Grant) {
	t.Helper()
	b := rawBadger(t, dir)
	values := map[string][]byte{
		string([]byte{tabFormat}):                []byte(`{"version":0}`),
		string(sessionKey(tabMeta, m.ID)):        mustJSON(t, m),
		string(sessionKey(tabHead, m.ID)):        []byte(`{"epoch":7,"last":0}`),
		string([]byte{tabCounter}):               []byte(`{"last":7}`),
		string(grantKey("/work", g.ID)):          mustJSON(t, storedGrant{Workspace: "/work", Place: 1, Grant: g}),
		string(indexKeys(m)[0]):                  seal(tabIndex, nil),
		string(askOfKey(tabOpen, m.ID, at, "a")): seal(tabOpen, nil),
		string(askKey("a")):                      mustJSON(t, storedAsk{StoredAsk: session.StoredAsk{Request: approvals.Request{ID: "a", Session: string(m.ID), Created: at}, State: session.AskOpen}}),
	}
	err := b.Update(func(txn *badger.Txn) error {
		for k, v := range values {
			if err := txn.Set([]byte(k), v); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
}

var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func testMeta(id session.ID) session.Meta {
	return session.Meta{ID: id, Cwd: "/work", Title: "old", Surface: "acp", Rung: approvals.Write, CreatedAt: at, UpdatedAt: at}
}

func TestOlderStoreIsBroughtUpToDate(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	m := testMeta("s")
	g := approvals.Grant{ID: "g", Entry: approvals.Entry{Type: "exec", Matcher: "prefix", Pattern: "make"}, At: at}
	writeOld(t, dir, m, g)
	for round := range 2 { // the second finds a store of today
		d, err := Open(ctx, Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Meta(ctx, "s")
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("round %d: meta %+v, %v", round, got, err)
		}
		page, _, err := d.List(ctx, session.Filter{})
		if err != nil || len(page) != 1 {
			t.Fatalf("list %v, %v", page, err)
		}
		if gs, err := d.Grants(ctx, "/work"); err != nil || len(gs) != 1 || gs[0].Entry.Pattern != "make" {
			t.Fatalf("grants %v, %v", gs, err)
		}
		if open, err := d.OpenAsks(ctx, "s"); err != nil || len(open) != 1 {
			t.Fatalf("asks %v, %v", open, err)
		}
		l, err := d.Acquire(ctx, "s")
		if err != nil || l.Epoch <= 7 {
			t.Fatalf("lease %v, %v", l, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b := rawBadger(t, dir)
	defer b.Close()
	n := 0
	err := b.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			v, err := it.Item().ValueCopy(nil)
			if err != nil || v[0] != version {
				t.Errorf("key %q still has version %d, %v", it.Item().Key(), v[0], err)
			}
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d values are up to date", n)
}

func TestNewerStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	b := rawBadger(t, dir)
	err := b.Update(func(txn *badger.Txn) error {
		return txn.Set([]byte{tabFormat}, seal(tabFormat, []byte(`{"version":9}`)))
	})
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = Open(context.Background(), Options{Dir: dir})
	if !errors.Is(err, session.ErrNewer) || !strings.Contains(err.Error(), "version 9") || !strings.Contains(err.Error(), "upgrade") {
		t.Fatalf("got %v", err)
	}
}

func TestValues(t *testing.T) {
	newer := seal(tabMeta, []byte("{}"))
	newer[0] = version + 1
	flipped := seal(tabMeta, []byte("{}"))
	flipped[len(flipped)-1] ^= 1
	zero := seal(tabMeta, []byte("{}"))
	zero[0] = 0
	for name, tt := range map[string]struct {
		value []byte
		want  error
	}{
		"whole":         {seal(tabMeta, []byte(`{"a":1}`)), nil},
		"version 0":     {[]byte(`{"a":1}`), nil},
		"empty":         {nil, ErrDamaged},
		"short":         {[]byte{version, tabMeta, 0}, ErrDamaged},
		"newer":         {newer, session.ErrNewer},
		"flipped":       {flipped, ErrDamaged},
		"named 0":       {zero, ErrDamaged},
		"other table":   {seal(tabHead, []byte("{}")), ErrDamaged},
		"broken object": {[]byte(`{"a":`), ErrDamaged},
	} {
		p, err := unseal(tabMeta, tt.value)
		if !errors.Is(err, tt.want) || tt.want == nil && string(p) != `{"a":1}` {
			t.Errorf("%s: got %q, %v", name, p, err)
		}
	}
}

func FuzzValues(f *testing.F) {
	b := batch{first: 3, key: "k", records: [][]byte{[]byte("{}"), []byte("[1]")}}
	f.Add(seal(tabLog, b.encode()))
	f.Add(seal(tabLog, nil))
	f.Add([]byte(`{"version":0}`))
	f.Add([]byte{version, tabLog, 0, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, table := range []byte{tabLog, tabHead, tabMeta, tabAsk, tabGrant, tabKey} {
			p, err := unseal(table, value)
			if err != nil {
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, session.ErrNewer) {
					t.Fatalf("an error of no kind: %v", err)
				}
				p = value // what a damaged envelope lets through must be harmless too
			}
			if got, err := decodeBatch(p); err == nil {
				again, err := decodeBatch(got.encode())
				if err != nil || again.first != got.first || again.key != got.key || len(again.records) != len(got.records) {
					t.Fatalf("%+v became %+v, %v", got, again, err)
				}
				for i, r := range got.records {
					if !bytes.Equal(r, again.records[i]) {
						t.Fatalf("record %d changed", i)
					}
					_, _ = session.DecodeRecord(r)
				}
			}
			if _, err := decodeSpan(p); err == nil && len(p) != 16 {
				t.Fatal("a place of a batch has another length")
			}
			var h head
			_ = unmarshal(table, p, &h)
			var a storedAsk
			_ = unmarshal(table, p, &a)
		}
	})
}
