package persistence

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

// maxGroup bounds how many writes share a transaction.
const maxGroup = 256

// write is one change of the store. Exactly one goroutine carries writes
// out, so run sees everything that earlier ones did.
type write struct {
	// run reads and gathers changes. It may run in a transaction together
	// with others, or alone with solo. Its error drops its own changes only.
	run  func(*txn) error
	sync bool // done means on the disk
	solo bool
	then func() // after the commit, before anyone is told

	state atomic.Int32
	done  chan struct{}
	err   error
}

const (
	writeWaits int32 = iota
	writeTaken
	writeDropped
)

// do carries w out. A ctx that ends before its turn drops it; afterwards do
// waits for the result, which does not take long.
func (d *DB) do(ctx context.Context, w *write) error {
	if ctx.Err() != nil {
		return fmt.Errorf("store: %w", context.Cause(ctx))
	}
	w.done = make(chan struct{})
	if err := d.enqueue(ctx, w); err != nil {
		return err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if w.state.CompareAndSwap(writeWaits, writeDropped) {
			return fmt.Errorf("store: %w", context.Cause(ctx))
		}
		<-w.done
	}
	return w.err
}

func (d *DB) enqueue(ctx context.Context, w *write) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	select {
	case d.writes <- w:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("store: %w", context.Cause(ctx))
	}
}

// writeAll is the writer: it takes what waits, commits it together, syncs
// once for all that ask for it, and tells them. What arrives meanwhile is
// the next group. It ends when the queue is closed and empty.
func (d *DB) writeAll() {
	defer d.running.Done()
	var next *write
	for {
		w := next
		if next = nil; w == nil {
			var ok bool
			if w, ok = <-d.writes; !ok {
				return
			}
		}
		if !w.state.CompareAndSwap(writeWaits, writeTaken) {
			continue
		}
		group := []*write{w}
		if !w.solo {
			group, next = d.gather(group)
		}
		d.commitGroup(group)
	}
}

// gather adds what waits already. It returns a solo write that it met.
func (d *DB) gather(group []*write) ([]*write, *write) {
	for len(group) < maxGroup {
		select {
		case w, ok := <-d.writes:
			if !ok {
				return group, nil
			}
			if w.solo {
				return group, w
			}
			if w.state.CompareAndSwap(writeWaits, writeTaken) {
				group = append(group, w)
			}
		default:
			return group, nil
		}
	}
	return group, nil
}

// commitGroup runs the group in as few transactions as hold it.
func (d *DB) commitGroup(group []*write) {
	for len(group) > 0 {
		n := d.commitSome(group)
		group = group[n:]
	}
}

// commitSome commits as many writes as fit and returns how many, at least
// one. A write that changes nothing waits for the others all the same: what
// it read may be theirs.
func (d *DB) commitSome(group []*write) int {
	if err := d.writable(); err != nil {
		finish(group, err)
		return len(group)
	}
	b := d.badger.NewTransaction(true)
	defer b.Discard()
	size := budget{count: d.badger.MaxBatchCount() - 2, bytes: d.badger.MaxBatchSize() - 1024}
	n, changed := 0, false
	for _, w := range group {
		t := &txn{b: b}
		if w.err = guarded(func() error { return w.run(t) }); w.err != nil {
			n++
			continue
		}
		if !size.take(t.changes) {
			if n > 0 {
				break
			}
			w.err = errors.New("the store takes no change of that size at once")
			n++
			continue
		}
		changed = changed || len(t.changes) > 0
		if w.err = apply(b, t.changes); w.err != nil {
			finish(group[:n+1], fmt.Errorf("write: %w", w.err))
			return n + 1
		}
		d.files.wrote(t.changes)
		n++
	}
	var err error
	if changed {
		err = d.commit(b)
	}
	d.settle(group[:n], err)
	return n
}

// settle tells the writes of a committed transaction, first those that need
// no sync.
func (d *DB) settle(group []*write, err error) {
	if err != nil {
		finish(group, err)
		return
	}
	var synced []*write
	for _, w := range group {
		if w.err == nil && w.then != nil {
			w.then()
		}
		if w.err == nil && w.sync {
			synced = append(synced, w)
			continue
		}
		close(w.done)
	}
	if len(synced) == 0 {
		return
	}
	err = d.sync()
	if ferr := d.fenced(); err == nil && ferr != nil {
		err = ferr
	}
	finish(synced, err)
}

// finish tells every write; err is for those that had none of their own.
func finish(group []*write, err error) {
	for _, w := range group {
		if err != nil {
			w.err = err
		}
		close(w.done)
	}
}

// budget is the room that is left in a transaction.
type budget struct{ count, bytes int64 }

// take takes the room that changes need, if there is as much.
func (s *budget) take(changes []change) bool {
	var bytes int64
	for _, c := range changes {
		bytes += int64(len(c.key)) + 64
		if len(c.value) < valueThreshold {
			bytes += int64(len(c.value))
		}
	}
	if int64(len(changes)) > s.count || bytes > s.bytes {
		return false
	}
	s.count -= int64(len(changes))
	s.bytes -= bytes
	return true
}

func apply(b *badger.Txn, changes []change) error {
	for _, c := range changes {
		var err error
		if c.value == nil {
			err = b.Delete(c.key)
		} else {
			err = b.Set(c.key, c.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// commit makes b part of the store. After a failure nobody knows what the
// files hold, so no later write is taken until the store is opened again.
func (d *DB) commit(b *badger.Txn) error {
	if err := b.Commit(); err != nil {
		return d.fail(fmt.Errorf("write to %s: %w", d.dir, err))
	}
	// What was written behind a take-over is not part of the store.
	return d.fenced()
}

// sync returns when everything that was committed is on the disk.
func (d *DB) sync() error {
	sync := d.files.sync
	if runtime.GOOS == "windows" {
		// There a file's sync leaves out what was written to its mapping, and
		// an open file can not be removed.
		sync = d.badger.Sync
	}
	if err := sync(); err != nil {
		return d.fail(fmt.Errorf("sync %s: %w", d.dir, err))
	}
	return nil
}
