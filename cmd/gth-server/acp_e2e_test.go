package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/gth-server/gth-server/runner/runnertest"
)

// patience bounds a step of these tests; it is no measure of speed.
const patience = 30 * time.Second

// editor is an independent ACP client that drives the real program.
type editor struct {
	sdk.Client // the methods that are never announced stay nil
	t          *testing.T
	conn       *sdk.ClientSideConnection
	cmd        *exec.Cmd
	in         io.WriteCloser
	stderr     *bytes.Buffer
	work       string
	called     string

	mu      sync.Mutex
	updates map[sdk.SessionId][]sdk.SessionUpdate
	asked   []sdk.RequestPermissionRequest
	answer  func(sdk.RequestPermissionRequest) string // option id, empty is cancelled
}

// newEditor starts the program with a fake model, and shakes hands.
func newEditor(t *testing.T, model *runnertest.Server, args ...string) *editor {
	t.Helper()
	return newEditorIn(t, t.TempDir(), model, args...)
}

// newEditorIn is newEditor in a directory that another one may have used.
func newEditorIn(t *testing.T, dir string, model *runnertest.Server, args ...string) *editor {
	t.Helper()
	e := &editor{
		t: t, work: filepath.Join(dir, "work"), called: filepath.Join(dir, "called"), stderr: &bytes.Buffer{},
		updates: map[sdk.SessionId][]sdk.SessionUpdate{},
		answer:  func(sdk.RequestPermissionRequest) string { return "reject-once" },
	}
	stand := filepath.Join(dir, "bin")
	if err := errors.Join(os.MkdirAll(e.work, 0o700), standIns(stand, e.called, "rm", "curl")); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"acp", "--model", "openai:fake", "--base-url", model.URL}, args...)
	e.cmd = exec.Command(program(t), args...)
	e.cmd.Dir = e.work
	e.cmd.Env = []string{"PATH=" + stand + ":" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir}
	e.cmd.Stderr = e.stderr
	in, err := e.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.in = in
	e.conn = sdk.NewClientSideConnection(e, in, out)
	e.conn.SetLogger(slog.New(slog.DiscardHandler))
	t.Cleanup(e.quit)
	res, err := e.conn.Initialize(e.ctx(), sdk.InitializeRequest{ProtocolVersion: sdk.ProtocolVersionNumber})
	if err != nil {
		t.Fatalf("initialize: %v\n%s", err, e.stderr)
	}
	if res.ProtocolVersion != 1 {
		t.Fatalf("protocol version %d, want 1", res.ProtocolVersion)
	}
	return e
}

func (e *editor) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	e.t.Cleanup(cancel)
	return ctx
}

// quit ends the input and expects the program to end. BenchmarkEndOfInput
// holds how soon.
func (e *editor) quit() {
	if e.cmd.ProcessState != nil {
		return
	}
	_ = e.in.Close()
	done := make(chan error, 1)
	begin := time.Now()
	go func() { done <- e.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			e.t.Errorf("the program ended with %v\n%s", err, e.stderr)
		}
		e.t.Logf("the program took %v to end", time.Since(begin).Round(time.Millisecond))
	case <-time.After(patience):
		_ = e.cmd.Process.Kill()
		e.t.Errorf("the program did not end with its input\n%s", e.stderr)
		<-done
	}
}

func (e *editor) open() sdk.SessionId {
	e.t.Helper()
	res, err := e.conn.NewSession(e.ctx(), sdk.NewSessionRequest{Cwd: e.work, McpServers: []sdk.McpServer{}})
	if err != nil {
		e.t.Fatalf("session/new: %v\n%s", err, e.stderr)
	}
	return res.SessionId
}

func (e *editor) prompt(id sdk.SessionId, replies ...runnertest.Reply) (sdk.PromptResponse, error) {
	text, err := json.Marshal(replies)
	if err != nil {
		e.t.Fatal(err)
	}
	return e.conn.Prompt(e.ctx(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock(string(text))}})
}

// SessionUpdate implements sdk.Client.
func (e *editor) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates[n.SessionId] = append(e.updates[n.SessionId], n.Update)
	return nil
}

// RequestPermission implements sdk.Client.
func (e *editor) RequestPermission(_ context.Context, r sdk.RequestPermissionRequest) (sdk.RequestPermissionResponse, error) {
	e.mu.Lock()
	e.asked = append(e.asked, r)
	answer := e.answer
	e.mu.Unlock()
	id := answer(r)
	if id == "" {
		return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeCancelled()}, nil
	}
	return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeSelected(sdk.PermissionOptionId(id))}, nil
}

