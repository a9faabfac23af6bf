package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gth-server/gth-server"

// layer is one room of the house: what it may import of ours and what it
// must never see of others', each ban with its reason. Test files are
// exempt: they may stand on both sides of a seam.
type layer struct {
	ours   []string          // top-level packages of ours it may import
	banned map[string]string // import path prefix: reason
	only   []string          // when set, third-party imports are limited to these
}

const (
	pure     = "the decision is a function of its arguments"
	protocol = "protocols live at the edges"
	engine   = "models are the runner's and rater's business"
	store    = "only persistence knows the database"
	otelSDK  = "only telemetry touches the SDK; others get a tracer"
	process  = "processes are started by the runner's tools"
	network  = "this layer does not speak HTTP"
	flags    = "the command line is cmd's business"
)

func layers() map[string]layer {
	return map[string]layer{
		"approvals": {
			banned: map[string]string{
				"os": pure, "os/exec": pure, "io/fs": pure, "net/http": pure, "net": pure, "context": pure,
				"log": pure, "log/slog": pure, "math/rand": pure, "math/rand/v2": pure, "crypto/rand": pure,
				"go.opentelemetry.io": pure, "github.com/google/uuid": pure,
			},
			only: []string{"mvdan.cc/sh/v3/syntax", "mvdan.cc/sh/v3/expand", "github.com/bmatcuk/doublestar/v4", "golang.org/x/net/idna", "golang.org/x/text"},
		},
		"session": {
			ours: []string{"approvals"},
			banned: map[string]string{
				"github.com/cloudwego": engine, "github.com/dgraph-io": store, "github.com/gorilla": protocol,
				"github.com/sourcegraph": protocol, "net/http": network, "os/exec": process, "go.opentelemetry.io/otel/sdk": otelSDK,
			},
		},
		"rater": {
			ours:   []string{"approvals"},
			banned: map[string]string{"github.com/dgraph-io": store, "github.com/gorilla": protocol, "os/exec": process, "go.opentelemetry.io/otel/sdk": otelSDK},
		},
		"runner": {
			ours: []string{"session", "approvals"},
			banned: map[string]string{
				"github.com/cloudwego/eino/adk": "the loop is our own", "github.com/cloudwego/eino/compose": "the loop is our own", "github.com/cloudwego/eino/flow": "the loop is our own",
				"github.com/dgraph-io": store, "github.com/gorilla": protocol, "github.com/sourcegraph": protocol, "go.opentelemetry.io/otel/sdk": otelSDK,
			},
		},
		"persistence": {
			ours:   []string{"session", "approvals"},
			banned: map[string]string{"github.com/cloudwego": engine, "github.com/sourcegraph": protocol, "net/http": network, "os/exec": process, "go.opentelemetry.io/otel/sdk": otelSDK},
		},
		"acp": {
			ours:   []string{"session", "approvals"},
			banned: map[string]string{"github.com/cloudwego": engine, "github.com/dgraph-io": store, "os/exec": process, "go.opentelemetry.io/otel/sdk": otelSDK, "github.com/coder": "an independent client for tests"},
		},
		"agui": {
			ours:   []string{"session", "approvals"},
			banned: map[string]string{"github.com/cloudwego": engine, "github.com/dgraph-io": store, "os/exec": process, "github.com/sourcegraph": protocol, "go.opentelemetry.io/otel/sdk": otelSDK},
		},
		"telemetry": {
			banned: map[string]string{"github.com/cloudwego": engine, "github.com/dgraph-io": store, "os/exec": process},
		},
		"cmd": {
			ours:   []string{"acp", "agui", "session", "runner", "rater", "approvals", "persistence", "telemetry"},
			banned: map[string]string{"go.opentelemetry.io/otel/sdk": otelSDK, "github.com/dgraph-io": store, "github.com/sourcegraph": protocol, "mvdan.cc/sh": "shell text is judged and printed by approvals"},
		},
	}
}

// extra narrows single packages below the top level.
func extra() map[string]map[string]string {
	return map[string]map[string]string{
		"runner":               {"os/exec": process},
		"runner/internal/gate": {"os/exec": process},
		"session":              {"github.com/tailscale/hujson": "session/config owns JSONC"},
	}
}

