package acp

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"
)

// sdkClient answers permission requests and keeps what it is told.
type sdkClient struct {
	choose  func(sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome
	mu      sync.Mutex
	texts   map[sdk.SessionId]string
	tools   []string // title or status, in order
	asked   []sdk.RequestPermissionRequest
	changed chan struct{}
}

var _ sdk.Client = (*sdkClient)(nil)

var errNotOffered = errors.New("not offered")

func (c *sdkClient) RequestPermission(_ context.Context, p sdk.RequestPermissionRequest) (sdk.RequestPermissionResponse, error) {
	c.mu.Lock()
	c.asked = append(c.asked, p)
	c.mu.Unlock()
	return sdk.RequestPermissionResponse{Outcome: c.choose(p)}, nil
}

func (c *sdkClient) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch u := n.Update; {
	case u.AgentMessageChunk != nil:
		c.texts[n.SessionId] += u.AgentMessageChunk.Content.Text.Text
	case u.UserMessageChunk != nil:
		c.tools = append(c.tools, "user "+u.UserMessageChunk.Content.Text.Text)
	case u.CurrentModeUpdate != nil:
		c.tools = append(c.tools, "mode "+string(u.CurrentModeUpdate.CurrentModeId))
	case u.ConfigOptionUpdate != nil:
		c.tools = append(c.tools, "options "+string(u.ConfigOptionUpdate.ConfigOptions[0].Select.CurrentValue))
	case u.ToolCall != nil:
		c.tools = append(c.tools, u.ToolCall.Title)
	case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
		c.tools = append(c.tools, string(*u.ToolCallUpdate.Status))
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return nil
}

// await waits until the client saw exactly this: it hands updates on in
// goroutines of its own, which the answer of a request may overtake.
func (c *sdkClient) await(ctx context.Context, t *testing.T, want []string) {
	t.Helper()
	for {
		c.mu.Lock()
		got := slices.Clone(c.tools)
		c.mu.Unlock()
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
			t.Fatalf("the client saw %q, want %q", got, want)
		}
	}
}

func (*sdkClient) WriteTextFile(context.Context, sdk.WriteTextFileRequest) (r sdk.WriteTextFileResponse, err error) {
	return r, errNotOffered
}

func (*sdkClient) ReadTextFile(context.Context, sdk.ReadTextFileRequest) (r sdk.ReadTextFileResponse, err error) {
	return r, errNotOffered
}

func (*sdkClient) CreateTerminal(context.Context, sdk.CreateTerminalRequest) (r sdk.CreateTerminalResponse, err error) {
	return r, errNotOffered
}

func (*sdkClient) KillTerminal(context.Context, sdk.KillTerminalRequest) (r sdk.KillTerminalResponse, err error) {
	return r, errNotOffered
}

func (*sdkClient) ReleaseTerminal(context.Context, sdk.ReleaseTerminalRequest) (r sdk.ReleaseTerminalResponse, err error) {
	return r, errNotOffered
}

func (*sdkClient) TerminalOutput(context.Context, sdk.TerminalOutputRequest) (r sdk.TerminalOutputResponse, err error) {
	return r, errNotOffered
}

func (*sdkClient) WaitForTerminalExit(context.Context, sdk.WaitForTerminalExitRequest) (r sdk.WaitForTerminalExitResponse, err error) {
	return r, errNotOffered
}

func pick(id sdk.PermissionOptionId) func(sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
	return func(sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		return sdk.NewRequestPermissionOutcomeSelected(id)
	}
}

// connectSDK starts a server with coder's SDK as its client.
func connectSDK(t *testing.T) (*sdkClient, *sdk.ClientSideConnection, context.Context) {
	t.Helper()
	s := start(nil)
	c := &sdkClient{choose: pick("allow-once"), texts: map[sdk.SessionId]string{}, changed: make(chan struct{}, 1)}
	conn := sdk.NewClientSideConnection(c, s.in, s.out)
	conn.SetLogger(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(func() {
		cancel()
		s.in.Close()
		if err := <-s.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		<-conn.Done()
		if err := s.manager.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for _, e := range s.check.problems() {
			t.Error(e)
		}
	})
	res, err := conn.Initialize(ctx, sdk.InitializeRequest{ProtocolVersion: sdk.ProtocolVersionNumber})
	if err != nil {
		t.Fatal(err)
	}
	if res.ProtocolVersion != 1 || res.AgentInfo == nil || res.AgentInfo.Name != "gth-server" {
		t.Fatalf("initialize: %+v", res)
	}
	return c, conn, ctx
}

func sdkSession(ctx context.Context, t *testing.T, conn *sdk.ClientSideConnection) sdk.SessionId {
	t.Helper()
	res, err := conn.NewSession(ctx, sdk.NewSessionRequest{Cwd: t.TempDir(), McpServers: []sdk.McpServer{}})
	if err != nil {
		t.Fatal(err)
	}
	return res.SessionId
}

func sdkPrompt(id sdk.SessionId, text string) sdk.PromptRequest {
	return sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock(text)}}
}

func TestSDKPermission(t *testing.T) {
	for _, c := range []struct {
		choice sdk.PermissionOptionId
		want   []string
	}{
		{"allow-once", []string{"rm -rf build", "in_progress", "completed"}},
		{"allow-session", []string{"rm -rf build", "in_progress", "completed"}},
		{"reject-once", []string{"rm -rf build", "failed"}},
		{"reject-session", []string{"rm -rf build", "failed"}},
	} {
		t.Run(string(c.choice), func(t *testing.T) {
			client, conn, ctx := connectSDK(t)
			client.choose = pick(c.choice)
			id := sdkSession(ctx, t, conn)
			res, err := conn.Prompt(ctx, sdkPrompt(id, "shell"))
			if err != nil || res.StopReason != sdk.StopReasonEndTurn {
				t.Fatalf("prompt: %+v, %v", res, err)
			}
			client.mu.Lock()
			defer client.mu.Unlock()
			if !slices.Equal(client.tools, c.want) {
				t.Errorf("the client saw %q, want %q", client.tools, c.want)
			}
			if len(client.asked) != 1 || *client.asked[0].ToolCall.Title != "rm -rf build" {
				t.Errorf("asked %+v", client.asked)
			}
		})
	}
}