// seen returns what the client was shown of a session: the text, and per
// call the titles and states in order.
func (e *editor) seen(id sdk.SessionId) (text string, calls []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, u := range e.updates[id] {
		switch {
		case u.AgentMessageChunk != nil && u.AgentMessageChunk.Content.Text != nil:
			text += u.AgentMessageChunk.Content.Text.Text
		case u.ToolCall != nil:
			calls = append(calls, fmt.Sprintf("%s %s", u.ToolCall.Title, u.ToolCall.Status))
		case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
			calls = append(calls, string(*u.ToolCallUpdate.Status))
		}
	}
	return text, calls
}

func (e *editor) noted() string {
	b, _ := os.ReadFile(e.called) // absent means never called
	return string(b)
}

func TestACPGatedTurn(t *testing.T) {
	model := runnertest.NewServer(t)
	e := newEditor(t, model)
	id := e.open()
	e.answer = func(sdk.RequestPermissionRequest) string { return "allow-once" }
	res, err := e.prompt(id, runnertest.Reply{Text: "first ", Calls: []runnertest.Call{runnertest.Shell("rm -rf build")}}, runnertest.Reply{Text: "done"})
	if err != nil || res.StopReason != sdk.StopReasonEndTurn {
		t.Fatalf("prompt: %v, %v\n%s", res.StopReason, err, e.stderr)
	}
	text, calls := e.seen(id)
	if text != "first done" {
		t.Errorf("text %q", text)
	}
	if len(calls) < 2 || !strings.HasPrefix(calls[0], "rm -rf build ") || calls[len(calls)-1] != "completed" {
		t.Errorf("calls %q", calls)
	}
	if got := e.noted(); got != "rm -rf build\n" {
		t.Errorf("the stand-in noted %q", got)
	}
	if len(e.asked) != 1 {
		t.Fatalf("%d permission requests, want 1", len(e.asked))
	}
	ask := e.asked[0]
	if ask.ToolCall.Title == nil || *ask.ToolCall.Title != "rm -rf build" {
		t.Errorf("the question does not repeat the title: %v", ask.ToolCall.Title)
	}
	var options []string
	for _, o := range ask.Options {
		options = append(options, string(o.OptionId)+" "+string(o.Kind))
	}
	want := []string{"allow-once allow_once", "allow-workspace allow_always", "allow-session allow_always", "reject-once reject_once", "reject-session reject_always"}
	if !slices.Equal(options, want) {
		t.Errorf("options %q, want %q", options, want)
	}
}

func TestACPRefusals(t *testing.T) {
	model := runnertest.NewServer(t)
	answers := map[string]string{"no": "reject-once", "cancelled": "", "never offered": "allow-everything"}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			e := newEditor(t, model)
			id := e.open()
			e.answer = func(sdk.RequestPermissionRequest) string { return answer }
			res, err := e.prompt(id, runnertest.Reply{Calls: []runnertest.Call{runnertest.Shell("rm -rf build")}}, runnertest.Reply{Text: "done"})
			if err != nil || res.StopReason != sdk.StopReasonEndTurn {
				t.Fatalf("prompt: %v, %v\n%s", res.StopReason, err, e.stderr)
			}
			if _, calls := e.seen(id); calls[len(calls)-1] != "failed" {
				t.Errorf("calls %q, want the last to be failed", calls)
			}
			if e.noted() != "" {
				t.Errorf("a refused command ran: %q", e.noted())
			}
		})
	}
}

// TestACPSticky: what was allowed for the session is not asked again there,
// and is asked in another session.
func TestACPSticky(t *testing.T) {
	model := runnertest.NewServer(t)
	e := newEditor(t, model)
	e.answer = func(sdk.RequestPermissionRequest) string { return "allow-session" }
	one, two := e.open(), e.open()
	replies := []runnertest.Reply{{Calls: []runnertest.Call{runnertest.Shell("rm -rf build")}}, {Text: "done"}}
	for i, id := range []sdk.SessionId{one, one, two} {
		if _, err := e.prompt(id, replies...); err != nil {
			t.Fatalf("prompt %d: %v", i, err)
		}
	}
	if len(e.asked) != 2 || e.asked[0].SessionId != one || e.asked[1].SessionId != two {
		t.Errorf("asked %d times, want once in each session", len(e.asked))
	}
	if got := strings.Count(e.noted(), "\n"); got != 3 {
		t.Errorf("the command ran %d times, want 3", got)
	}
}

