package shell

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
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
	ticket, kind, words, err := readQuestion(c)
	g.mu.Lock()
	run, known := g.runs[ticket]
	g.mu.Unlock()
	if !known {
		return
	}
	answer, why := "", ""
	if err != nil {
		why = "the words of a guarded command could not be read: " + err.Error()
	} else {
		answer, why = judge(run.check, kind, words)
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

// readQuestion reads ticket, kind, number of words and the words, each
// ended by a NUL byte. The ticket is returned with the error too.
func readQuestion(c io.Reader) (ticket, kind string, words []string, err error) {
	r := bufio.NewReader(io.LimitReader(c, maxQuestion))
	field := func() (string, error) {
		s, err := r.ReadString(0)
		if err != nil {
			return "", errors.New("the question is cut short or larger than 4 MiB")
		}
		return s[:len(s)-1], nil
	}
	if ticket, err = field(); err != nil {
		return ticket, "", nil, err
	}
	if kind, err = field(); err != nil {
		return ticket, "", nil, err
	}
	count, err := field()
	if err != nil {
		return ticket, kind, nil, err
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxQuestion {
		return ticket, kind, nil, errors.New("the question has a bad number of words")
	}
	for range n {
		w, err := field()
		if err != nil {
			return ticket, kind, nil, err
		}
		words = append(words, w)
	}
	return ticket, kind, words, nil
}
