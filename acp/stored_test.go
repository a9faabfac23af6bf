package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// greet initializes.
func (p *peer) greet() {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}`)
	p.answerTo(`"i"`)
}

func (p *peer) ask(id, method, params string) {
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params))
}

// request sends a request and returns its answer and what came before it.
func (p *peer) request(id, method, params string) (answer wireMessage, before []wireMessage) {
	p.t.Helper()
	p.ask(id, method, params)
	return p.until(id)
}

func (p *peer) until(id string) (answer wireMessage, before []wireMessage) {
	p.t.Helper()
	for {
		m := p.recv()
		if m.Method == "" && string(m.ID) == fmt.Sprintf("%q", id) {
			return m, before
		}
		before = append(before, m)
	}
}

func reopening(sid, cwd string) string {
	return fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, sid, cwd)
}

// show names what the server sent: the kind of an update with what tells it
// apart, or the method.
func show(m wireMessage) string {
	if m.Method != "session/update" {
		return m.Method
	}
	var p struct {
		Update struct {
			SessionUpdate, Title, Status, ToolCallID string
			CurrentModeID                            string
			Content                                  json.RawMessage
		}
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return err.Error()
	}
	u := p.Update
	return strings.Join(strings.Fields(strings.Join([]string{u.SessionUpdate, u.Title, u.CurrentModeID, u.Status}, " ")), " ")
}

func shown(ms []wireMessage) []string {
	var out []string
	for _, m := range ms {
		out = append(out, show(m))
	}
	return out
}

func (p *peer) expect(want ...string) []wireMessage {
	p.t.Helper()
	var got []wireMessage
	for range want {
		got = append(got, p.recv())
	}
	if s := shown(got); !slices.Equal(s, want) {
		p.t.Fatalf("the server sent\n %q, want\n %q", s, want)
	}
	return got
}

func (p *peer) choose(m wireMessage, option string) {
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":%q}}}`, m.ID, option))
}

// leaveAsking makes a session whose question is with a client that goes.
func leaveAsking(t *testing.T, store session.Store, cwd string) string {
	p := peerOf(t, startOn(store, nil, approvals.Bypass))
	sid := p.open(cwd)
	p.prompt(1, sid, "titled")
	p.expect("session_info_update titled", "tool_call Remove the build pending", "session/request_permission")
	if err := p.end(t); err != nil {
		t.Fatal(err)
	}
	asks, err := store.OpenAsks(t.Context(), session.ID(sid))
	if err != nil || len(asks) != 1 {
		t.Fatalf("%d questions are open, %v: want the one of the client that went", len(asks), err)
	}
	return sid
}

