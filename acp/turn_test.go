package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gth-server/gth-server/session"
)

// peer is a client that reads what it is told to.
type peer struct {
	*server
	t  *testing.T
	sc *bufio.Scanner
}

type wireMessage struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result struct {
		SessionID, StopReason string
		Modes                 struct {
			CurrentModeID  string
			AvailableModes []json.RawMessage
		}
		Sessions []struct {
			SessionID, Cwd, UpdatedAt string
		}
		NextCursor string
	}
	Error *struct {
		Code    int
		Message string
		Data    struct{ Details string }
	}
}

func newPeer(t *testing.T, nr session.NewRunner) *peer { return peerOf(t, start(nr)) }

func peerOf(t *testing.T, s *server) *peer {
	p := &peer{s, t, bufio.NewScanner(s.out)}
	t.Cleanup(func() {
		if t.Failed() { // let what is blocked end
			p.in.Close()
			p.out.Close()
		}
	})
	p.sc.Buffer(nil, 1<<20)
	return p
}

func (p *peer) recv() wireMessage {
	p.t.Helper()
	var m wireMessage
	if !p.sc.Scan() {
		p.t.Fatal("the server wrote nothing more")
	}
	if err := json.Unmarshal(p.sc.Bytes(), &m); err != nil {
		p.t.Fatal(err)
	}
	return m
}

// answerTo reads until the answer to id has come.
func (p *peer) answerTo(id string) wireMessage {
	p.t.Helper()
	for {
		if m := p.recv(); m.Method == "" && string(m.ID) == id {
			return m
		}
	}
}

func (p *peer) open(cwd string) string {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}`)
	p.answerTo(`"i"`)
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, cwd))
	m := p.answerTo(`"n"`)
	if m.Error != nil {
		p.t.Fatalf("session/new: %+v", m.Error)
	}
	return m.Result.SessionID
}

func (p *peer) prompt(id int, sid, text string) {
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}}`, id, sid, text))
}

func (p *peer) cancelTurn(sid string) {
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, sid))
}

func TestImmediateCancels(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil)
		sid := p.open(cwd)
		const n = 1000
		for i := range n {
			p.prompt(i, sid, "wait")
			p.cancelTurn(sid)
			if m := p.answerTo(fmt.Sprint(i)); m.Error != nil || m.Result.StopReason != "cancelled" {
				t.Fatalf("prompt %d: %+v", i, m)
			}
		}
		t.Logf("%d prompts, each cancelled at once", n)
		p.cancelTurn(sid) // without a turn
		p.prompt(n, sid, "hello")
		if m := p.answerTo(fmt.Sprint(n)); m.Result.StopReason != "end_turn" {
			t.Errorf("the prompt behind a stray cancel: %+v", m)
		}
		if err := p.end(t); err != nil {
			t.Error(err)
		}
	})
}

// All prompts and cancels are written before any answer is read.
func TestPipelinedCancels(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil)
		sid := p.open(cwd)
		const n = 200
		go func() {
			for i := range n {
				p.prompt(i, sid, "wait")
				p.cancelTurn(sid)
			}
		}()
		seen := map[string]int{}
		for len(seen) < n {
			m := p.recv()
			if m.Method != "" {
				continue
			}
			if seen[string(m.ID)]++; m.Result.StopReason != "cancelled" || seen[string(m.ID)] > 1 {
				t.Fatalf("answer %+v, number %d", m, seen[string(m.ID)])
			}
		}
		if err := p.end(t); err != nil {
			t.Error(err)
		}
	})
}

func TestPromptsQueue(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil)
		sid := p.open(cwd)
		p.prompt(1, sid, "late error")
		p.prompt(2, sid, "late error")
		p.prompt(3, sid, "late error")
		p.prompt(4, sid, "hello")
		want := map[string]string{"1": "cancelled", "2": "cancelled", "3": "cancelled", "4": "end_turn"}
		for len(want) > 0 {
			m := p.recv()
			if m.Method == "" {
				if m.Result.StopReason != want[string(m.ID)] {
					t.Errorf("answer %+v, want %s", m, want[string(m.ID)])
				}
				delete(want, string(m.ID))
			}
		}
		if err := p.end(t); err != nil {
			t.Error(err)
		}
	})
}

// stubborn ignores every cancel for a time.
type stubborn struct{ run, close time.Duration }

func (r stubborn) Run(context.Context, *session.Turn) (session.StopReason, error) {
	time.Sleep(r.run)
	return session.StopEndTurn, nil
}

