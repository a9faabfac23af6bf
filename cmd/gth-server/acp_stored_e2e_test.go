package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/gth-server/gth-server/runner/runnertest"
)

// shape lists what a client was shown of a session, a line an update.
func (e *editor) shape(id sdk.SessionId) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, u := range e.updates[id] {
		switch {
		case u.UserMessageChunk != nil:
			out = append(out, "user")
		case u.AgentMessageChunk != nil:
			out = append(out, "agent "+u.AgentMessageChunk.Content.Text.Text)
		case u.ToolCall != nil:
			out = append(out, fmt.Sprintf("call %s %s", u.ToolCall.Title, u.ToolCall.Status))
		case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
			out = append(out, "update "+string(*u.ToolCallUpdate.Status))
		case u.CurrentModeUpdate != nil:
			out = append(out, "mode "+string(u.CurrentModeUpdate.CurrentModeId))
		case u.ConfigOptionUpdate != nil:
			out = append(out, "options")
		}
	}
	return out
}

// await polls until ok, because what it waits for comes by itself.
func (e *editor) await(what string, ok func() bool) {
	e.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			e.t.Fatalf("%s never happened\n%s", what, e.stderr)
		}
	}
}

// TestACPLoad: a session is listed, told again and goes on in another
// process, at the rung it had.
func TestACPLoad(t *testing.T) {
	model := runnertest.NewServer(t)
	dir := t.TempDir()
	first := newEditorIn(t, dir, model)
	id, empty := first.open(), first.open()
	first.answer = func(sdk.RequestPermissionRequest) string { return "allow-once" }
	if _, err := first.prompt(id, runnertest.Reply{Text: "first ", Calls: []runnertest.Call{runnertest.Shell("rm -rf build")}}, runnertest.Reply{Text: "done"}); err != nil {
		t.Fatal(err)
	}
	if _, err := first.conn.SetSessionMode(first.ctx(), sdk.SetSessionModeRequest{SessionId: id, ModeId: "write"}); err != nil {
		t.Fatal(err)
	}
	first.await("the mode's update", func() bool { return slices.Contains(first.shape(id), "mode write") })
	first.quit()

	second := newEditorIn(t, dir, model)
	list, err := second.conn.ListSessions(second.ctx(), sdk.ListSessionsRequest{Cwd: &second.work})
	if err != nil {
		t.Fatal(err)
	}
	found := map[sdk.SessionId]sdk.SessionInfo{}
	for _, s := range list.Sessions {
		found[s.SessionId] = s
	}
	if len(found) != 2 || found[id].Cwd != second.work || found[id].Title == nil || found[empty].Title != nil {
		t.Errorf("listed %+v, want both sessions, the one with a prompt with a title", list.Sessions)
	}
	res, err := second.conn.LoadSession(second.ctx(), sdk.LoadSessionRequest{SessionId: id, Cwd: second.work, McpServers: []sdk.McpServer{}})
	if err != nil {
		t.Fatalf("session/load: %v\n%s", err, second.stderr)
	}
	if res.Modes == nil || res.Modes.CurrentModeId != "write" || len(res.Modes.AvailableModes) != 5 {
		t.Errorf("modes %+v, want write of five", res.Modes)
	}
	want := []string{"user", "agent first ", "call rm -rf build completed", "agent done"}
	if got := second.shape(id); !slices.Equal(got, want) {
		t.Errorf("told again\n %q, want\n %q", got, want)
	}
	if out, err := second.prompt(id, runnertest.Reply{Text: "and on"}); err != nil || out.StopReason != sdk.StopReasonEndTurn {
		t.Errorf("the next prompt: %v, %v", out.StopReason, err)
	}
	if n := len(model.Last().Messages); n < 6 {
		t.Errorf("the model saw %d messages, want the whole history", n)
	}
	if strings.Count(second.noted(), "\n") != 1 {
		t.Errorf("the call of the first process ran again: %q", second.noted())
	}
	// The same session in two processes at once is refused, by the holder's pid.
	third := newEditorIn(t, dir, model)
	_, err = third.conn.LoadSession(third.ctx(), sdk.LoadSessionRequest{SessionId: id, Cwd: third.work, McpServers: []sdk.McpServer{}})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(second.cmd.Process.Pid)) {
		t.Errorf("loading a live session: %v, want an error that names process %d", err, second.cmd.Process.Pid)
	}
	var rpc *sdk.RequestError
	_, err = third.conn.LoadSession(third.ctx(), sdk.LoadSessionRequest{SessionId: "11111111-1111-7111-8111-111111111111", Cwd: third.work, McpServers: []sdk.McpServer{}})
	if !errors.As(err, &rpc) || rpc.Code != -32002 {
		t.Errorf("loading an unknown session: %v, want -32002", err)
	}
}

