package shell

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxQuestion bounds the words of one question.
	maxQuestion = 4 << 20
	// questionTime bounds how long a guard may take to send its question,
	// so that a stranger cannot hold connections.
	questionTime = 10 * time.Second
)

// guardServer answers the guards of all running scripts. Each question has
// its own connection on the loopback interface: guards in a pipeline or in
// background jobs never share one, and a program that connects and writes
// can at most ask for itself. A ticket tells which script is asking.
type guardServer struct {
	mu     sync.Mutex
	ln     net.Listener
	closed bool
	runs   map[string]guardedRun
	conns  map[net.Conn]struct{}
	wg     sync.WaitGroup
}

type guardedRun struct {
	check Checker
	job   *job
}

// register gives a run a ticket; the first one starts to listen.
func (g *guardServer) register(check Checker, j *job) (ticket string, port int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return "", 0, ErrClosed
	}
	if g.ln == nil {
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return "", 0, fmt.Errorf("shell engine: listening for guards on the loopback interface: %w", err)
		}
		g.ln = ln
		g.runs = make(map[string]guardedRun)
		g.conns = make(map[net.Conn]struct{})
		g.wg.Add(1)
		go g.accept(ln)
	}
	ticket = randomHex(16)
	g.runs[ticket] = guardedRun{check, j}
	return ticket, g.ln.Addr().(*net.TCPAddr).Port, nil
}

// forget makes a ticket worthless.
func (g *guardServer) forget(ticket string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.runs, ticket)
}

// close stops listening and waits for its goroutines.
func (g *guardServer) close() {
	g.mu.Lock()
	g.closed = true
	if g.ln != nil {
		g.ln.Close()
	}
	for c := range g.conns {
		c.Close()
	}
	g.mu.Unlock()
	g.wg.Wait()
}

func (g *guardServer) accept(ln net.Listener) {
	defer g.wg.Done()
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors; the guards wait meanwhile
			time.Sleep(10 * time.Millisecond)
			continue
		}
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			c.Close()
			return
		}
		g.conns[c] = struct{}{}
		g.wg.Add(1)
		g.mu.Unlock()
		go g.serve(c)
	}
}

// serve answers one question. Only a yes is ever sent; everything else
// ends the connection, which a guard takes for a no.
func (g *guardServer) serve(c net.Conn) {
	defer g.wg.Done()
	defer func() {
		// The reset spares a waiting state per question, of which a loop
		// over many files would exhaust the ports.
		if t, ok := c.(*net.TCPConn); ok {
			t.SetLinger(0)
		}
		c.Close()
		g.mu.Lock()
		delete(g.conns, c)
		g.mu.Unlock()
	}()
	c.SetDeadline(time.Now().Add(questionTime))
	q, err := readQuestion(c)
	g.mu.Lock()
	run, known := g.runs[q.ticket]
	g.mu.Unlock()
	if !known {
		return
	}
	answer, why := "", ""
	if err != nil {
		why = "the words of a guarded command could not be read: " + err.Error()
	} else {
		answer, why = judge(run.check, q)
	}
	if why != "" || !run.job.stillAllowed() {
		run.job.refuse(why)
		return
	}
	if _, err := c.Write([]byte("ok\n" + answer)); err != nil {
		return
	}
	io.Copy(io.Discard, io.LimitReader(c, 1)) // until the guard has read it
}

// question is what a guard asks.
type question struct {
	ticket string   // tells which script is asking
	kind   string   // run, script, scope, read, write or dup
	dir    string   // the guard's directory, "" when bash does not know it
	words  []string // what is about to run or to be opened
}

// readQuestion reads a question whose parts, and the number of words before
// them, each end in a NUL byte. The ticket is returned with the error too.
func readQuestion(c io.Reader) (q question, err error) {
	r := bufio.NewReader(io.LimitReader(c, maxQuestion))
	field := func(to *string) error {
		s, err := r.ReadString(0)
		if err != nil {
			return errors.New("the question is cut short or larger than 4 MiB")
		}
		*to = s[:len(s)-1]
		return nil
	}
	count := ""
	for _, to := range []*string{&q.ticket, &q.kind, &q.dir, &count} {
		if err := field(to); err != nil {
			return q, err
		}
	}
	q.dir = strings.TrimSuffix(q.dir, "\n")
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxQuestion {
		return q, errors.New("the question has a bad number of words")
	}
	for range n {
		w := ""
		if err := field(&w); err != nil {
			return q, err
		}
		q.words = append(q.words, w)
	}
	return q, nil
}