func (r stubborn) Close(context.Context) error { time.Sleep(r.close); return nil }

func TestEndOfInput(t *testing.T) {
	cwd := t.TempDir()
	for _, c := range []struct {
		name   string
		runner session.Runner
		text   string
		asks   bool
	}{
		{name: "idle"},
		{name: "turn", text: "wait"},
		{name: "question", text: "shell", asks: true},
		{name: "turn that does not stop", runner: stubborn{run: time.Minute}, text: "x"},
		{name: "runner that does not close", runner: stubborn{close: 8 * time.Second}, text: "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeer(t, func(context.Context, session.Spec) (session.Runner, error) {
					if c.runner == nil {
						return &scripted{}, nil
					}
					return c.runner, nil
				})
				sid := p.open(cwd)
				if c.text != "" {
					p.prompt(1, sid, c.text)
				}
				if c.asks {
					for p.recv().Method != "session/request_permission" {
					}
				}
				go func() { _, _ = io.Copy(io.Discard, p.out) }()
				p.in.Close()
				began := time.Now()
				if err := <-p.served; err != nil {
					t.Errorf("Serve: %v", err)
				}
				if took := time.Since(began); took > 1800*time.Millisecond {
					t.Errorf("Serve returned after %v", took)
				}
				_ = p.manager.Close(context.Background())
			})
		})
	}
}

// A client that stops reading must not keep the process.
func TestBlockedClient(t *testing.T) {
	cwd := t.TempDir()
	p := newPeer(t, nil)
	sid := p.open(cwd)
	p.prompt(1, sid, "hello")
	p.prompt(2, sid, "wait")
	p.in.Close()
	began := time.Now()
	if err := <-p.served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if took := time.Since(began); took > 1900*time.Millisecond {
		t.Errorf("Serve returned after %v", took)
	}
	p.out.Close()
	if err := p.manager.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestServeEndsWithContext(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil)
		sid := p.open(cwd)
		p.prompt(1, sid, "wait")
		p.recv() // the turn runs
		cause := errors.New("terminated")
		p.cancel(cause)
		if m := p.answerTo("1"); m.Result.StopReason != "cancelled" {
			t.Errorf("answer %+v", m)
		}
		if err := <-p.served; !errors.Is(err, cause) {
			t.Errorf("Serve: %v", err)
		}
		p.served <- nil
		if err := p.end(t); err != nil {
			t.Error(err)
		}
	})
}

// What came before the end of input is still answered.
func TestPipedInput(t *testing.T) {
	cwd := t.TempDir()
	var out strings.Builder
	m := session.NewManager(context.Background(), session.Options{
		Store:     session.NewMemory(),
		NewRunner: func(context.Context, session.Spec) (session.Runner, error) { return &scripted{}, nil },
	})
	in := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":%q}}`, cwd)
	if err := New(Options{Manager: m, Name: "a", Version: "1"}).Serve(context.Background(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), `"sessionId"`) {
		t.Errorf("%d answers:\n%s", n, &out)
	}
	if err := m.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestRunnerCannotBeMade(t *testing.T) {
	cwd := t.TempDir()
	for _, c := range []struct {
		err  error
		code int
	}{
		{&session.TurnError{Kind: session.KindAuth, Err: errors.New("OPENAI_API_KEY is not set"), Hint: "set it"}, -32000},
		{&session.TurnError{Kind: session.KindInternal, Err: errors.New("broken"), Hint: "mend it"}, -32603},
		{errors.New("no rater"), -32603},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t, func(context.Context, session.Spec) (session.Runner, error) { return nil, c.err })
			p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":%q}}`, cwd))
			m := p.answerTo("2")
			if m.Error == nil || m.Error.Code != c.code || !strings.Contains(m.Error.Data.Details, c.err.Error()) {
				t.Errorf("%v: answer %+v", c.err, m.Error)
			}
			if err := p.end(t); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestManagerClosesFirst(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil)
		sid := p.open(cwd)
		p.prompt(1, sid, "wait")
		p.recv() // the turn runs
		if err := p.manager.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if m := p.answerTo("1"); m.Result.StopReason != "cancelled" {
			t.Errorf("answer %+v", m)
		}
		p.prompt(2, sid, "hello")
		if m := p.answerTo("2"); m.Error == nil && m.Result.StopReason != "cancelled" {
			t.Errorf("answer on a closed session %+v", m)
		}
		if err := p.end(t); err != nil {
			t.Error(err)
		}
	})
}