// TestACPResume: without replay, and only where the session's cwd is meant.
func TestACPResume(t *testing.T) {
	model := runnertest.NewServer(t)
	dir := t.TempDir()
	first := newEditorIn(t, dir, model)
	id := first.open()
	if _, err := first.prompt(id, runnertest.Reply{Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	first.quit()
	second := newEditorIn(t, dir, model)
	if _, err := second.conn.ResumeSession(second.ctx(), sdk.ResumeSessionRequest{SessionId: id, Cwd: dir}); err == nil {
		t.Error("a session was resumed with another cwd")
	}
	if _, err := second.conn.ResumeSession(second.ctx(), sdk.ResumeSessionRequest{SessionId: id, Cwd: second.work}); err != nil {
		t.Fatalf("session/resume: %v\n%s", err, second.stderr)
	}
	if got := second.shape(id); len(got) != 0 {
		t.Errorf("resume told %q", got)
	}
	if out, err := second.prompt(id, runnertest.Reply{Text: "and on"}); err != nil || out.StopReason != sdk.StopReasonEndTurn {
		t.Errorf("the next prompt: %v, %v", out.StopReason, err)
	}
}

// TestACPRung: mode and option mirror each other, and neither goes above
// the ceiling.
func TestACPRung(t *testing.T) {
	model := runnertest.NewServer(t)
	e := newEditor(t, model)
	id := e.open()
	option := func(value string) error {
		res, err := e.conn.SetSessionConfigOption(e.ctx(), sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{
			SessionId: id, ConfigId: "mode", Value: sdk.SessionConfigValueId(value),
		}})
		if err == nil && len(res.ConfigOptions) != 1 {
			t.Errorf("%d options in the answer, want the whole list of one", len(res.ConfigOptions))
		}
		return err
	}
	if err := option("bypass"); err != nil {
		t.Fatalf("set_config_option: %v", err)
	}
	e.await("both updates", func() bool {
		got := e.shape(id)
		return slices.Contains(got, "mode bypass") && slices.Contains(got, "options")
	})
	if _, err := e.prompt(id, runnertest.Reply{Calls: []runnertest.Call{runnertest.Shell("rm -rf build")}}, runnertest.Reply{Text: "done"}); err != nil {
		t.Fatal(err)
	}
	if len(e.asked) != 0 || e.noted() == "" {
		t.Errorf("at bypass %d questions, noted %q", len(e.asked), e.noted())
	}
	if err := option("loose"); err == nil {
		t.Error("an unknown rung was taken")
	}
	if _, err := e.conn.SetSessionMode(e.ctx(), sdk.SetSessionModeRequest{SessionId: id, ModeId: "loose"}); err == nil {
		t.Error("an unknown mode was taken")
	}
}

// TestACPPendingAsk: a question outlives the process that asked it, comes
// again by itself, and its call runs once outside any prompt.
func TestACPPendingAsk(t *testing.T) {
	model := runnertest.NewServer(t)
	dir := t.TempDir()
	first := newEditorIn(t, dir, model)
	id := first.open()
	block := make(chan struct{})
	first.answer = func(sdk.RequestPermissionRequest) string { <-block; return "" }
	go func() { // never answered
		_, _ = first.prompt(id, runnertest.Reply{Calls: []runnertest.Call{runnertest.Shell("rm -rf build")}})
	}()
	first.await("the question", func() bool { first.mu.Lock(); defer first.mu.Unlock(); return len(first.asked) == 1 })
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait()
	close(block)

	second := newEditorIn(t, dir, model)
	second.answer = func(sdk.RequestPermissionRequest) string { return "allow-once" }
	if _, err := second.conn.LoadSession(second.ctx(), sdk.LoadSessionRequest{SessionId: id, Cwd: second.work, McpServers: []sdk.McpServer{}}); err != nil {
		t.Fatalf("session/load: %v\n%s", err, second.stderr)
	}
	second.await("the call", func() bool { return slices.Contains(second.shape(id), "update completed") })
	if second.noted() != "rm -rf build\n" {
		t.Errorf("the stand-in noted %q, want one call", second.noted())
	}
	if len(second.asked) != 1 || second.asked[0].ToolCall.Title == nil || *second.asked[0].ToolCall.Title != "rm -rf build" {
		t.Errorf("asked again: %+v", second.asked)
	}
	if out, err := second.prompt(id, runnertest.Reply{Text: "and on"}); err != nil || out.StopReason != sdk.StopReasonEndTurn {
		t.Errorf("the next prompt: %v, %v", out.StopReason, err)
	}
}

// TestACPTwoProcesses: processes on one workspace list each other's
// sessions and share its grants at once, and a third one takes grants back.
func TestACPTwoProcesses(t *testing.T) {
	model := runnertest.NewServer(t)
	dir := t.TempDir()
	one, two := newEditorIn(t, dir, model), newEditorIn(t, dir, model)
	one.answer = func(sdk.RequestPermissionRequest) string { return "allow-workspace" }
	a, b := one.open(), two.open()
	for _, e := range []*editor{one, two} {
		list, err := e.conn.ListSessions(e.ctx(), sdk.ListSessionsRequest{})
		if err != nil || len(list.Sessions) != 2 {
			t.Errorf("listed %d sessions, %v, want both", len(list.Sessions), err)
		}
	}
	replies := []runnertest.Reply{{Calls: []runnertest.Call{runnertest.Shell("rm -rf build")}}, {Text: "done"}}
	play := func(e *editor, id sdk.SessionId) {
		t.Helper()
		if out, err := e.prompt(id, replies...); err != nil || out.StopReason != sdk.StopReasonEndTurn {
			t.Fatalf("prompt: %v, %v\n%s", out.StopReason, err, e.stderr)
		}
	}
	play(one, a)
	play(two, b)
	if len(one.asked) != 1 || len(two.asked) != 0 {
		t.Errorf("asked %d and %d times, want the grant to hold in both at once", len(one.asked), len(two.asked))
	}
	cli := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(program(t), args...)
		cmd.Env, cmd.Dir = two.cmd.Env, two.work
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return string(out)
	}
	var grants struct{ Grants []struct{ ID string } }
	if err := json.Unmarshal([]byte(cli("grants", "list", "--json")), &grants); err != nil || len(grants.Grants) != 1 {
		t.Fatalf("grants %+v, %v, want one", grants, err)
	}
	cli("grants", "revoke", grants.Grants[0].ID)
	play(two, b) // it refuses now, and says so
	if len(two.asked) != 1 {
		t.Errorf("asked %d times behind the revocation, want once", len(two.asked))
	}
	// The process that holds the store goes; the other one goes on.
	if err := one.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = one.cmd.Wait()
	if out, err := two.prompt(b, runnertest.Reply{Text: "still here"}); err != nil || out.StopReason != sdk.StopReasonEndTurn {
		t.Errorf("after the other process died: %v, %v\n%s", out.StopReason, err, two.stderr)
	}
	if _, err := two.conn.LoadSession(two.ctx(), sdk.LoadSessionRequest{SessionId: a, Cwd: two.work, McpServers: []sdk.McpServer{}}); err != nil {
		t.Errorf("loading the dead process's session: %v", err)
	}
}
