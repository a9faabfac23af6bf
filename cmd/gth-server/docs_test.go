package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
