package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gth-server/gth-server/acp/internal/schema"
)

func TestTreeIsClean(t *testing.T) {
	want, err := Generate(schema.V1(), schema.V1Meta(), roots)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", "wire", "zz_generated.go"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("internal/wire/zz_generated.go is stale: run go generate ./acp/... (-want +got):\n%s", d)
	}
	t.Logf("%d bytes compared", len(want))
}

func TestDeterministic(t *testing.T) {
	first := ""
	for range 5 {
		b, err := Generate(schema.V1(), schema.V1Meta(), roots)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(b)
		}
		if string(b) != first {
			t.Fatal("two runs differ")
		}
	}
}

func TestRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.go")
	if err := run(out); err != nil {
		t.Fatal(err)
	}
	if err := run(""); err == nil {
		t.Error("no error without an output file")
	}
}

func TestGenerateErrors(t *testing.T) {
	for name, c := range map[string]struct {
		schema, meta string
		roots        []string
		want         string
	}{
		"schema":       {`[`, `{}`, nil, "read schema"},
		"meta":         {`{}`, `[`, nil, "read method names"},
		"unknown root": {`{}`, `{}`, []string{"Nope"}, "no definition Nope"},
		"bad ref":      {`{"$defs":{"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/B"}}}}}`, `{}`, []string{"A"}, "no definition B"},
		"required and nullable": {
			`{"$defs":{"A":{"type":"object","required":["b"],"properties":{"b":{"type":["string","null"]}}}}}`, `{}`,
			[]string{"A"},
			"required and nullable",
		},
	} {
		_, err := Generate([]byte(c.schema), []byte(c.meta), c.roots)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestGoName(t *testing.T) {
	for in, want := range map[string]string{
		"sessionId": "SessionID", "agent_message_chunk": "AgentMessageChunk", "McpServerHttp": "MCPServerHTTP",
		"_meta": "Meta", "Parse error": "ParseError", "fs_read_text_file": "FSReadTextFile", "uri": "URI",
	} {
		if got := goName(in); got != want {
			t.Errorf("goName(%q) = %q, want %q", in, got, want)
		}
	}
}
