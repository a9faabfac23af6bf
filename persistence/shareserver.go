package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/gth-server/gth-server/persistence/internal/frame"
	"github.com/gth-server/gth-server/session"
)

const (
	// beatsToDeath is how many beats of silence are a death.
	beatsToDeath = 3
	// maxCalls bounds the calls of a connection that run at once.
	maxCalls = 1024
	// pageBytes is about how much of a log goes into one reply.
	pageBytes = 4 << 20
)

// server lets other processes of the user work on an open store.
type server struct {
	db      *DB
	ln      net.Listener
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// serve starts to serve d on ln, which it closes.
func serve(d *DB, ln net.Listener) *server {
	// It ends with close, not with the context of whoever opened the store.
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{db: d, ln: ln, cancel: cancel}
	s.running.Go(func() { s.accept(ctx) })
	return s
}

// close ends every connection and returns when the goroutines have ended.
func (s *server) close() error {
	s.cancel()
	err := s.ln.Close()
	s.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *server) accept(ctx context.Context) {
	for {
		c, err := s.ln.Accept()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				s.db.o.Logger.Warn("the store is not shared any more", slog.Any("error", err))
			}
			return
		}
		s.running.Go(func() { s.connection(ctx, c) })
	}
}

// connection serves one process until it goes or ctx ends.
func (s *server) connection(ctx context.Context, nc net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	defer nc.Close()
	c := &conn{Conn: nc, silence: s.db.o.Beat * beatsToDeath}
	from, err := s.greet(c)
	if err != nil {
		s.db.o.Logger.Warn("a process was refused the store", slog.Any("error", err))
		return
	}
	p := &peer{server: s, conn: c, seat: &seat{db: s.db, owner: from}, watches: map[string]context.CancelFunc{}}
	err = p.read(ctx)
	cancel()
	p.running.Wait()
	s.db.gone(p.seat)
	s.db.o.Logger.Debug("a process left the store", slog.Int("pid", from.PID), slog.Any("error", err))
}

// greet checks who is there and answers its hello.
func (s *server) greet(c *conn) (owner, error) {
	pid, err := checkPeer(c.Conn, s.db.o)
	var h hello
	if err == nil {
		err = frame.Decode(c, &h)
	}
	if err == nil && h.Share != shareVersion {
		err = fmt.Errorf("it speaks version %d and this process %d: use one version of gth-server", h.Share, shareVersion)
	}
	if err == nil && pid != 0 && pid != h.Owner.PID {
		err = fmt.Errorf("it says that it is process %d and is %d", h.Owner.PID, pid)
	}
	w := welcome{Share: shareVersion, PID: s.db.owner.PID}
	if err != nil {
		w.Refused = err.Error()
	}
	return h.Owner, errors.Join(err, c.send(w))
}

// conn is a connection whose reads and writes fail after a silence.
type conn struct {
	net.Conn
	silence time.Duration
	writing sync.Mutex
}

