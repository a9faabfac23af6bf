package persistence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/gth-server/gth-server/session"
)

// Shared is a store that the processes of a user work on together. One of
// them has it open and serves the others; when it goes, another one opens
// it and the calls that were under way are repeated there, once for the
// store. It implements session.Store.
type Shared struct {
	o   Options
	dir string
	own owner

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
	linking chan struct{} // holds a token while nobody looks for a store
	wanted  chan struct{} // closed once a store is
	want    sync.Once

	mu     sync.Mutex // guards what follows
	link   *link      // nil between two stores
	leases map[session.Lease]struct{}
	closed bool
}

var _ session.Store = (*Shared)(nil)

// link is the store that a Shared works on for now.
type link struct {
	backend
	local  *DB // nil when another process has the store open
	server *server
	remote *remote
	lost   chan struct{} // closed when it is of no use any more
}

func (l *link) close() error {
	if l.remote != nil {
		l.remote.close()
		return nil
	}
	close(l.lost) // called once, by whoever took the link out of its place
	// Whoever waits for the store is told before it is free.
	var err error
	if l.server != nil {
		err = l.server.close()
	}
	return errors.Join(err, l.local.Close())
}

const (
	// openWithin is how long a store may be neither free nor served.
	openWithin = time.Second
	// silentWithin is the same for one that a process listens for, which
	// does not answer, and greetWithin how long one attempt waits for it.
	silentWithin = 3 * time.Second
	greetWithin  = 700 * time.Millisecond
	// againWithin is how long a call waits for the next process to serve.
	againWithin = 8 * time.Second
	retryEvery  = 15 * time.Millisecond
)

// OpenShared opens the store in o.Dir together with other processes: it
// opens it and serves the others, or works on it through the process that
// does. The error wraps ErrInUse when a process has the store open and does
// not serve it, and otherwise what Open's wraps.
func OpenShared(ctx context.Context, o Options) (*Shared, error) {
	o = o.withDefaults()
	dir, err := filepath.Abs(o.Dir)
	if o.Dir == "" || err != nil {
		return nil, errors.Join(errors.New("open the store: it has no directory: set one"), err)
	}
	if err := prepareDir(dir); err != nil {
		return nil, err
	}
	own, err := newOwner()
	if err != nil {
		return nil, err
	}
	s := &Shared{o: o, dir: dir, own: own, linking: make(chan struct{}, 1), wanted: make(chan struct{}), leases: map[session.Lease]struct{}{}}
	// It lives until Close, however long the context of opening does.
	s.ctx, s.stop = context.WithCancel(context.Background())
	if !o.Lazy {
		s.want.Do(func() { close(s.wanted) })
		if s.link, err = s.find(ctx, openWithin); err != nil {
			s.stop()
			return nil, fmt.Errorf("open the store in %s: %w", dir, err)
		}
	}
	s.running.Go(s.keepLinked)
	return s, nil
}

// Close gives the leases back and leaves the store to the other processes.
func (s *Shared) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	l := s.link
	held := s.leases
	s.leases = nil
	s.mu.Unlock()
	if l != nil && l.remote != nil {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackWithin)
		defer cancel()
		for lease := range held {
			if err := l.Release(ctx, lease); err != nil {
				s.o.Logger.Debug("a lease was not given back", slog.Any("error", err))
				break
			}
		}
	}
	s.stop()
	s.running.Wait()
	s.linking <- struct{}{} // nobody is about to set the link
	<-s.linking
	s.mu.Lock()
	l = s.link
	s.link = nil
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.close()
}

// keepLinked looks for the next store as soon as one is lost, so that other
// processes find one that serves, and leases are kept.
func (s *Shared) keepLinked() {
	select {
	case <-s.wanted:
	case <-s.ctx.Done():
		return
	}
	tick := time.NewTicker(s.o.Beat)
	defer tick.Stop()
	for {
		s.mu.Lock()
		l := s.link
		s.mu.Unlock()
		if l == nil {
			if _, err := s.current(s.ctx); err != nil && s.ctx.Err() == nil {
				s.o.Logger.Warn("the store can not be reached", slog.Any("error", err))
				select {
				case <-tick.C:
				case <-s.ctx.Done():
				}
			}
			if s.ctx.Err() != nil {
				return
			}
			continue
		}
		select {
		case <-s.ctx.Done():
			return
		case <-l.lost:
			s.drop(l)
		case <-tick.C:
			if l.local != nil && l.local.fenced() != nil {
				s.drop(l)
			}
		}
	}
}

// drop gives a link up that is of no use any more.
func (s *Shared) drop(l *link) {
	s.mu.Lock()
	if s.link != l {
		s.mu.Unlock()
		return
	}
	s.link = nil
	s.mu.Unlock()
	if err := l.close(); err != nil {
		s.o.Logger.Warn("a store that was lost did not close well", slog.Any("error", err))
	}
}