// A question comes again behind the answer, and its call runs without a
// prompt.
func TestQuestionOutlivesClient(t *testing.T) {
	for method, before := range map[string][]string{
		"session/load":   {"user_message_chunk", "tool_call Remove the build pending", "session_info_update titled"},
		"session/resume": nil,
	} {
		for option, after := range map[string][]string{
			"allow-once":  {"tool_call_update in_progress", "tool_call_update completed"},
			"reject-once": {"tool_call_update failed"},
		} {
			cwd := t.TempDir()
			t.Run(method+" "+option, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := session.NewMemory()
					sid := leaveAsking(t, store, cwd)
					p := peerOf(t, startOn(store, nil, approvals.Bypass))
					p.greet()
					m, told := p.request("l", method, reopening(sid, cwd))
					if m.Error != nil || !slices.Equal(shown(told), before) {
						t.Fatalf("%+v behind %q, want %q", m.Error, shown(told), before)
					}
					began := time.Now()
					if before == nil {
						p.expect("tool_call Remove the build pending")
					}
					ask := p.expect("session/request_permission")[0]
					if took := time.Since(began); took > 2*time.Second {
						t.Errorf("asked after %v", took)
					}
					if !strings.Contains(string(ask.Params), `"title":"Remove the build"`) {
						t.Errorf("asked %s, want the title that was announced", ask.Params)
					}
					p.choose(ask, option)
					p.expect(after...)
					p.prompt(2, sid, "hello")
					if m := p.answerTo("2"); m.Result.StopReason != "end_turn" {
						t.Errorf("the next prompt: %+v", m)
					}
					if err := p.end(t); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// What ends a question that outlived its turn without an answer.
func TestQuestionIsDropped(t *testing.T) {
	for name, drop := range map[string]func(*peer, string){
		"by a prompt": func(p *peer, sid string) { p.prompt(2, sid, "hello") },
		"by a cancel": func(p *peer, sid string) { p.cancelTurn(sid) },
	} {
		cwd := t.TempDir()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := session.NewMemory()
				sid := leaveAsking(t, store, cwd)
				p := peerOf(t, startOn(store, nil, approvals.Bypass))
				p.greet()
				p.request("l", "session/resume", reopening(sid, cwd))
				p.expect("tool_call Remove the build pending", "session/request_permission")
				drop(p, sid)
				for want := map[string]bool{"$/cancel_request": true, "tool_call_update failed": true}; len(want) > 0; {
					delete(want, show(p.recv())) // a prompt's own updates may come between
				}
				asks, err := store.OpenAsks(t.Context(), session.ID(sid))
				if err != nil || len(asks) != 0 {
					t.Errorf("%d questions are open, %v", len(asks), err)
				}
				if err := p.end(t); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A client whose end of the stream breaks has not refused anything.
func TestBrokenClientDoesNotRefuse(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		p := peerOf(t, startOn(store, nil, approvals.Bypass))
		sid := p.open(cwd)
		p.prompt(1, sid, "titled")
		p.expect("session_info_update titled", "tool_call Remove the build pending")
		p.out.CloseWithError(io.ErrClosedPipe)
		if err := <-p.served; err == nil {
			t.Error("Serve returned no error for a client that reads no more")
		}
		p.served <- nil
		if err := p.end(t); err != nil {
			t.Error(err)
		}
		asks, err := store.OpenAsks(t.Context(), session.ID(sid))
		if err != nil || len(asks) != 1 {
			t.Errorf("%d questions are open, %v, want one", len(asks), err)
		}
	})
}

// A session that is open here begins anew, and its question with it; while
// a turn has it, it is not told again.
func TestOpenTwice(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		sid := leaveAsking(t, store, cwd)
		p := peerOf(t, startOn(store, nil, approvals.Bypass))
		p.greet()
		p.request("l", "session/load", reopening(sid, cwd))
		p.expect("session/request_permission")
		m, told := p.request("m", "session/load", reopening(sid, cwd))
		got := shown(told)
		slices.Sort(got) // the withdrawal has no fixed place
		if want := []string{"$/cancel_request", "session_info_update titled", "tool_call Remove the build pending", "user_message_chunk"}; m.Error != nil || !slices.Equal(got, want) {
			t.Fatalf("%+v behind %q, want %q", m.Error, got, want)
		}
		ask := p.expect("session/request_permission")[0]
		p.choose(ask, "allow-once")
		p.expect("tool_call_update in_progress", "tool_call_update completed")

		p.prompt(2, sid, "wait")
		p.expect("agent_message_chunk")
		if m, told := p.request("n", "session/load", reopening(sid, cwd)); m.Error == nil || m.Error.Code != -32603 || len(told) != 0 || !strings.Contains(m.Error.Data.Details, "cancel it") {
			t.Errorf("loading during a turn: %+v behind %q", m.Error, shown(told))
		}
		if m, told := p.request("r", "session/resume", reopening(sid, cwd)); m.Error != nil || len(told) != 0 {
			t.Errorf("resuming during a turn: %+v behind %q", m.Error, shown(told))
		}
		p.cancelTurn(sid)
		if m := p.answerTo("2"); m.Result.StopReason != "cancelled" {
			t.Errorf("the turn: %+v", m)
		}
		if err := p.end(t); err != nil {
			t.Error(err)
		}
	})
}

// Requests for one session take effect in their order, sent in one go.
func TestPipelined(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil)
		sid := p.open(cwd)
		const n = 50
		go func() {
			for i := range n {
				p.ask(fmt.Sprint("o", i), "session/set_config_option", fmt.Sprintf(`{"sessionId":%q,"configId":"mode","value":%q}`, sid, approvals.Rungs()[i%5]))
				p.prompt(i, sid, "rung")
				p.ask(fmt.Sprint("c", i), "session/close", fmt.Sprintf(`{"sessionId":%q}`, sid))
				p.ask(fmt.Sprint("l", i), "session/load", reopening(sid, cwd))
				p.ask(fmt.Sprint("s", i), "session/set_mode", fmt.Sprintf(`{"sessionId":%q,"modeId":"auto"}`, sid))
			}
		}()
		for i := range n {
			for _, id := range []string{"o", "c", "l", "s"} {
				if m, _ := p.until(fmt.Sprint(id, i)); m.Error != nil {
					t.Fatalf("%s%d: %+v", id, i, m.Error)
				}
			}
		}
		t.Logf("%d rounds", n)
		if err := p.end(t); err != nil {
			t.Error(err)
		}
	})
}

