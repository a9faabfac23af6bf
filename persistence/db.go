package persistence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/gth-server/gth-server/session"
)

// giveBackWithin bounds what Close does for other processes.
const giveBackWithin = 2 * time.Second

// DB is a store in a directory that this process alone has open. It
// implements session.Store.
type DB struct {
	*seat  // of this process
	o      Options
	dir    string
	gen    generation
	badger *badger.DB
	files  *logFiles
	secret []byte

	readOnly bool   // the directory takes no writes
	scratch  string // where a copy is read instead
	check    bool   // files of it were lost

	gate   sync.RWMutex // held for reading while the store is in use
	closed bool
	writes chan *write

	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex // guards what follows
	broken  error      // why no write is taken any more
	leases  map[session.ID]*seat
	watch   map[string]map[chan struct{}]func() bool
	waitFor time.Time // until then lease holders of before may come back
}

var _ session.Store = (*DB)(nil)

// Open opens the store in o.Dir, and makes it when there is none. The error
// wraps ErrInUse when another process has it open, session.ErrNewer when a
// newer build wrote it, and ErrUnavailable when the disk does not allow it.
// A damaged store is opened with what is readable of it.
func Open(ctx context.Context, o Options) (*DB, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("open the store: %w", context.Cause(ctx))
	}
	o = o.withDefaults()
	dir, err := filepath.Abs(o.Dir)
	if o.Dir == "" || err != nil {
		return nil, errors.Join(errors.New("open the store: it has no directory: set one"), err)
	}
	if err := prepareDir(dir); err != nil {
		return nil, err
	}
	d, err := openDir(o, dir)
	if err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", dir, err)
	}
	return d, nil
}

// openDir opens the generation that is current and starts the goroutines.
func openDir(o Options, dir string) (*DB, error) {
	gen, err := currentGeneration(dir)
	if err != nil {
		return nil, err
	}
	d := &DB{
		o: o, dir: dir, gen: gen,
		writes: make(chan *write, maxGroup),
		leases: map[session.ID]*seat{},
		watch:  map[string]map[chan struct{}]func() bool{},
	}
	if readOnly(dir) {
		err = d.openToRead()
	} else {
		err = d.openToWrite()
	}
	if err != nil {
		return nil, err
	}
	if err := d.begin(); err != nil {
		return nil, errors.Join(err, d.badger.Close())
	}
	return d, nil
}

func (d *DB) openToWrite() (err error) {
	if err := makeRoom(d.dir); err != nil {
		return err
	}
	if d.badger, d.gen, d.check, err = openReadable(d.o, d.gen); err != nil {
		return err
	}
	if now, err := currentGeneration(d.dir); err != nil || now != d.gen {
		return errors.Join(fmt.Errorf("%w: it is being taken over", ErrInUse), err, d.badger.Close())
	}
	d.gen.tidy(d.o.Logger)
	return nil
}

// begin prepares an open Badger and starts the goroutines.
func (d *DB) begin() error {
	own, err := newOwner()
	if err != nil {
		return err
	}
	d.seat = &seat{db: d, owner: own}
	if d.files, err = openLogFiles(d.gen.path()); err != nil {
		return err
	}
	if err := d.migrate(); err != nil {
		return err
	}
	if d.secret, err = d.cursorSecret(); err != nil {
		return err
	}
	if d.check {
		if err := d.recheck(); err != nil {
			return err
		}
	}
	// The goroutines end with Close, not with the context of Open.
	ctx, cancel := context.WithCancel(context.Background())
	d.stop = cancel
	d.running.Add(1)
	go d.writeAll()
	d.running.Go(func() { d.maintain(ctx) })
	return nil
}

// enter holds the store open for one call; leave ends it.
func (d *DB) enter() error {
	d.gate.RLock()
	if d.closed {
		d.gate.RUnlock()
		return fmt.Errorf("store: %w", session.ErrClosed)
	}
	return nil
}

func (d *DB) leave() { d.gate.RUnlock() }

// read runs f on the state of now.
func (d *DB) read(ctx context.Context, f func(*txn) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("store: %w", context.Cause(ctx))
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	b := d.badger.NewTransaction(false)
	defer b.Discard()
	if err := guarded(func() error { return f(&txn{b: b}) }); err != nil {
		return err
	}
	return d.fenced()
}

// guarded turns a fault in a damaged file into an error: Badger maps its
// files and takes what they hold for granted.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("read the store: %w: %v", ErrDamaged, r)
		}
	}()
	return f()
}

// writable says why no write may be taken now.
func (d *DB) writable() error {
	d.mu.Lock()
	err := d.broken
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if err := d.fenced(); err != nil {
		return err
	}
	return d.hasRoom()
}

// fail remembers that the files can not be trusted with more.
func (d *DB) fail(err error) error {
	err = fmt.Errorf("%w: %w: start again when the disk is well", ErrUnavailable, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken == nil {
		d.broken = err
	}
	return err
}

// Close ends the store's goroutines, writes what waits and releases the
// directory. Later calls return session.ErrClosed; a second Close is none.
func (d *DB) Close() error {
	d.giveBack()
	d.gate.Lock()
	if d.closed {
		d.gate.Unlock()
		return nil
	}
	d.closed = true
	close(d.writes)
	d.gate.Unlock()

	d.stop()
	d.running.Wait()
	if err := errors.Join(d.files.close(), d.closeBadger()); err != nil {
		return fmt.Errorf("close the store in %s: %w", d.dir, err)
	}
	return nil
}

// giveBack releases the leases of this process, so that whoever opens the
// store next need not ask whether their holder lives.
func (d *DB) giveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackWithin)
	defer cancel()
	d.mu.Lock()
	var held []session.ID
	for id, s := range d.leases {
		if s == d.seat {
			held = append(held, id)
		}
	}
	d.mu.Unlock()
	for _, id := range held {
		if err := d.seat.giveBack(ctx, id); err != nil && !errors.Is(err, session.ErrClosed) {
			d.o.Logger.Warn("the lease of a session was not given back", slog.String("session", string(id)), slog.Any("error", err))
			return
		}
	}
}

func (d *DB) closeBadger() error {
	// Closing writes tables. On a full disk the reserve makes room for them.
	if d.scratch == "" {
		d.giveUpReserve()
	}
	err := guarded(d.badger.Close)
	if d.fenced() != nil {
		return nil // what is in these files is not the store any more
	}
	if d.scratch != "" {
		err = errors.Join(err, os.RemoveAll(d.scratch))
	}
	return err
}

// Dir returns the store's directory.
func (d *DB) Dir() string { return d.dir }

// prepareDir makes the directory and closes it to others.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("open the store: make its directory: %w: %w", ErrUnavailable, err)
	}
	fi, err := os.Stat(dir)
	if err == nil && fi.Mode().Perm() != 0o700 {
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("open the store: close its directory to others: %w: %w", ErrUnavailable, err)
	}
	return nil
}
