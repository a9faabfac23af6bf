package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarshal(t *testing.T) {
	cases := []struct {
		name string
		v    any
		want string
	}{
		{"required list is never null", RequestPermissionRequest{SessionID: "s", ToolCall: ToolCallUpdate{ToolCallID: "c"}}, `{"options":[],"sessionId":"s","toolCall":{"toolCallId":"c"}}`},
		{"absent list", ToolCall{ToolCallID: "c", Title: "t"}, `{"title":"t","toolCallId":"c"}`},
		{"empty list", ToolCall{ToolCallID: "c", Title: "t", Content: []ToolCallContent{}}, `{"content":[],"title":"t","toolCallId":"c"}`},
		{"explicit null", Diff{Path: "/a", OldText: Null[string](), NewText: "n"}, `{"newText":"n","oldText":null,"path":"/a"}`},
		{"absent", Diff{Path: "/a", NewText: "n"}, `{"newText":"n","path":"/a"}`},
		{"empty value", Diff{Path: "/a", OldText: Some("")}, `{"newText":"","oldText":"","path":"/a"}`},
		{"marker object", SessionCapabilities{Close: Some(SessionCloseCapabilities{})}, `{"close":{}}`},
		{"tagged", ContentBlock{Text: &TextContent{Text: "x"}}, `{"type":"text","text":"x"}`},
		{"tag alone", RequestPermissionOutcome{Cancelled: &Empty{}}, `{"outcome":"cancelled"}`},
		{"fallback has no tag", MCPServer{Stdio: &MCPServerStdio{Name: "n"}}, `{"args":[],"command":"","env":[],"name":"n"}`},
		{"two tags", ToolCallContent{Content: &Content{Content: ContentBlock{Text: &TextContent{Text: "x"}}}}, `{"type":"content","content":{"type":"text","text":"x"}}`},
		{"union with members", SessionConfigOption{Base: SessionConfigOptionBase{ID: "i", Name: "n"}, Boolean: &SessionConfigBoolean{CurrentValue: true}}, `{"type":"boolean","id":"i","name":"n","currentValue":true}`},
		{"defaults are written", PromptCapabilities{}, `{"audio":false,"embeddedContext":false,"image":false}`},
	}
	for _, c := range cases {
		b, err := json.Marshal(c.v)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if string(b) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, b, c.want)
		}
	}
	if _, err := json.Marshal(ContentBlock{}); err == nil {
		t.Error("a union without a variant was written")
	}
	t.Logf("%d values", len(cases))
}

func TestUnmarshalForgives(t *testing.T) {
	var r InitializeRequest
	in := `{"protocolVersion":1,"clientCapabilities":7,"clientInfo":"x","_meta":3,"more":[]}`
	if err := json.Unmarshal([]byte(in), &r); err != nil {
		t.Fatal(err)
	}
	if r.ProtocolVersion != 1 || !r.ClientInfo.IsZero() {
		t.Errorf("read %+v", r)
	}
	var n NewSessionRequest
	in = `{"cwd":"/x","mcpServers":[5,{"name":"a","command":"b","args":[],"env":[]},{"type":"http","name":"h","url":"u","headers":[]},{"type":"stdio","name":"s","command":"c","args":[],"env":[]}]}`
	if err := json.Unmarshal([]byte(in), &n); err != nil {
		t.Fatal(err)
	}
	if len(n.MCPServers) != 3 || n.MCPServers[0].Stdio == nil || n.MCPServers[1].HTTP == nil || n.MCPServers[2].Stdio == nil {
		t.Errorf("servers %+v", n.MCPServers)
	}
}

func TestUnmarshalErrors(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:           "cwd is missing",
		`{"cwd":5}`:    "cwd cannot be a JSON number",
		`[]`:           "must be an object",
		`null`:         "must be an object",
		`{"CWD":"/x"}`: "cwd is missing",
	} {
		var n NewSessionRequest
		if err := json.Unmarshal([]byte(in), &n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", in, err, want)
		}
	}
	var b ContentBlock
	if err := json.Unmarshal([]byte(`{"type":5}`), &b); err == nil {
		t.Error("a tag that is no string was read")
	}
	if err := json.Unmarshal([]byte(`{"type":"hologram"}`), &b); err != nil || b.Tag != "hologram" || b.Text != nil {
		t.Errorf("unknown variant: %+v, %v", b, err)
	}
}

func TestOpt(t *testing.T) {
	type s struct {
		A Opt[int] `json:"a,omitzero"`
	}
	for _, in := range []string{`{}`, `{"a":null}`, `{"a":0}`, `{"a":3}`} {
		var v s
		if err := json.Unmarshal([]byte(in), &v); err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(in, string(out)); d != "" {
			t.Errorf("round trip (-want +got):\n%s", d)
		}
	}
	var o Opt[int]
	if err := json.Unmarshal([]byte(`"x"`), &o); err == nil || !o.IsZero() {
		t.Errorf("misfit: %+v, %v", o, err)
	}
	if v, ok := Some(5).Get(); v != 5 || !ok {
		t.Error("Get")
	}
	if !Null[int]().IsNull() || Some(1).IsNull() {
		t.Error("IsNull")
	}
}
