package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"go.uber.org/goleak"

	"github.com/gth-server/gth-server/acp/internal/schema"
	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted plays the script that the first text of the prompt names.
type scripted struct{}

func (r *scripted) Close(context.Context) error { return nil }

// Resume runs calls that were allowed after their turn.
func (r *scripted) Resume(ctx context.Context, t *session.Turn, approved []session.Settled) error {
	return sessiontest.RunSettled(func(string) string { return "removed later" })(ctx, t, approved)
}

func (r *scripted) Run(ctx context.Context, t *session.Turn) (session.StopReason, error) {
	p := t.Prompt().Blocks
	play := scripts[p[0].Text]
	if play == nil {
		return session.StopFailed, fmt.Errorf("no script %q", p[0].Text)
	}
	return play(ctx, t)
}

type script = func(context.Context, *session.Turn) (session.StopReason, error)

var scripts = map[string]script{
	"hello": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		t.Show(session.ReasoningDelta{Message: "r1", Text: "hmm "})
		t.Show(session.TextDelta{Message: "m1", Text: "Hello "})
		t.Show(session.TextDelta{Message: "m1", Text: "<world>"})
		return session.StopEndTurn, t.Append(ctx,
			session.Reasoning{Message: "r1", Text: "hmm yes"}, session.Text{Message: "m1", Text: "Hello <world> & all"})
	},
	"echo": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		b, err := json.Marshal(t.Prompt().Blocks)
		if err != nil {
			return "", err
		}
		return session.StopEndTurn, t.Append(ctx, session.Text{Message: "m1", Text: string(b)})
	},
	"write": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		old := "old\n"
		return session.StopEndTurn, t.Append(ctx,
			session.CallAnnounced{
				Call:  approvals.Call{ID: "c1", Tool: "write_file", Arguments: json.RawMessage(`{"path":"a.txt"}`)},
				Title: "Write a.txt", Kind: session.KindEdit, Locations: []session.Location{{Path: "/w/a.txt", Line: 3}},
			},
			session.CallExecuting{CallID: "c1"},
			session.CallEnded{CallID: "c1", State: session.CallCompleted, Result: "written", Diffs: []session.Diff{
				{Path: "/w/a.txt", New: "new\n"}, {Path: "/w/b.txt", Old: &old, New: "new\n"},
			}},
		)
	},
	"shell": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		return session.StopEndTurn, runAsked(ctx, t, shellRequest("c1"))
	},
	"once": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		r := shellRequest("c1")
		r.AllowSession, r.AllowWorkspace = nil, nil
		r.Outcome, r.Reason = approvals.Catastrophic, "it ends `the` world\n# now"
		return session.StopEndTurn, runAsked(ctx, t, r)
	},
	"unannounced": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		_, err := t.Ask(ctx, []approvals.Request{shellRequest("c9")})
		return session.StopEndTurn, err
	},
	"attack": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		r := shellRequest("c1")
		r.Typed, r.AllowSession, r.AllowWorkspace, r.RejectSession = true, nil, nil, nil
		if err := t.Append(ctx, announced(r)); err != nil {
			return "", err
		}
		s, err := t.Ask(ctx, []approvals.Request{r})
		if err != nil {
			return "", err
		}
		if s[0].Decision.Action != approvals.Halt {
			return "", fmt.Errorf("an attack became %v", s[0].Decision.Action)
		}
		return session.StopRefusal, t.Append(ctx, session.CallEnded{CallID: "c1", State: session.CallRefused, Result: "halted"})
	},
	"wait": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		t.Show(session.TextDelta{Message: "m1", Text: "waiting"})
		<-ctx.Done()
		return session.StopCancelled, nil
	},
	"slow end": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		<-ctx.Done()
		time.Sleep(100 * time.Millisecond)
		return session.StopCancelled, nil
	},
	"late error": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		<-ctx.Done()
		return "", fmt.Errorf("the stream broke: %w", ctx.Err())
	},
	"rung": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		return session.StopEndTurn, t.Append(ctx, session.Text{Message: "m1", Text: t.Rung().String()})
	},
	"titled": func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		c := announced(shellRequest("c7"))
		c.Title = "Remove the build"
		if err := t.Append(ctx, c); err != nil {
			return "", err
		}
		_, err := t.Ask(ctx, []approvals.Request{shellRequest("c7")})
		return session.StopEndTurn, err
	},
	"tokens": func(context.Context, *session.Turn) (session.StopReason, error) { return session.StopMaxTokens, nil },
	"steps":  func(context.Context, *session.Turn) (session.StopReason, error) { return session.StopMaxSteps, nil },
	"fail": func(context.Context, *session.Turn) (session.StopReason, error) {
		return "", &session.TurnError{Kind: session.KindModel, Err: fmt.Errorf("the model is unreachable"), Hint: "check baseUrl"}
	},
	"key": func(context.Context, *session.Turn) (session.StopReason, error) {
		return "", &session.TurnError{Kind: session.KindAuth, Err: fmt.Errorf("OPENAI_API_KEY is not set"), Hint: "set it and start again"}
	},
	"panic": func(context.Context, *session.Turn) (session.StopReason, error) { panic("boom") },
}