// current returns the link of now, and looks for one when there is none.
func (s *Shared) current(ctx context.Context) (*link, error) {
	s.want.Do(func() { close(s.wanted) })
	for {
		s.mu.Lock()
		l, closed := s.link, s.closed
		s.mu.Unlock()
		switch {
		case closed:
			return nil, fmt.Errorf("store: %w", session.ErrClosed)
		case l != nil:
			return l, nil
		}
		select {
		case s.linking <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("store: %w", context.Cause(ctx))
		}
		err := s.relink(ctx)
		<-s.linking
		if err != nil {
			return nil, err
		}
	}
}

// relink finds the next store and takes the leases along.
func (s *Shared) relink(ctx context.Context) error {
	s.mu.Lock()
	there := s.link != nil || s.closed
	s.mu.Unlock()
	if there {
		return nil
	}
	l, err := s.find(ctx, againWithin)
	if err != nil {
		return fmt.Errorf("the store in %s: %w", s.dir, err)
	}
	s.mu.Lock()
	held := make([]session.Lease, 0, len(s.leases))
	for lease := range s.leases {
		held = append(held, lease)
	}
	s.mu.Unlock()
	for _, lease := range held {
		if err := l.keep(ctx, lease); errors.Is(err, session.ErrLost) {
			s.o.Logger.Warn("a session was taken over by another process", slog.String("session", string(lease.Session)))
			s.forget(lease)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l // Close waits for this and finds it
	return nil
}

// find opens the store or connects to the process that has it open, and
// tries for so long while there is neither. A process that listens gets
// longer: it may be busy.
func (s *Shared) find(ctx context.Context, within time.Duration) (*link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	start := time.Now()
	for {
		l, silent, err := s.findOnce(ctx)
		if err == nil || !retriable(err) && !errors.Is(err, ErrInUse) {
			return l, err
		}
		limit := within
		if silent {
			limit = max(within, silentWithin)
		}
		if ctx.Err() == nil && time.Since(start) > limit {
			return nil, s.unserved(err)
		}
		if !pause(ctx, retryEvery) {
			return nil, context.Cause(ctx)
		}
	}
}

// unserved is the error of a store that is neither free nor served.
func (s *Shared) unserved(err error) error {
	who := "another process"
	if pid := lockHolder(s.dir); pid != 0 {
		who = fmt.Sprintf("process %d", pid)
	}
	return fmt.Errorf("%w: %s has it open and does not serve it: end that process and start again: %w", ErrInUse, who, err)
}

// findOnce tries once. silent tells that a process listens and is silent.
func (s *Shared) findOnce(ctx context.Context) (l *link, silent bool, err error) {
	if !sharing {
		l, err = s.lead()
		return l, false, err
	}
	l, silent, err = s.join()
	if err == nil || !errors.Is(err, errGone) {
		return l, silent, err
	}
	if l, err = s.lead(); !errors.Is(err, ErrInUse) {
		return l, silent, err
	}
	// Somebody has it open and does not answer.
	if pid := lockHolder(s.dir); pid != 0 {
		if stopped, done := processStopped(pid); stopped {
			l, err = s.passOver(ctx, pid, done)
		}
	}
	return l, silent, err
}

// join connects to the process that has the store open.
func (s *Shared) join() (l *link, silent bool, err error) {
	greeting := min(greetWithin, s.o.Beat*beatsToDeath)
	nc, err := dialIn(s.dir, greeting)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", errGone, err)
	}
	r, err := connect(nc, s.own, s.o, greeting)
	if err != nil {
		nc.Close()
		return nil, errors.Is(err, errGone), err
	}
	return &link{backend: r, remote: r, lost: r.lost}, false, nil
}

// lead opens the store and serves it.
func (s *Shared) lead() (*link, error) {
	d, err := openDir(s.o, s.dir)
	if err != nil {
		return nil, err
	}
	return s.leadWith(d)
}

func (s *Shared) leadWith(d *DB) (*link, error) {
	d.owner = s.own
	d.mu.Lock()
	d.waitFor = s.o.Now().Add(s.o.Beat * (beatsToDeath + 1))
	d.mu.Unlock()
	if !sharing || d.readOnly { // many may read at once
		return &link{backend: d.seat, local: d, lost: make(chan struct{})}, nil
	}
	ln, err := listenIn(s.dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("share the store: %w", err), d.Close())
	}
	return &link{backend: d.seat, local: d, server: serve(d, ln), lost: make(chan struct{})}, nil
}

// retriable reports whether a call may be tried again on the next store.
func retriable(err error) bool {
	return errors.Is(err, errGone) || errors.Is(err, errFenced) || errors.Is(err, session.ErrClosed)
}

// with runs f on the store, and again on the next one when it is lost.
func (s *Shared) with(ctx context.Context, f func(*link) error) error {
	var until time.Time
	for {
		l, err := s.current(ctx)
		if err != nil {
			return err
		}
		if err = f(l); err == nil || !retriable(err) {
			return err
		}
		s.drop(l)
		if until.IsZero() {
			until = time.Now().Add(againWithin)
		}
		if ctx.Err() != nil || time.Now().After(until) {
			return err
		}
	}
}

func (s *Shared) remember(l session.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases != nil {
		s.leases[l] = struct{}{}
	}
}

func (s *Shared) forget(l session.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, l)
}