func TestSDKCancel(t *testing.T) {
	client, conn, ctx := connectSDK(t)
	id := sdkSession(ctx, t, conn)
	go func() {
		<-client.changed // the turn has begun
		if err := conn.Cancel(ctx, sdk.CancelNotification{SessionId: id}); err != nil {
			t.Error(err)
		}
	}()
	res, err := conn.Prompt(ctx, sdkPrompt(id, "wait"))
	if err != nil || res.StopReason != sdk.StopReasonCancelled {
		t.Errorf("prompt: %+v, %v", res, err)
	}
	if res, err = conn.Prompt(ctx, sdkPrompt(id, "hello")); err != nil || res.StopReason != sdk.StopReasonEndTurn {
		t.Errorf("the prompt behind it: %+v, %v", res, err)
	}
}

func TestSDKTwoSessions(t *testing.T) {
	client, conn, ctx := connectSDK(t)
	ids := []sdk.SessionId{sdkSession(ctx, t, conn), sdkSession(ctx, t, conn)}
	var wg sync.WaitGroup
	const rounds = 20
	for _, id := range ids {
		wg.Go(func() {
			for range rounds {
				if res, err := conn.Prompt(ctx, sdkPrompt(id, "hello")); err != nil || res.StopReason != sdk.StopReasonEndTurn {
					t.Errorf("prompt: %+v, %v", res, err)
				}
			}
		})
	}
	wg.Wait()
	client.mu.Lock()
	for _, id := range ids {
		if got, want := len(client.texts[id]), rounds*len("Hello <world> & all"); got != want {
			t.Errorf("session %s said %d bytes, want %d", id, got, want)
		}
	}
	client.mu.Unlock()
	if _, err := conn.CloseSession(ctx, sdk.CloseSessionRequest{SessionId: ids[0]}); err != nil {
		t.Error(err)
	}
	var re *sdk.RequestError
	if _, err := conn.Prompt(ctx, sdkPrompt(ids[0], "hello")); !errors.As(err, &re) || re.Code != -32002 {
		t.Errorf("prompt on a closed session: %v", err)
	}
}

// TestSDKStored walks a session through everything that is kept of it.
func TestSDKStored(t *testing.T) {
	client, conn, ctx := connectSDK(t)
	cwd := t.TempDir()
	made, err := conn.NewSession(ctx, sdk.NewSessionRequest{Cwd: cwd, McpServers: []sdk.McpServer{}})
	if err != nil || made.Modes == nil || len(made.Modes.AvailableModes) != 5 || len(made.ConfigOptions) != 1 {
		t.Fatalf("session/new: %+v, %v", made, err)
	}
	id := made.SessionId
	for _, text := range []string{"hello", "shell"} {
		if _, err := conn.Prompt(ctx, sdkPrompt(id, text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.SetSessionMode(ctx, sdk.SetSessionModeRequest{SessionId: id, ModeId: "auto"}); err != nil {
		t.Error(err)
	}
	set, err := conn.SetSessionConfigOption(ctx, sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{SessionId: id, ConfigId: "mode", Value: "write"}})
	if err != nil || len(set.ConfigOptions) != 1 || set.ConfigOptions[0].Select.CurrentValue != "write" {
		t.Errorf("set_config_option: %+v, %v", set, err)
	}
	client.await(ctx, t, []string{"rm -rf build", "in_progress", "completed", "mode auto", "options auto", "mode write", "options write"})
	client.mu.Lock()
	client.tools, client.texts = nil, map[sdk.SessionId]string{}
	client.mu.Unlock()

	if _, err := conn.CloseSession(ctx, sdk.CloseSessionRequest{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	list, err := conn.ListSessions(ctx, sdk.ListSessionsRequest{Cwd: &cwd})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionId != id || list.Sessions[0].Title == nil || *list.Sessions[0].Title != "hello" {
		t.Errorf("session/list: %+v, %v", list, err)
	}
	loaded, err := conn.LoadSession(ctx, sdk.LoadSessionRequest{SessionId: id, Cwd: cwd, McpServers: []sdk.McpServer{}})
	if err != nil || loaded.Modes == nil || loaded.Modes.CurrentModeId != "write" {
		t.Errorf("session/load: %+v, %v", loaded, err)
	}
	client.await(ctx, t, []string{"user hello", "user shell", "rm -rf build"})
	client.mu.Lock()
	if client.texts[id] != "Hello <world> & all" {
		t.Errorf("the client was told %q", client.texts[id])
	}
	client.mu.Unlock()
	if res, err := conn.ResumeSession(ctx, sdk.ResumeSessionRequest{SessionId: id, Cwd: cwd}); err != nil || len(res.ConfigOptions) != 1 {
		t.Errorf("session/resume: %+v, %v", res, err)
	}
	var re *sdk.RequestError
	if _, err := conn.LoadSession(ctx, sdk.LoadSessionRequest{SessionId: "nobody", Cwd: cwd, McpServers: []sdk.McpServer{}}); !errors.As(err, &re) || re.Code != -32002 {
		t.Errorf("loading an unknown session: %v", err)
	}
}