// TestLayering holds the import diagram of docs/architecture.md. It reads
// the files itself, so that no build cache can answer for it.
func TestLayering(t *testing.T) {
	root := filepath.Join("..", "..")
	rules := layers()
	seen := map[string]int{}
	imports := 0
	walkGo(t, root, func(rel string, file *ast.File) {
		if strings.HasSuffix(rel, "_test.go") {
			return
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		top, _, _ := strings.Cut(dir, "/")
		rule, ok := rules[top]
		if !ok {
			t.Errorf("%s: %q is no part of the layout: move it or add a layer for it", rel, top)
			return
		}
		seen[top]++
		for _, spec := range file.Imports {
			imports++
			path := strings.Trim(spec.Path.Value, `"`)
			if why := forbidden(rule, extra()[dir], top, path); why != "" {
				t.Errorf("%s imports %s: %s", rel, path, why)
			}
		}
	})
	for top := range rules {
		if seen[top] == 0 && !slices.Contains([]string{"agui", "rater", "persistence"}, top) {
			t.Errorf("layer %s has no file: the guard guards nothing there", top)
		}
	}
	if imports < 100 {
		t.Errorf("only %d imports were checked", imports)
	}
	t.Logf("checked %d imports in %d files", imports, sum(seen))
}

func forbidden(rule layer, extra map[string]string, top, path string) string {
	if rest, ours := strings.CutPrefix(path, module+"/"); ours {
		pkg, _, _ := strings.Cut(rest, "/")
		if pkg != top && !slices.Contains(rule.ours, pkg) {
			return top + " must not know " + pkg
		}
		return ""
	}
	for _, bans := range []map[string]string{rule.banned, extra} {
		for prefix, why := range bans {
			if path == prefix || strings.HasPrefix(path, prefix+"/") && strings.Contains(prefix, ".") {
				return why
			}
		}
	}
	if path == "github.com/alecthomas/kong" && top != "cmd" {
		return flags
	}
	if len(rule.only) > 0 && strings.Contains(path, ".") && !slices.ContainsFunc(rule.only, func(p string) bool {
		return path == p || strings.HasPrefix(path, p+"/")
	}) {
		return pure
	}
	return ""
}

// TestForbidden shows that the guard can fail.
func TestForbidden(t *testing.T) {
	tests := []struct {
		top, path string
		bad       bool
	}{
		{"approvals", "os", true},
		{"approvals", "strings", false},
		{"approvals", "github.com/google/uuid", true},
		{"approvals", "mvdan.cc/sh/v3/syntax", false},
		{"approvals", module + "/session", true},
		{"session", module + "/approvals", false},
		{"session", "github.com/cloudwego/eino/schema", true},
		{"acp", module + "/runner", true},
		{"acp", module + "/acp/internal/wire", false},
		{"runner", "github.com/alecthomas/kong", true},
		{"cmd", module + "/runner", false},
	}
	for _, tt := range tests {
		if got := forbidden(layers()[tt.top], nil, tt.top, tt.path) != ""; got != tt.bad {
			t.Errorf("%s importing %s: forbidden %v, want %v", tt.top, tt.path, got, tt.bad)
		}
	}
}

// TestHouseRules holds what every package must have and must not have.
func TestHouseRules(t *testing.T) {
	root := filepath.Join("..", "..")
	docs := map[string]bool{}
	files := 0
	walkGo(t, root, func(rel string, file *ast.File) {
		dir := filepath.ToSlash(filepath.Dir(rel))
		if strings.HasSuffix(rel, "_test.go") {
			return
		}
		files++
		docs[dir] = docs[dir] || file.Doc != nil
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: init runs behind its caller's back: make it explicit", rel)
			}
		}
	})
	for dir, has := range docs {
		if !has {
			t.Errorf("package %s has no package comment", dir)
		}
	}
	t.Logf("checked %d files in %d packages", files, len(docs))
}

func walkGo(t *testing.T, root string, visit func(rel string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(rel), file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func sum(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}