func (c *conn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *conn) send(v any) error {
	b, err := frame.Encode(v)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	for len(b) > 0 { // in pieces, so that a slow reader is no silent one
		if err := c.SetWriteDeadline(time.Now().Add(c.silence)); err != nil {
			return err
		}
		n, err := c.Conn.Write(b[:min(len(b), 1<<20)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// peer is a process on the other side.
type peer struct {
	server  *server
	conn    *conn
	seat    *seat
	running sync.WaitGroup

	mu      sync.Mutex // guards what follows
	calls   int
	watches map[string]context.CancelFunc
}

// read takes requests until the connection fails.
func (p *peer) read(ctx context.Context) error {
	for {
		var r request
		if err := frame.Decode(p.conn, &r); err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil
			}
			return err
		}
		if r.Number == 0 {
			if err := p.conn.send(reply{}); err != nil {
				return err
			}
			continue
		}
		if !p.begin() {
			return fmt.Errorf("more than %d calls at once", maxCalls)
		}
		p.running.Go(func() {
			defer p.end()
			answer := p.answer(ctx, r)
			answer.Number = r.Number
			if err := p.conn.send(answer); errors.Is(err, frame.ErrTooLong) {
				_ = p.conn.send(reply{Number: r.Number, Err: toWire(err)})
			} else if err != nil {
				p.conn.Close()
			}
		})
	}
}

func (p *peer) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	return p.calls <= maxCalls
}

func (p *peer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
}

// answer carries a request out. What it lacks is the zero value, which the
// store refuses where that is wrong.
func (p *peer) answer(ctx context.Context, r request) (a reply) {
	var err error
	switch r.Do {
	case doCreate, doAcquire, doRelease, doKeep, doMeta, doUpdate, doList, doDelete:
		a, err = p.sessions(ctx, r)
	case doAppend, doAfter:
		a, err = p.logs(ctx, r)
	case doPutAsk, doGetAsk, doAnswer, doClaim, doOpenAsks, doWatch, doUnwatch:
		a, err = p.asks(ctx, r)
	case doPutGrant, doGrants, doDeleteGrant:
		a, err = p.grants(ctx, r)
	default:
		err = fmt.Errorf("%q is nothing that a store does", r.Do)
	}
	a.Err = toWire(err)
	return a
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func (p *peer) sessions(ctx context.Context, r request) (a reply, err error) {
	switch r.Do {
	case doCreate:
		var l session.Lease
		l, err = p.seat.create(ctx, value(r.Meta), r.Nonce)
		a.Lease = &l
	case doAcquire:
		var l session.Lease
		l, err = p.seat.acquire(ctx, r.Session, r.Nonce)
		a.Lease = &l
	case doRelease:
		err = p.seat.Release(ctx, value(r.Lease))
	case doKeep:
		err = p.seat.keep(ctx, value(r.Lease))
	case doMeta:
		var m session.Meta
		m, err = p.seat.Meta(ctx, r.Session)
		a.Meta = &m
	case doUpdate:
		err = p.seat.Update(ctx, value(r.Lease), value(r.Meta))
	case doList:
		a.Metas, a.Cursor, err = p.seat.List(ctx, value(r.Filter))
	case doDelete:
		err = p.seat.Delete(ctx, r.Session)
	}
	return a, err
}

func (p *peer) logs(ctx context.Context, r request) (a reply, err error) {
	if r.Do == doAfter {
		var encoded [][]byte
		encoded, a.More, err = p.seat.after(ctx, r.Session, r.Seq, r.Limit, pageBytes)
		a.Records = raw(encoded)
		return a, err
	}
	encoded := make([][]byte, 0, len(r.Records))
	for i, b := range r.Records {
		// What another process sends is read before it is kept.
		rec, err := session.DecodeRecord(b)
		if err != nil {
			return a, err
		}
		if rec.Seq != r.Seq+session.Seq(i)+1 {
			return a, fmt.Errorf("record %d stands at place %d", rec.Seq, r.Seq+session.Seq(i)+1)
		}
		encoded = append(encoded, b)
	}
	was, err := p.seat.append(ctx, value(r.Lease), r.Seq, r.Key, encoded, r.Sync)
	if was != nil {
		a.First, a.Last = was.first, was.last
	}
	return a, err
}

func raw(encoded [][]byte) []json.RawMessage {
	out := make([]json.RawMessage, len(encoded))
	for i, b := range encoded {
		out[i] = b
	}
	return out
}

func (p *peer) asks(ctx context.Context, r request) (a reply, err error) {
	switch r.Do {
	case doPutAsk:
		err = p.seat.putAsk(ctx, value(r.Lease), value(r.Request), r.Nonce)
	case doGetAsk:
		var s session.StoredAsk
		s, err = p.seat.GetAsk(ctx, r.ID)
		a.Ask = &s
	case doAnswer:
		var s session.StoredAsk
		s, err = p.seat.answerAsk(ctx, r.ID, value(r.Answer), value(r.Decision), r.Nonce)
		a.Ask = &s
	case doClaim:
		err = p.seat.claimAsk(ctx, value(r.Lease), r.ID, r.Digest, r.Nonce)
	case doOpenAsks:
		a.Asks, err = p.seat.OpenAsks(ctx, r.Session)
	case doWatch:
		err = p.watch(ctx, r.ID, r.Nonce)
	case doUnwatch:
		p.unwatch(r.Nonce)
	}
	return a, err
}

// watch tells the process under this name, once, when the ask leaves open.
func (p *peer) watch(ctx context.Context, id, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	ch, err := p.seat.WatchAsk(ctx, id)
	if err != nil {
		cancel()
		return err
	}
	p.mu.Lock()
	p.watches[name] = cancel
	p.mu.Unlock()
	p.running.Go(func() {
		select {
		case <-ch:
			p.unwatch(name)
			if err := p.conn.send(reply{Left: name}); err != nil {
				p.conn.Close()
			}
		case <-ctx.Done():
		}
	})
	return nil
}

func (p *peer) unwatch(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel := p.watches[name]; cancel != nil {
		cancel()
	}
	delete(p.watches, name)
}

func (p *peer) grants(ctx context.Context, r request) (a reply, err error) {
	switch r.Do {
	case doPutGrant:
		err = p.seat.PutGrant(ctx, r.Workspace, value(r.Grant))
	case doGrants:
		a.Grants, err = p.seat.Grants(ctx, r.Workspace)
	case doDeleteGrant:
		err = p.seat.DeleteGrant(ctx, r.Workspace, r.ID)
	}
	return a, err
}