// A prompt runs at the rung that was asked for right before it.
func TestRungBeforePrompt(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil)
		sid := p.open(cwd)
		const n = 200
		for i := range n {
			rung := approvals.Rungs()[i%5].String()
			p.ask("o", "session/set_config_option", fmt.Sprintf(`{"sessionId":%q,"configId":"mode","value":%q}`, sid, rung))
			p.prompt(i, sid, "rung")
			said := ""
			for {
				m := p.recv()
				if string(m.Params) != "" && show(m) == "agent_message_chunk" {
					said = string(m.Params)
				}
				if m.Method == "" && string(m.ID) == fmt.Sprint(i) {
					break
				}
			}
			if !strings.Contains(said, `"text":"`+rung+`"`) {
				t.Fatalf("prompt %d ran at %s, want %s", i, said, rung)
			}
		}
		t.Logf("%d prompts", n)
		if err := p.end(t); err != nil {
			t.Error(err)
		}
	})
}

func TestCeiling(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		p := peerOf(t, startOn(store, nil, approvals.Bypass))
		sid := p.open(cwd)
		p.request("s", "session/set_mode", fmt.Sprintf(`{"sessionId":%q,"modeId":"bypass"}`, sid))
		if err := p.end(t); err != nil {
			t.Error(err)
		}
		p = peerOf(t, startOn(store, nil, approvals.Assisted))
		p.greet()
		m, _ := p.request("l", "session/load", reopening(sid, cwd))
		if m.Error != nil || m.Result.Modes.CurrentModeID != "assisted" || len(m.Result.Modes.AvailableModes) != 3 {
			t.Errorf("a session above the ceiling: %+v, %+v, want it at assisted, of three", m.Error, m.Result.Modes)
		}
		for _, rung := range []string{"auto", "bypass"} {
			m, told := p.request("s", "session/set_mode", fmt.Sprintf(`{"sessionId":%q,"modeId":%q}`, sid, rung))
			if m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, "ceiling assisted") || len(told) != 0 {
				t.Errorf("%s: %+v behind %q", rung, m.Error, shown(told))
			}
		}
		if m, told := p.request("s", "session/set_mode", fmt.Sprintf(`{"sessionId":%q,"modeId":"manual"}`, sid)); m.Error != nil || len(told) != 2 {
			t.Errorf("manual: %+v behind %q", m.Error, shown(told))
		}
		if err := p.end(t); err != nil {
			t.Error(err)
		}
	})
}