func shellRequest(call string) approvals.Request {
	offer := func(e approvals.Entry) *approvals.Offer {
		return &approvals.Offer{Entry: e, Preview: e.Preview(), Summary: e.Summary()}
	}
	e := approvals.Entry{Type: "shell", Matcher: "exact", Pattern: "rm -rf build"}
	return approvals.Request{
		CallID: call, Tool: "run_shell_command", Arguments: json.RawMessage(`{"command":"rm -rf build"}`), Digest: "d",
		Subject: approvals.Subject{Kind: approvals.SubjectShell, Command: "rm -rf build"},
		Stage:   approvals.StageUnratedRung, Why: "No rule covers this command.", Notes: []string{"It writes build."},
		AllowSession: offer(e), AllowWorkspace: offer(e), RejectSession: offer(e),
	}
}

func announced(r approvals.Request) session.CallAnnounced {
	return session.CallAnnounced{
		Call:  approvals.Call{ID: r.CallID, Tool: r.Tool, Arguments: r.Arguments},
		Title: r.Subject.Command, Kind: session.KindExecute,
	}
}

// runAsked announces a call, asks, and tells in the result what became of it.
func runAsked(ctx context.Context, t *session.Turn, r approvals.Request) error {
	if err := t.Append(ctx, announced(r)); err != nil {
		return err
	}
	s, err := t.Ask(ctx, []approvals.Request{r})
	if err != nil {
		return t.Append(context.WithoutCancel(ctx), session.CallEnded{CallID: r.CallID, State: session.CallCancelled, Result: "cancelled"})
	}
	if s[0].Decision.Action != approvals.Approve {
		return t.Append(ctx, session.CallEnded{CallID: r.CallID, State: session.CallRefused, Result: "refused: " + s[0].Answer.Choice.String()})
	}
	if err := t.Append(ctx, session.CallExecuting{CallID: r.CallID}); err != nil {
		return err
	}
	t.Show(session.CallOutput{CallID: r.CallID, Text: "removed\n"})
	zero := 0
	return t.Append(ctx, session.CallEnded{
		CallID: r.CallID, State: session.CallCompleted, Result: "removed\nall: " + s[0].Answer.Choice.String(), ExitCode: &zero,
	})
}

// server is a Server with its client's ends of the pipes.
type server struct {
	in      *io.PipeWriter
	out     *io.PipeReader
	check   *validator
	manager *session.Manager
	served  chan error
	cancel  context.CancelCauseFunc
}

func start(newRunner session.NewRunner) *server {
	return startOn(session.NewMemory(), newRunner, approvals.Bypass)
}