func TestACPSessionsInParallel(t *testing.T) {
	model := runnertest.NewServer(t)
	e := newEditor(t, model)
	const n = 8
	var wg sync.WaitGroup
	for i := range n {
		id := e.open()
		wg.Add(1)
		go func() {
			defer wg.Done()
			want := fmt.Sprintf("answer %d", i)
			res, err := e.prompt(id, runnertest.Reply{Chunks: strings.SplitAfter(want, ""), Pace: 2})
			if err != nil || res.StopReason != sdk.StopReasonEndTurn {
				t.Errorf("session %d: %v, %v", i, res.StopReason, err)
			}
			if text, _ := e.seen(id); text != want {
				t.Errorf("session %d saw %q, want %q", i, text, want)
			}
		}()
	}
	wg.Wait()
	t.Logf("%d sessions", n)
}

// TestACPCancel cancels a turn in each of its states; it always ends
// cancelled, with every call in a terminal state, and the session goes on.
func TestACPCancel(t *testing.T) {
	model := runnertest.NewServer(t)
	turns := map[string][]runnertest.Reply{
		"before the first word": {{Delay: 20_000, Text: "late"}},
		"in the middle of text": {{Chunks: strings.Split(strings.Repeat("x ", 400), " "), Pace: 50}},
		"while a command runs":  {{Calls: []runnertest.Call{runnertest.Shell("while :; do sleep 0.1; done")}}},
		"while it is asked":     {{Calls: []runnertest.Call{runnertest.Shell("rm -rf asked")}}},
	}
	for name, replies := range turns {
		t.Run(name, func(t *testing.T) {
			rung := "assisted"
			if name == "while a command runs" {
				rung = "bypass"
			}
			e := newEditor(t, model, "--rung", rung)
			release := make(chan struct{})
			t.Cleanup(func() { close(release) })
			e.answer = func(sdk.RequestPermissionRequest) string { <-release; return "" }
			id := e.open()
			done := make(chan error, 1)
			go func() {
				res, err := e.prompt(id, replies...)
				if err == nil && res.StopReason != sdk.StopReasonCancelled {
					err = fmt.Errorf("stop reason %s, want cancelled", res.StopReason)
				}
				done <- err
			}()
			time.Sleep(300 * time.Millisecond) // lets the turn reach its state; any state must do
			if err := e.conn.Cancel(e.ctx(), sdk.CancelNotification{SessionId: id}); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("prompt: %v", err)
				}
			case <-time.After(patience):
				t.Fatal("the prompt was never answered")
			}
			if _, calls := e.seen(id); len(calls) > 0 && calls[len(calls)-1] != "failed" {
				t.Errorf("calls %q, want the last to be failed", calls)
			}
			res, err := e.prompt(id, runnertest.Reply{Text: "and on"})
			if err != nil || res.StopReason != sdk.StopReasonEndTurn {
				t.Errorf("the next prompt: %v, %v\n%s", res.StopReason, err, e.stderr)
			}
		})
	}
}

func TestACPBadInput(t *testing.T) {
	model := runnertest.NewServer(t)
	e := newEditor(t, model)
	codes := map[string]func() error{
		"-32602": func() error {
			_, err := e.conn.NewSession(e.ctx(), sdk.NewSessionRequest{Cwd: "relative", McpServers: []sdk.McpServer{}})
			return err
		},
		"-32602 ": func() error {
			_, err := e.conn.NewSession(e.ctx(), sdk.NewSessionRequest{Cwd: filepath.Join(e.work, "nowhere"), McpServers: []sdk.McpServer{}})
			return err
		},
		"-32002": func() error {
			_, err := e.prompt("11111111-1111-7111-8111-111111111111", runnertest.Reply{Text: "x"})
			return err
		},
		"-32601": func() error { _, err := e.conn.CallExtension(e.ctx(), "_nobody/knows", nil); return err },
	}
	for code, call := range codes {
		var rpc *sdk.RequestError
		if err := call(); !errors.As(err, &rpc) || fmt.Sprint(rpc.Code) != strings.TrimSpace(code) {
			t.Errorf("got %v, want code %s", err, code)
		}
	}
	// The model's mistakes reach the model, not the gate, and the turn goes on.
	id := e.open()
	res, err := e.prompt(id,
		runnertest.Reply{Calls: []runnertest.Call{{Tool: "run_shell_command", Raw: `{"command":`}, {Tool: "no_such_tool"}}},
		runnertest.Reply{Text: "sorry"})
	if err != nil || res.StopReason != sdk.StopReasonEndTurn || len(e.asked) > 0 {
		t.Errorf("malformed calls: %v, %v, %d questions", res.StopReason, err, len(e.asked))
	}
	// A cut stream never runs its call.
	_, err = e.prompt(id, runnertest.Reply{Text: "x", Calls: []runnertest.Call{runnertest.Shell("rm -rf cut")}, Cut: -1})
	if err == nil {
		t.Error("a stream without its end is no error")
	}
	if e.noted() != "" {
		t.Errorf("a call of a cut stream ran: %q", e.noted())
	}
	if text, _ := e.seen(id); !strings.Contains(text, "sorry") {
		t.Errorf("text %q", text)
	}
}

