package persistence

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

const (
	manySessions = 10_000
	manyRecords  = 50
)

// seed fills a store with sessions as turns leave them behind, in batches
// of five records, and returns their ids.
func seed(tb testing.TB, d *DB, sessions int) []session.ID {
	tb.Helper()
	ctx := context.Background()
	ids := make([]session.ID, sessions)
	var wg sync.WaitGroup
	work := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range work {
				id := session.ID(uuid.Must(uuid.NewV7()).String())
				ids[i] = id
				m := testMeta(id)
				m.CreatedAt = at.Add(time.Duration(i) * time.Second)
				l, err := d.Create(ctx, m)
				for n := 0; n < manyRecords && err == nil; n += 5 {
					_, err = d.Append(ctx, session.Batch{Lease: l, Expect: session.Seq(n), Key: strconv.Itoa(n), Turn: "t", At: at, Events: records(n)})
				}
				if err == nil {
					err = d.Release(ctx, l)
				}
				if err != nil {
					tb.Error(err)
				}
			}
		})
	}
	for i := range sessions {
		work <- i
	}
	close(work)
	wg.Wait()
	return ids
}

// records are five events of an ordinary turn.
func records(n int) []session.Event {
	call := fmt.Sprint("call", n)
	return []session.Event{
		session.CallAnnounced{Call: approvals.Call{ID: call, Tool: "run_shell_command", Arguments: []byte(`{"command":"go test ./..."}`)}, Title: "go test ./...", Kind: session.KindExecute},
		session.Reasoning{Message: "m", Text: strings.Repeat("the tests should tell. ", 8)},
		session.Text{Message: "m", Text: strings.Repeat("I run the tests now. ", 8)},
		session.CallEnded{CallID: call, State: session.CallCompleted, Result: strings.Repeat("ok\tgithub.com/x/y\t0.1s\n", 10)},
		session.Step{Number: n, Message: []byte(`{"role":"assistant","content":"` + strings.Repeat("text ", 40) + `"}`)},
	}
}

// BenchmarkManySessions measures a store of 10,000 sessions with 50 records
// each: what it takes to open it, to list a page, and to load one session.
func BenchmarkManySessions(b *testing.B) {
	ctx := context.Background()
	o := Options{Dir: b.TempDir(), Retention: -1, MaxBytes: -1}
	d, err := Open(ctx, o)
	if err != nil {
		b.Fatal(err)
	}
	ids := seed(b, d, manySessions)
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
	var opening []time.Duration
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			start := time.Now()
			d, err := Open(ctx, o)
			opening = append(opening, time.Since(start))
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := d.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		report(b, opening)
	})
	if d, err = Open(ctx, o); err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	b.Run("list", func(b *testing.B) {
		cursor := ""
		var took []time.Duration
		for b.Loop() {
			start := time.Now()
			page, next, err := d.List(ctx, session.Filter{Cwd: "/work", Cursor: cursor})
			took = append(took, time.Since(start))
			if err != nil || len(page) == 0 {
				b.Fatal(len(page), err)
			}
			cursor = next
		}
		report(b, took)
	})
	b.Run("load", func(b *testing.B) {
		i := 0
		var took []time.Duration
		for b.Loop() {
			start := time.Now()
			recs, err := d.After(ctx, ids[(i*7919)%len(ids)], 0, 0)
			took = append(took, time.Since(start))
			if err != nil || len(recs) != manyRecords {
				b.Fatal(len(recs), err)
			}
			i++
		}
		report(b, took)
	})
}

// report adds the slowest of what was measured.
func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
}

// bare is Badger as it is, with what a synced append writes.
func bare(tb testing.TB) (*badger.DB, func(i int) error) {
	tb.Helper()
	b, err := badger.Open(badgerOptions(tb.TempDir(), Options{}.withDefaults().Logger).WithSyncWrites(true))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { b.Close() })
	value := make([]byte, 400)
	return b, func(i int) error {
		return b.Update(func(t *badger.Txn) error { return t.Set([]byte(fmt.Sprintf("key%020d", i)), value) })
	}
}

// BenchmarkSyncedAppend compares a synced append with a bare synced
// transaction of Badger, and shows what many at once cost together.
func BenchmarkSyncedAppend(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		_, write := bare(b)
		i := 0
		for b.Loop() {
			if err := write(i); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	for _, writers := range []int{1, 8} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			d := openTest(b, Options{})
			leases := make([]session.Lease, writers)
			for w := range leases {
				l, err := d.Create(context.Background(), testMeta(session.ID(fmt.Sprint("s", w))))
				if err != nil {
					b.Fatal(err)
				}
				leases[w] = l
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, l := range leases {
				wg.Go(func() {
					for i := range b.N/writers + 1 {
						appendSynced(b, d, l, i)
					}
				})
			}
			wg.Wait()
		})
	}
}

func appendSynced(tb testing.TB, d session.Store, l session.Lease, i int) {
	batch := textBatch(l, session.Seq(i), strings.Repeat("x", 200))
	batch.Key, batch.Sync = strconv.Itoa(i), true
	if _, err := d.Append(context.Background(), batch); err != nil {
		tb.Error(err)
	}
}

// TestSyncedAppendCost bounds the cost of a synced append by that of a bare
// transaction in the same run.
func TestSyncedAppendCost(t *testing.T) {
	const rounds, slack = 300, 1.5
	_, write := bare(t)
	d := openTest(t, Options{})
	l, err := d.Create(context.Background(), testMeta("s"))
	if err != nil {
		t.Fatal(err)
	}
	var plain, ours []time.Duration
	for i := range rounds { // in turn, so that both see the same disk
		start := time.Now()
		if err := write(i); err != nil {
			t.Fatal(err)
		}
		plain = append(plain, time.Since(start))
		start = time.Now()
		appendSynced(t, d, l, i)
		ours = append(ours, time.Since(start))
	}
	slices.Sort(plain)
	slices.Sort(ours)
	p, o := plain[rounds/2], ours[rounds/2]
	t.Logf("bare %v, append %v: %.2f times", p, o, float64(o)/float64(p))
	if limit := time.Duration(float64(p) * slack * slack); o > limit && !raceEnabled {
		t.Fatalf("a synced append takes %v, a bare transaction %v", o, p)
	}
}
