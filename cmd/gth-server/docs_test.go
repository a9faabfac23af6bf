package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session/config"
)

// TestDocsExist: every page that a comment, a message or another page sends
// a reader to is there.
func TestDocsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	page := regexp.MustCompile(`\bdocs/[a-z-]+\.md\b`)
	link := regexp.MustCompile(`\]\(([a-z-]+\.md)(#[a-z-]*)?\)`)
	refs := 0
	check := func(from, name string) {
		refs++
		if _, err := os.Stat(filepath.Join(root, "docs", name)); err != nil {
			t.Errorf("%s sends readers to docs/%s, which is not there", from, name)
		}
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || strings.HasSuffix(name, "_test.go") || !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".md") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range page.FindAllString(string(text), -1) {
			check(path, strings.TrimPrefix(m, "docs/"))
		}
		if filepath.Base(filepath.Dir(path)) == "docs" {
			for _, m := range link.FindAllStringSubmatch(string(text), -1) {
				check(path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if refs < 20 {
		t.Errorf("only %d references found", refs)
	}
	t.Logf("checked %d references", refs)
}

// TestDocumentedCommands: every command line of the pages and of the help
// is one that the program takes.
func TestDocumentedCommands(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, page := range append(pages, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		texts[page] = string(text)
	}
	for _, c := range []kong.HelpProvider{acpCmd{}, runCmd{}, checkCmd{}, execCmd{}, demoCmd{}, cfgCmd{}} {
		texts[fmt.Sprintf("help of %T", c)] = c.Help()
	}
	example := regexp.MustCompile("(?m)^    (.*gth-server .*)$|`(gth-server [^`]*)`")
	n := 0
	for from, text := range texts {
		for _, m := range example.FindAllStringSubmatch(text, -1) {
			line := m[1] + strings.ReplaceAll(m[2], "\n", " ")
			for _, args := range ourCalls(t, line) {
				n++
				if err := parses(args); err != nil {
					t.Errorf("%s: %s: %v", from, line, err)
				}
			}
		}
	}
	if n < 25 {
		t.Errorf("only %d command lines found", n)
	}
	t.Logf("%d command lines", n)
}

// ourCalls returns the arguments of each call of gth-server in a command
// line.
func ourCalls(t *testing.T, line string) [][]string {
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		t.Errorf("%s: %v", line, err)
		return nil
	}
	var calls [][]string
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 && call.Args[0].Lit() == "gth-server" {
			args, err := expand.Fields(&expand.Config{Env: expand.FuncEnviron(func(name string) string { return name })}, call.Args[1:]...)
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
			calls = append(calls, args)
		}
		return true
	})
	return calls
}

// parses reads args without running anything.
func parses(args []string) (err error) {
	if slices.Contains(args, "--help") || slices.Equal(args, []string{"COMMAND"}) {
		return nil
	}
	var c cli
	parser, err := newParser(&c, stdio{out: io.Discard, err: io.Discard}, func(int) {})
	if err != nil {
		return err
	}
	_, err = parser.Parse(args)
	return err
}

// TestDocumentedConfiguration: every configuration in the README is valid.
func TestDocumentedConfiguration(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```jsonc\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	for _, b := range blocks {
		file := filepath.Join(t.TempDir(), "config.jsonc")
		if err := os.WriteFile(file, []byte(b[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		env := func(name string) string { return map[string]string{"HOME": t.TempDir()}[name] }
		cfg, err := config.Load(config.Overrides{File: file}, env, "run")
		if err != nil {
			t.Errorf("%v in\n%s", err, b[1])
			continue
		}
		if _, err := approvals.Compile(cfg.Rules()); err != nil {
			t.Errorf("%v in\n%s", err, b[1])
		}
	}
	if len(blocks) == 0 {
		t.Error("no configuration found")
	}
}