// TestACPLoudTool: 10 MiB of output stay bounded, and the answer arrives.
func TestACPLoudTool(t *testing.T) {
	model := runnertest.NewServer(t)
	e := newEditor(t, model, "--rung", "bypass")
	id := e.open()
	res, err := e.prompt(id, runnertest.Reply{Calls: []runnertest.Call{runnertest.Shell("head -c 10485760 /dev/zero | tr '\\0' x")}}, runnertest.Reply{Text: "done"})
	if err != nil || res.StopReason != sdk.StopReasonEndTurn {
		t.Fatalf("prompt: %v, %v\n%s", res.StopReason, err, e.stderr)
	}
	last := model.Last().Results()
	if len(last) != 1 || len(last[0]) > 200_000 || !strings.Contains(last[0], "10485760") {
		t.Errorf("the model read %d bytes", len(strings.Join(last, "")))
	}
}

// TestACPEndOfInput: the program and the children of its tools end when the
// input does.
func TestACPEndOfInput(t *testing.T) {
	model := runnertest.NewServer(t)
	e := newEditor(t, model, "--rung", "bypass")
	id := e.open()
	pidFile := filepath.Join(e.work, "pid")
	go func() { // the prompt is never answered
		_, _ = e.prompt(id, runnertest.Reply{Calls: []runnertest.Call{runnertest.Shell("sh -c 'echo $$ > pid; trap \"\" TERM; while :; do sleep 0.1; done'")}})
	}()
	var pid int
	for end := time.Now().Add(patience); pid == 0; time.Sleep(20 * time.Millisecond) {
		b, _ := os.ReadFile(pidFile)
		if _, err := fmt.Sscan(string(b), &pid); err != nil && time.Now().After(end) {
			t.Fatalf("the tool never started\n%s", e.stderr)
		}
	}
	e.quit()
	if running(pid) {
		t.Errorf("child %d of the tool is still there", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// running reports whether a process lives; one that nobody has waited for
// yet does not.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// TestACPRaw speaks to the program in bytes: whatever it is sent, it answers
// with JSON-RPC lines and lives on.
func TestACPRaw(t *testing.T) {
	cmd := exec.Command(program(t), "acp", "--model", "openai:x", "--base-url", "http://127.0.0.1:1/v1")
	dir := t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	exchange := []struct{ send, want string }{
		{`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":1},"type":"x"}`, `"id":"a",|"protocolVersion":1}`},
		{`{"jsonrpc":"2.0","id":-7,"method":"initialize","params":{"protocolVersion":65535}}`, `"id":-7,|"protocolVersion":1}`},
		{`{"broken`, `"id":null|"error":{"code":-32700`},
		{`[]`, `"error":{"code":-32600`},
		{`{"jsonrpc":"2.0"}`, `"error":{"code":-32600`},
		{`"text"`, `"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":1.5,"method":"initialize"}`, `"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":3,"method":"_nobody/knows"}`, `"id":3,|"error":{"code":-32601`},
		{`{"jsonrpc":"2.0","id":4,"method":"session/new","params":{"cwd":7}}`, `"id":4,|"error":{"code":-32602`},
		{`{"jsonrpc":"2.0","method":"_unknown/notification"}` + "\n" + `{"jsonrpc":"2.0","id":18446744073709551617,"method":"nope"}`, `"id":18446744073709551617,|"error":{"code":-32601`},
	}
	for _, x := range exchange {
		if _, err := io.WriteString(in, x.send+"\n"); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() {
			t.Fatalf("no answer to %s", x.send)
		}
		var any map[string]json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &any); err != nil || string(any["jsonrpc"]) != `"2.0"` {
			t.Errorf("%q is not JSON-RPC", lines.Text())
		}
		for _, part := range strings.Split(x.want, "|") {
			if !strings.Contains(lines.Text(), part) {
				t.Errorf("to %s\n got %s\nwant %s in it", x.send, lines.Text(), part)
			}
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("more than was asked for: %s", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d exchanges", len(exchange))
}
