package fsys

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type corpusRow struct {
	ID        string
	Class     string
	Tool      string
	Arguments map[string]any
	Expect    struct {
		Handling string
		Resolved *string `json:"resolved_path"`
		Inside   *bool   `json:"inside_workspace"`
	}
}

// The rows about boundaries, played in a copy of the layout that they
// describe. Control files inside the workspace are the gate's business: here
// they only have to resolve inside it.
func TestCorpusBoundaries(t *testing.T) {
	data, err := os.ReadFile("testdata/tools.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	ran, skipped := 0, 0
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row corpusRow
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if row.Class != "fs-boundary" {
			continue
		}
		path, _ := row.Arguments["path"].(string)
		if path == "" || (row.Tool != "read_file" && row.Tool != "write_file") {
			skipped++ // a tool that this package does not have
			continue
		}
		ran++
		t.Run(row.ID, func(t *testing.T) { row.play(t, path) })
	}
	t.Logf("%d boundary rows ran, %d are about other tools", ran, skipped)
	if ran < 8 {
		t.Errorf("only %d rows ran", ran)
	}
}

func (row corpusRow) play(t *testing.T, path string) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(base, "work/project")
	p := &place{t: t, dir: ws}
	for _, f := range []string{"home/dev/.bashrc", "home/dev/.ssh/id_rsa", "work/sibling/x", "work/project_evil/secret.txt", "etc/passwd", "work/project/src/a.ts"} {
		p.write(filepath.Join(base, f), secretText)
	}
	p.write("src/%2e%2e/%2e%2e/etc/passwd", "inside")
	p.mkdir(filepath.Join(ws, "vendor"))
	p.link(filepath.Join(base, "home/dev/.bashrc"), "link.txt")
	p.link(filepath.Join(base, "work"), "vendor/up")
	p.open(Options{Roots: []string{ws}})
	if strings.HasPrefix(path, "/") {
		path = base + path
	}

	var got error
	if row.Tool == "read_file" {
		_, got = p.read(path)
	} else {
		_, got = p.fs.WriteFile(context.Background(), WriteArgs{Path: path, Content: "x"})
	}
	inside := row.Expect.Inside != nil && *row.Expect.Inside
	switch {
	case inside && row.Expect.Handling == "allow" && got != nil:
		t.Errorf("%s %q: %v", row.Tool, path, got)
	case !inside && row.Expect.Resolved != nil && got == nil:
		t.Errorf("%s %q reached outside", row.Tool, path)
	}
	for _, f := range []string{"home/dev/.bashrc", "work/sibling/x"} {
		if text, err := os.ReadFile(filepath.Join(base, f)); err != nil || string(text) != secretText {
			t.Errorf("%s was changed: %q, %v", f, text, err)
		}
	}
}