// A load that is refused leaves the session as it was.
func TestRefusedLoad(t *testing.T) {
	cwd := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := session.NewMemory()
		sid := leaveAsking(t, store, cwd)
		p := peerOf(t, startOn(store, nil, approvals.Bypass))
		p.greet()
		if m, told := p.request("l", "session/load", reopening(sid, "/elsewhere")); m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, cwd) || len(told) != 0 {
			t.Errorf("another cwd: %+v behind %q", m.Error, shown(told))
		}
		lease, err := store.Acquire(t.Context(), session.ID(sid))
		if err != nil {
			t.Fatalf("the session was left open: %v", err)
		}
		for _, method := range []string{"session/load", "session/resume", "session/delete"} {
			m, _ := p.request("l", method, reopening(sid, cwd))
			if m.Error == nil || m.Error.Code != -32603 || !strings.Contains(m.Error.Data.Details, "holds it") {
				t.Errorf("%s of a session that is held: %+v", method, m.Error)
			}
		}
		if err := store.Release(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		if m, _ := p.request("l", "session/load", reopening(sid, cwd)); m.Error != nil {
			t.Errorf("once it is free: %+v", m.Error)
		}
		p.expect("session/request_permission")
		if err := p.end(t); err != nil {
			t.Error(err)
		}
	})
}

func TestListPages(t *testing.T) {
	cwd, other := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, nil)
		p.greet()
		const n = 120
		want := map[string]bool{}
		for i := range n {
			dir := cwd
			if i%10 == 0 {
				dir = other
			}
			s, err := p.manager.Create(context.Background(), session.Spec{Cwd: dir, Surface: "test"})
			if err != nil {
				t.Fatal(err)
			}
			want[string(s.ID())] = dir == cwd
		}
		for _, filter := range []string{"", cwd} {
			seen, pages, cursor := map[string]bool{}, 0, ""
			for {
				params, err := json.Marshal(map[string]string{"cursor": cursor, "cwd": filter})
				if err != nil {
					t.Fatal(err)
				}
				m, _ := p.request("l", "session/list", string(params))
				if m.Error != nil {
					t.Fatal(m.Error)
				}
				pages++
				for _, s := range m.Result.Sessions {
					if seen[s.SessionID] || filter != "" && !want[s.SessionID] {
						t.Errorf("listed %+v", s)
					}
					if _, err := time.Parse(time.RFC3339, s.UpdatedAt); err != nil {
						t.Error(err)
					}
					seen[s.SessionID] = true
				}
				if cursor = m.Result.NextCursor; cursor == "" {
					break
				}
			}
			if all := map[string]int{"": n, cwd: n - n/10}[filter]; len(seen) != all || pages < 2 {
				t.Errorf("%d sessions on %d pages, want %d", len(seen), pages, all)
			}
		}
		if err := p.end(t); err != nil {
			t.Error(err)
		}
	})
}

// traced says which trace its turn belongs to.
type traced struct{ scripted }

func (*traced) Run(ctx context.Context, t *session.Turn) (session.StopReason, error) {
	sc := trace.SpanContextFromContext(ctx)
	return session.StopEndTurn, t.Append(ctx, session.Text{Message: "m1", Text: fmt.Sprintf("trace %s %v %s", sc.TraceID(), sc.IsRemote(), sc.TraceState())})
}

func TestTraceparent(t *testing.T) {
	cwd := t.TempDir()
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for meta, want := range map[string]string{
		`{"traceparent":"00-` + id + `-00f067aa0ba902b7-01"}`:                                    id + " true",
		`{"traceparent":"00-` + id + `-00f067aa0ba902b7-01","tracestate":"a=b"}`:                 id + " true a=b",
		`{"traceparent":"00-` + id + `-00f067aa0ba902b7-01","tracestate":7,"progressToken":"x"}`: id + " true",
		`{"traceparent":"00-` + strings.Repeat("0", 32) + `-00f067aa0ba902b7-01"}`:               "00000000000000000000000000000000 false",
		`{"traceparent":["x"]}`: "00000000000000000000000000000000 false",
		`"traceparent"`:         "00000000000000000000000000000000 false",
		`null`:                  "00000000000000000000000000000000 false",
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t, func(context.Context, session.Spec) (session.Runner, error) { return &traced{}, nil })
			sid := p.open(cwd)
			m, told := p.request("p", "session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":"x"}],"_meta":%s}`, sid, meta))
			if m.Error != nil || !strings.Contains(string(told[len(told)-1].Params), "trace "+want) {
				t.Errorf("%s: %+v, said %s, want %s", meta, m.Error, told[len(told)-1].Params, want)
			}
			if err := p.end(t); err != nil {
				t.Error(err)
			}
		})
	}
}
