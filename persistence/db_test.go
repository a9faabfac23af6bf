package persistence

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gth-server/gth-server/approvals"
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

func textBatch(l session.Lease, expect session.Seq, text string) session.Batch {
	return session.Batch{Lease: l, Expect: expect, At: at, Events: []session.Event{session.Text{Text: text}}}
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

func TestConcurrentAppendsAreGrouped(t *testing.T) {
	const writers = 100
	d := openTest(t, Options{})
	leases := make([]session.Lease, writers)
	for i := range leases {
		l, err := d.Create(context.Background(), testMeta(session.ID(fmt.Sprint("s", i))))
		if err != nil {
			t.Fatal(err)
		}
		leases[i] = l
	}
	// The writer is busy while all of them arrive.
	busy, held := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.do(context.Background(), &write{run: func(*txn) error {
			close(held)
			<-busy
			return nil
		}}); err != nil {
			t.Error(err)
		}
	})
	<-held
	before := d.badger.MaxVersion()
	for _, l := range leases {
		wg.Go(func() { appendSynced(t, d, l, 0) })
	}
	for len(d.writes) < writers {
		runtime.Gosched()
	}
	close(busy)
	wg.Wait()
	if n := d.badger.MaxVersion() - before; n != 1 {
		t.Fatalf("%d writes at once took %d transactions", writers, n)
	}
	for i := range leases {
		if recs, err := d.After(context.Background(), leases[i].Session, 0, 0); err != nil || len(recs) != 1 {
			t.Fatalf("session %d: %d records, %v", i, len(recs), err)
		}
	}
}

// TestLargeAndManyRecords stores what does not fit into one value or one
// transaction of Badger, directly and through another process's store.
func TestLargeAndManyRecords(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	open := func() *Shared { // a beat that large messages do not break
		s, err := OpenShared(ctx, Options{Dir: dir, Beat: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	leader, member := open(), open()
	large := strings.Repeat("0123456789abcdef", 270_000) // beyond one piece
	var many []session.Event
	for i := range 700 {
		many = append(many, session.Text{Text: fmt.Sprint(i, strings.Repeat(" text", 200))})
	}
	for i, s := range []*Shared{leader, member} {
		id := session.ID(fmt.Sprint("s", i))
		l, err := s.Create(ctx, testMeta(id))
		if err != nil {
			t.Fatal(err)
		}
		batches := []session.Batch{
			{Lease: l, Key: "large", At: at, Events: []session.Event{session.Text{Text: large}, session.Text{Text: "behind"}}, Sync: true},
			{Lease: l, Expect: 2, At: at, Events: many, Sync: true},
		}
		for _, b := range batches {
			if _, err := s.Append(ctx, b); err != nil {
				t.Fatal(err)
			}
		}
		again, err := s.Append(ctx, batches[0])
		if err != nil || len(again) != 2 || again[0].Event.(session.Text).Text != large {
			t.Fatalf("a repeat: %d records, %v", len(again), err)
		}
		for _, reader := range []*Shared{leader, member} {
			recs, err := reader.After(ctx, id, 0, 0)
			if err != nil || len(recs) != 2+len(many) {
				t.Fatalf("%d records, %v", len(recs), err)
			}
			if recs[0].Event.(session.Text).Text != large || recs[2].Event != many[0] || recs[len(recs)-1].Event != many[len(many)-1] {
				t.Fatal("the records changed")
			}
		}
		if err := s.Delete(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing of them is left.
	err := leader.link.local.read(ctx, func(tx *txn) error {
		return tx.scan(nil, nil, false, func(key []byte, _ func() ([]byte, error)) (bool, error) {
			switch key[0] {
			case tabFormat, tabCounter, tabSecret:
			default:
				t.Errorf("key %q is left", key)
			}
			return true, nil
		})
	})
	if err := errors.Join(err, member.Close(), leader.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestDeletionIsFinishedWhenTheStoreOpens(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	d := openTest(t, Options{Dir: dir})
	l, err := d.Create(ctx, testMeta("s"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if err := d.PutAsk(ctx, l, approvals.Request{ID: fmt.Sprint(i), Session: "s", Created: at}); err != nil {
			t.Fatal(err)
		}
		appendSynced(t, d, l, i)
	}
	if err := d.hide(ctx, "s"); err != nil { // and the process dies here
		t.Fatal(err)
	}
	if _, err := d.GetAsk(ctx, "3"); !errors.Is(err, session.ErrNotFound) {
		t.Fatalf("an ask of a deleted session: %v", err)
	}
	if open, err := d.OpenAsks(ctx, ""); err != nil || len(open) != 0 {
		t.Fatalf("open asks: %v, %v", open, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openTest(t, Options{Dir: dir})
	d.finishDeletions(ctx)
	left := 0
	if err := d.read(ctx, func(tx *txn) error {
		return tx.scan(nil, nil, false, func([]byte, func() ([]byte, error)) (bool, error) {
			left++
			return true, nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	if left != 3 { // format, counter, secret
		t.Fatalf("%d keys are left", left)
	}
}

func TestRetention(t *testing.T) {
	ctx := context.Background()
	now := at.Add(100 * 24 * time.Hour)
	d := openTest(t, Options{Now: func() time.Time { return now }})
	for i, age := range []int{95, 91, 89, 1} {
		m := testMeta(session.ID(fmt.Sprint("s", i)))
		m.UpdatedAt = now.Add(time.Duration(-age) * 24 * time.Hour)
		l, err := d.Create(ctx, m)
		if err != nil {
			t.Fatal(err)
		}
		appendSynced(t, d, l, 0)
		if i != 1 { // this one is open and stays
			if err := d.Release(ctx, l); err != nil {
				t.Fatal(err)
			}
		}
	}
	remaining := func() (ids []session.ID) {
		page, _, err := d.List(ctx, session.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			ids = append(ids, m.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if err := d.retain(ctx); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(remaining()); got != "[s1 s2 s3]" {
		t.Fatalf("by age %s are kept", got)
	}
	d.o.MaxBytes = 1 // too large, so all that are closed go
	if err := d.retain(ctx); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(remaining()); got != "[s1]" {
		t.Fatalf("by size %s are kept", got)
	}
}