// startOn starts a server on a store that outlives it.
func startOn(store session.Store, newRunner session.NewRunner, ceiling approvals.Rung) *server {
	if newRunner == nil {
		newRunner = func(context.Context, session.Spec) (session.Runner, error) { return &scripted{}, nil }
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &server{in: inW, out: outR, served: make(chan error, 1), cancel: cancel}
	s.check = &validator{out: outW}
	s.manager = session.NewManager(context.WithoutCancel(ctx), session.Options{Store: store, NewRunner: newRunner})
	srv := New(Options{Manager: s.manager, Name: "gth-server", Title: "Gth", Version: "0.0.1", Ceiling: ceiling})
	go func() {
		err := srv.Serve(ctx, io.TeeReader(inR, &s.check.sent), s.check)
		outW.Close()
		s.served <- err
	}()
	return s
}

func (s *server) send(line string) { fmt.Fprintln(s.in, line) }

// end closes the input and returns what Serve returned.
func (s *server) end(t testing.TB) error {
	t.Helper()
	s.in.Close()
	go func() { _, _ = io.Copy(io.Discard, s.out) }()
	err := <-s.served
	if cerr := s.manager.Close(context.Background()); cerr != nil {
		t.Errorf("manager: %v", cerr)
	}
	s.cancel(nil)
	for _, e := range s.check.problems() {
		t.Error(e)
	}
	return err
}

// validator passes writes on and holds each against the schema.
type validator struct {
	out   io.Writer
	sent  methodTap
	mu    sync.Mutex
	errs  []string
	count int
}

// methodTap remembers the methods of the client's requests.
type methodTap struct {
	mu      sync.Mutex
	rest    []byte
	methods map[string]string
}

func (m *methodTap) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rest = append(m.rest, b...)
	for {
		line, rest, ok := bytes.Cut(m.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		m.rest = rest
		var msg struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(line, &msg) == nil && msg.Method != "" && msg.ID != nil {
			if m.methods == nil {
				m.methods = map[string]string{}
			}
			m.methods[string(msg.ID)] = msg.Method
		}
	}
}

func (m *methodTap) of(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.methods[id]
}

func (v *validator) Write(b []byte) (int, error) {
	if err := v.validate(b); err != nil {
		v.mu.Lock()
		v.errs = append(v.errs, fmt.Sprintf("%v in %s", err, b))
		v.mu.Unlock()
	}
	return v.out.Write(b)
}

func (v *validator) problems() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.errs
}

var results = map[string]string{
	"initialize": "InitializeResponse", "session/new": "NewSessionResponse",
	"session/prompt": "PromptResponse", "session/close": "CloseSessionResponse",
	"session/list": "ListSessionsResponse", "session/load": "LoadSessionResponse", "session/resume": "ResumeSessionResponse",
	"session/delete": "DeleteSessionResponse", "session/set_mode": "SetSessionModeResponse",
	"session/set_config_option": "SetSessionConfigOptionResponse",
}

var calls = map[string]string{
	"session/update": "SessionNotification", "session/request_permission": "RequestPermissionRequest",
	"$/cancel_request": "CancelRequestNotification",
}

func (v *validator) validate(b []byte) error {
	if bytes.Count(b, []byte("\n")) != 1 || b[len(b)-1] != '\n' {
		return fmt.Errorf("not one line")
	}
	var msg struct {
		Version               string `json:"jsonrpc"`
		ID                    json.RawMessage
		Method                string
		Params, Result, Error json.RawMessage
	}
	if err := json.Unmarshal(b, &msg); err != nil {
		return err
	}
	v.mu.Lock()
	v.count++
	v.mu.Unlock()
	switch {
	case msg.Version != "2.0":
		return fmt.Errorf("version %q", msg.Version)
	case msg.Method != "":
		return fits(calls[msg.Method], msg.Params)
	case msg.Error != nil:
		return fits("Error", msg.Error)
	}
	if def := results[v.sent.of(string(msg.ID))]; def != "" {
		return fits(def, msg.Result)
	}
	return nil
}

var definition = sync.OnceValue(func() map[string]*jsonschema.Resolved {
	out := map[string]*jsonschema.Resolved{}
	names := []string{"Error"}
	for _, m := range []map[string]string{results, calls} {
		for _, n := range m {
			names = append(names, n)
		}
	}
	for _, n := range names {
		var root jsonschema.Schema
		if err := json.Unmarshal(schema.V1(), &root); err != nil {
			panic(err)
		}
		r, err := (&jsonschema.Schema{Schema: root.Schema, Ref: "#/$defs/" + n, Defs: root.Defs}).Resolve(nil)
		if err != nil {
			panic(err)
		}
		out[n] = r
	}
	return out
})

func fits(name string, raw json.RawMessage) error {
	r := definition()[name]
	if r == nil {
		return fmt.Errorf("nothing in the schema for it")
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	return r.Validate(v)
}

func TestFits(t *testing.T) {
	for _, bad := range []string{
		`{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c"}}`,
		`{"sessionId":"s","update":{"sessionUpdate":"nope"}}`,
		`{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}`,
		`{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","content":null}}`,
	} {
		if err := fits("SessionNotification", json.RawMessage(bad)); err == nil {
			t.Errorf("the schema took %s", strings.TrimSpace(bad))
		}
	}
}
