//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// item is a change of a session's state that its log holds: of a call
// (announced, executing, ended) or of the rung.
type item struct{ kind, id, state string }

// question is a permission request as the client got it.
type question struct {
	session, call, command string
	options                []string
	at                     time.Time
	choice                 string // what was answered, empty when nothing was sent
}

// view is what a client was told of one session.
type view struct {
	replayed []item // before session/load was answered
	live     []item
	text     string
	texts    []string // all text that had come when a prompt was answered
	asked    map[string]*question
	ready    time.Time // when the session was opened or loaded
	rung     string    // the last one that was acknowledged
	pending  string    // the one that was asked for and not acknowledged
}

// frame is a JSON-RPC message.
type frame struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// errGone is the answer to a request whose process was killed.
var errGone = errors.New("the process is gone")

// aim says when a process is killed: some time behind the nth occurrence of
// something that its client sees.
type aim struct {
	after string
	nth   int
	delay time.Duration
}

func (a aim) String() string { return fmt.Sprintf("%v behind %s %d", a.delay, a.after, a.nth) }

// peer is the real program with a client that keeps every line it said,
// also those that it had said when it was killed.
type peer struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	aim    aim
	answer func(*peer, *question) string // what the client answers, empty is nothing
	gone   chan struct{}                 // closed when the last line was read
	busy   sync.WaitGroup

	mu      sync.Mutex
	number  int
	waiting map[string]waiter
	views   map[string]*view
	counts  map[string]int
	killed  bool
	shots   *time.Timer
}

// launch starts the program.
func launch(w *world, a aim, answer func(*peer, *question) string) (*peer, error) {
	p := &peer{
		cmd: w.command("acp", "--model", "openai:fake", "--base-url", w.model), aim: a, answer: answer,
		gone: make(chan struct{}), waiting: map[string]waiter{}, views: map[string]*view{}, counts: map[string]int{},
	}
	log, err := os.OpenFile(w.stderr, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stderr = log
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(bufio.NewReader(out))
	p.saw("start")
	if a.after == "effect" {
		p.busy.Go(func() { p.watch(w.called) })
	}
	return p, p.call("initialize", map[string]any{"protocolVersion": 1}, nil)
}

// kill ends the process as a power cut would, for it.
func (p *peer) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	_ = p.cmd.Process.Kill()
}

func (p *peer) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// bury waits for the last line of a killed process.
func (p *peer) bury() {
	p.kill()
	<-p.gone
	p.busy.Wait()
	_ = p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shots != nil {
		p.shots.Stop()
	}
}

// quit ends the input and waits for the program.
func (p *peer) quit() error {
	_ = p.in.Close()
	<-p.gone
	p.busy.Wait()
	return p.cmd.Wait()
}

// saw counts what happened and kills when it is time.
func (p *peer) saw(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[what]++
	if p.shots == nil && p.aim.after == what && p.aim.nth <= p.counts[what] {
		p.shots = time.AfterFunc(p.aim.delay, p.kill)
	}
}

// killWithin kills at the latest after d: the scenario does not go on by
// itself any more.
func (p *peer) killWithin(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shots == nil {
		p.shots = time.AfterFunc(d, p.kill)
	}
}

// watch sees the effects of commands, which the program does not tell.
func (p *peer) watch(called string) {
	size := func() int64 {
		info, err := os.Stat(called)
		if err != nil {
			return 0 // nothing ran yet
		}
		return info.Size()
	}
	for was := size(); ; time.Sleep(time.Millisecond / 2) {
		select {
		case <-p.gone:
			return
		default:
		}
		if now := size(); now > was {
			was = now
			p.saw("effect")
		}
	}
}

func (p *peer) send(f map[string]any) error {
	f["jsonrpc"] = "2.0"
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.in.Write(append(b, '\n'))
	return err
}

// waiter gets an answer; then runs before anything behind it is read.
type waiter struct {
	answer chan frame
	then   func(result json.RawMessage)
}

// call sends a request; errGone when the process was killed before it
// answered. then, if any, is called with mu held, in the order of what the
// program said.
func (p *peer) call(method string, params any, then func(result json.RawMessage)) error {
	answer := make(chan frame, 1)
	p.mu.Lock()
	p.number++
	id := strconv.Itoa(p.number)
	p.waiting[id] = waiter{answer, then}
	p.mu.Unlock()
	if err := p.send(map[string]any{"id": json.RawMessage(id), "method": method, "params": params}); err != nil {
		return p.failure(fmt.Errorf("%s: %w", method, err))
	}
	var f frame
	select {
	case f = <-answer:
	case <-p.gone:
		select {
		case f = <-answer:
		default:
			return p.failure(fmt.Errorf("%s: the program ended before it answered", method))
		}
	case <-time.After(patience):
		return fmt.Errorf("%s was not answered in %v", method, patience)
	}
	if f.Error != nil {
		return fmt.Errorf("%s: %s", method, f.Error)
	}
	return nil
}

func (p *peer) failure(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return errGone
	}
	return err
}

// read takes whole lines until there are no more.
func (p *peer) read(r *bufio.Reader) {
	defer close(p.gone)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		var f frame
		if json.Unmarshal(line, &f) != nil {
			continue
		}
		p.saw("line")
		switch f.Method {
		case "":
			p.answered(f)
		case "session/update":
			p.update(f.Params)
		case "session/request_permission":
			p.permission(f)
		}
	}
}

func (p *peer) answered(f frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.waiting[string(f.ID)]
	if !ok {
		return
	}
	delete(p.waiting, string(f.ID))
	if w.then != nil && f.Error == nil {
		w.then(f.Result)
	}
	w.answer <- f
}

// view returns what is known of a session. The caller holds mu.
func (p *peer) view(session string) *view {
	v := p.views[session]
	if v == nil {
		v = &view{asked: map[string]*question{}}
		p.views[session] = v
	}
	return v
}

func (p *peer) update(params json.RawMessage) {
	var n struct {
		SessionID string
		Update    struct {
			SessionUpdate string
			ToolCallID    string
			Status        string
			CurrentModeID string
			RawOutput     struct{ State string }
			Content       json.RawMessage
		}
	}
	if json.Unmarshal(params, &n) != nil {
		return
	}
	u, is := n.Update, item{id: n.Update.ToolCallID}
	switch u.SessionUpdate {
	case "tool_call":
		is.kind, is.state = "announced", u.RawOutput.State
	case "tool_call_update":
		switch u.Status {
		case "in_progress":
			is.kind = "executing"
		case "completed", "failed":
			is.kind, is.state = "ended", u.RawOutput.State
		}
	case "current_mode_update":
		is = item{kind: "rung", state: u.CurrentModeID}
	case "agent_message_chunk":
		var c struct{ Text string }
		_ = json.Unmarshal(u.Content, &c)
		p.mu.Lock()
		if v := p.view(n.SessionID); !v.ready.IsZero() {
			v.text += c.Text
		}
		p.mu.Unlock()
		p.saw("text")
	}
	if is.kind == "" {
		return
	}
	p.mu.Lock()
	v := p.view(n.SessionID)
	if v.ready.IsZero() {
		v.replayed = append(v.replayed, is)
	} else {
		v.live = append(v.live, is)
	}
	p.mu.Unlock()
	p.saw(is.kind)
}

// permission keeps a question and has it answered.
func (p *peer) permission(f frame) {
	var r struct {
		SessionID string
		ToolCall  struct {
			ToolCallID string
			Title      string
		}
		Options []struct{ OptionID string }
	}
	if json.Unmarshal(f.Params, &r) != nil {
		return
	}
	q := &question{session: r.SessionID, call: r.ToolCall.ToolCallID, command: r.ToolCall.Title, at: time.Now()}
	for _, o := range r.Options {
		q.options = append(q.options, o.OptionID)
	}
	p.mu.Lock()
	p.view(r.SessionID).asked[q.call] = q
	p.mu.Unlock()
	p.saw("asked")
	p.busy.Go(func() {
		choice := p.answer(p, q)
		if choice == "" {
			return
		}
		p.with(q.session, func(*view) { q.choice = choice })
		_ = p.send(map[string]any{"id": f.ID, "result": map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": choice}}})
		p.saw("answering")
	})
}

// with runs f with the view of a session.
func (p *peer) with(session string, f func(*view)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.view(session))
}

// open makes a session in dir.
func (p *peer) open(dir string) (id string, err error) {
	err = p.call("session/new", map[string]any{"cwd": dir, "mcpServers": []any{}}, func(result json.RawMessage) {
		var res struct{ SessionID string }
		_ = json.Unmarshal(result, &res)
		id = res.SessionID
		v := p.view(id)
		v.ready, v.rung = time.Now(), "assisted"
	})
	p.saw("opened")
	return id, err
}

// load opens a stored session.
func (p *peer) load(id, dir string) error {
	err := p.call("session/load", map[string]any{"sessionId": id, "cwd": dir, "mcpServers": []any{}}, func(result json.RawMessage) {
		var res struct {
			Modes struct{ CurrentModeID string }
		}
		_ = json.Unmarshal(result, &res)
		v := p.view(id)
		v.ready, v.rung = time.Now(), res.Modes.CurrentModeID
	})
	p.saw("loaded")
	return err
}

// prompt plays one turn and returns its stop reason.
func (p *peer) prompt(id, text string) (stop string, err error) {
	params := map[string]any{"sessionId": id, "prompt": []any{map[string]any{"type": "text", "text": text}}}
	err = p.call("session/prompt", params, func(result json.RawMessage) {
		var res struct{ StopReason string }
		_ = json.Unmarshal(result, &res)
		stop = res.StopReason
		v := p.view(id)
		v.texts = append(v.texts, v.text)
	})
	p.saw("prompted")
	return stop, err
}

// setRung moves a session, in one of the two ways.
func (p *peer) setRung(id, rung string, option bool) error {
	method, params := "session/set_mode", map[string]any{"sessionId": id, "modeId": rung}
	if option {
		method, params = "session/set_config_option", map[string]any{"sessionId": id, "configId": "mode", "value": rung}
	}
	p.with(id, func(v *view) { v.pending = rung })
	err := p.call(method, params, func(json.RawMessage) {
		v := p.view(id)
		v.rung, v.pending = rung, ""
	})
	p.saw("moved")
	return err
}
