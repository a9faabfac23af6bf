package fsys

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// place is a temporary workspace with a neighbour that must never be touched.
type place struct {
	t       *testing.T
	fs      *FS
	dir     string // the workspace
	outside string // a sibling whose name begins with the workspace's
	secret  string // a file in outside
}

const secretText = "outside: nobody may read this\n"

func newPlace(t *testing.T) *place {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, dir: filepath.Join(base, "work"), outside: filepath.Join(base, "work-other")}
	p.secret = filepath.Join(p.outside, "secret.txt")
	p.mkdir(p.dir)
	p.mkdir(p.outside)
	p.write(p.secret, secretText)
	p.open(Options{Roots: []string{p.dir}})
	t.Cleanup(func() {
		got, err := os.ReadFile(p.secret)
		if err != nil || string(got) != secretText {
			t.Errorf("the file outside was changed: %q, %v", got, err)
		}
		entries, err := os.ReadDir(p.outside)
		if err != nil || len(entries) != 1 {
			t.Errorf("the directory outside was changed: %v, %v", entries, err)
		}
	})
	return p
}

func (p *place) open(o Options) {
	p.t.Helper()
	f, err := Open(o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = f.Close() })
	p.fs = f
}

func (p *place) mkdir(dir string) {
	p.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) write(path, text string) {
	p.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.dir, path)
	}
	p.mkdir(filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) link(target, name string) {
	p.t.Helper()
	if err := os.Symlink(target, filepath.Join(p.dir, name)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) content(name string) string {
	p.t.Helper()
	got, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(got)
}

func (p *place) read(path string) (string, error) {
	res, err := p.fs.ReadFile(context.Background(), ReadArgs{Path: path})
	return res.Text, err
}

// wantErr checks a whole error text; WS stands for the workspace.
func (p *place) wantErr(err error, want string) {
	p.t.Helper()
	want = strings.ReplaceAll(want, "WS", p.dir)
	if err == nil || err.Error() != want {
		p.t.Errorf("error\n got %v\nwant %s", err, want)
	}
}

const outsideTail = " outside the workspace (WS): file tools work inside it only; use a path in it or ask the user to add the directory"

func TestPathsThatReach(t *testing.T) {
	p := newPlace(t)
	p.write("a.txt", "A")
	p.write("dir/b.txt", "B")
	p.write("~/c.txt", "C")
	p.write("$HOME", "D")
	p.write("src/%2e%2e/e.txt", "E")
	p.write("größe/日本語.txt", "F")
	p.write(" led", "G")
	p.write("\"half", "H")
	p.link("dir", "alias")
	p.link(filepath.Join(p.dir, "dir"), "absolute")
	p.link("../../a.txt", "dir/up") // leaves the workspace
	p.link("../a.txt", "dir/back")
	p.link("../work/dir/../a.txt", "round") // leaves and comes back
	for _, tc := range []struct{ path, want string }{
		{"a.txt", "A"},
		{"  a.txt \n", "A"},
		{`"a.txt"`, "A"},
		{"'a.txt'", "A"},
		{"./dir/../a.txt", "A"},
		{p.dir + "/a.txt", "A"},
		{p.dir + "/../work/a.txt", "A"},
		{"dir/b.txt", "B"},
		{"dir//b.txt", "B"},
		{"alias/b.txt", "B"},
		{"absolute/b.txt", "B"},
		{"dir/back", "A"},
		{"round", "A"},
		{"~/c.txt", "C"},
		{"$HOME", "D"},
		{"src/%2e%2e/e.txt", "E"},
		{"größe/日本語.txt", "F"},
		{"' led'", "G"},
		{`"half`, "H"},
	} {
		got, err := p.read(tc.path)
		if err != nil || got != tc.want {
			t.Errorf("read %q: got %q, %v, want %q", tc.path, got, err, tc.want)
		}
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	p := newPlace(t)
	p.write("a.txt", "A")
	p.link("../work-other/secret.txt", "relative")
	p.link(p.secret, "absolute")
	p.link(p.outside, "door")
	p.link("loop", "loop")
	p.link(p.dir+"/../work-other/secret.txt", "prefixed")
	long := strings.Repeat("x", 300)
	for _, tc := range []struct{ path, want string }{
		{"", `the path is empty: name a file or directory; "." is the workspace`},
		{"''", `the path is empty: name a file or directory; "." is the workspace`},
		{"a\x00.png", `the path "a\x00.png" has a control character: give a plain path`},
		{"a\x1b[2Jb", `the path "a\x1b[2Jb" has a control character: give a plain path`},
		{"a\u0085b", `the path "a\u0085b" has a control character: give a plain path`},
		{"a\xff", "the path is not valid UTF-8: give the name as text"},
		{"file:///etc/passwd", `"file:///etc/passwd" is a URL: give a plain path`},
		{strings.Repeat("y/", 3000), "the path is 6000 bytes long and may have 4096: give a shorter one"},
		{"d/" + long, fmt.Sprintf("%s does not exist: look for it with list_directory", "d/"+long)},
		{long, fmt.Sprintf("\"%s\"… has a name that is too long for the file system: use a shorter one", (p.dir + "/" + long)[:300])},
		{"/etc/passwd", `"/etc/passwd" is` + outsideTail},
		{"../work-other/secret.txt", fmt.Sprintf("%q is", p.secret) + outsideTail},
		{p.secret, fmt.Sprintf("%q is", p.secret) + outsideTail},
		{"a/../../x", fmt.Sprintf("%q is", filepath.Join(filepath.Dir(p.dir), "x")) + outsideTail},
		{"relative", `"WS/relative" leads through a symbolic link to a place` + outsideTail},
		{"absolute", `"WS/absolute" leads through a symbolic link to a place` + outsideTail},
		{"prefixed", `"WS/prefixed" leads through a symbolic link to a place` + outsideTail},
		{"door/secret.txt", `"WS/door/secret.txt" leads through a symbolic link to a place` + outsideTail},
		{"door/new/file", `"WS/door/new/file" leads through a symbolic link to a place` + outsideTail},
		{"loop", "loop leads through too many symbolic links: use the path they stand for"},
		{"~/secret.txt", "~/secret.txt does not exist: look for it with list_directory"},
		{"a.txt/b", "a.txt/b does not exist: a part of the path is a file and not a directory"},
		{"a.txt/", "a.txt is a file and not a directory: leave out the slash at the end"},
		{"nope.txt", "nope.txt does not exist: look for it with list_directory"},
		{".", ". is a directory: name a file in it, list_directory shows them"},
	} {
		t.Run(quote(tc.path), func(t *testing.T) {
			p := &place{t: t, fs: p.fs, dir: p.dir}
			_, err := p.read(tc.path)
			p.wantErr(err, tc.want)
		})
	}
	for _, path := range []string{"relative", "absolute", "door/secret.txt", "door/new", p.secret, "../x", "prefixed"} {
		if _, err := p.fs.WriteFile(context.Background(), WriteArgs{Path: path, Content: "x"}); err == nil {
			t.Errorf("write %q was not refused", path)
		}
		if _, err := p.fs.EditFile(context.Background(), EditArgs{Path: path, Edits: []Edit{{OldText: "o", NewText: "x"}}}); err == nil {
			t.Errorf("edit %q was not refused", path)
		}
		if _, err := p.fs.ListDirectory(context.Background(), ListArgs{Path: path}); err == nil {
			t.Errorf("list %q was not refused", path)
		}
	}
}

func TestSeveralRoots(t *testing.T) {
	p := newPlace(t)
	base := filepath.Dir(p.dir)
	second, spill := filepath.Join(base, "second"), filepath.Join(p.dir, "spill")
	p.mkdir(second)
	alias := filepath.Join(base, "alias")
	if err := os.Symlink(second, alias); err != nil {
		t.Fatal(err)
	}
	p.open(Options{Roots: []string{p.dir, alias}, ReadOnlyExtra: []string{spill}})
	p.write(filepath.Join(second, "s.txt"), "S")
	p.link(filepath.Join(second, "s.txt"), "across")
	p.link("spill/out.txt", "sly")
	for _, path := range []string{filepath.Join(second, "s.txt"), filepath.Join(alias, "s.txt"), "across"} {
		if got, err := p.read(path); err != nil || got != "S" {
			t.Errorf("read %s: %q, %v", path, got, err)
		}
	}
	if _, err := p.read("spill/out.txt"); err == nil {
		t.Error("a missing spill file was read")
	}
	p.write("spill/out.txt", "spilled") // made after Open
	for _, path := range []string{"spill/out.txt", filepath.Join(spill, "out.txt"), "sly"} {
		if got, err := p.read(path); err != nil || got != "spilled" {
			t.Errorf("read %s: %q, %v", path, got, err)
		}
		_, err := p.fs.WriteFile(context.Background(), WriteArgs{Path: path, Content: "x"})
		p.wantErr(err, "spill/out.txt is in a directory that can be read only: write inside the workspace")
	}
	res, err := p.fs.WriteFile(context.Background(), WriteArgs{Path: filepath.Join(alias, "new.txt"), Content: "n"})
	if err != nil || res.Diffs[0].Path != filepath.Join(alias, "new.txt") {
		t.Errorf("write in the second root: %+v, %v", res, err)
	}
}

func TestOpenNeedsDirectories(t *testing.T) {
	p := newPlace(t)
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{}, "file tools: no workspace root is given: name at least one directory"},
		{Options{Roots: []string{"rel"}}, `file tools: root "rel" is not absolute: give the full path`},
		{Options{Roots: []string{p.dir, p.dir + "/none"}}, `file tools: open root "WS/none": open WS/none: no such file or directory: it must be a directory that exists`},
		{Options{Roots: []string{p.secret}}, fmt.Sprintf("file tools: open root %q: open %s: not a directory: it must be a directory that exists", p.secret, p.secret)},
	} {
		_, err := Open(tc.o)
		p.wantErr(err, tc.want)
	}
	p.write("a.txt", "A")
	if err := p.fs.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.read("a.txt"); err == nil {
		t.Error("read after Close did not fail")
	}
}

func TestListDirectory(t *testing.T) {
	p := newPlace(t)
	p.write("b.txt", "")
	p.write("a/x", "")
	p.link("a", "l")
	p.write("evil\x1b]0;name", "")
	res, err := p.fs.ListDirectory(context.Background(), ListArgs{Path: "."})
	if want := "a/\nb.txt\n\"evil\\x1b]0;name\"\nl -> a"; err != nil || res.Text != want {
		t.Errorf("got %q, %v, want %q", res.Text, err, want)
	}
	if res, err := p.fs.ListDirectory(context.Background(), ListArgs{Path: "l"}); err != nil || res.Text != "x" {
		t.Errorf("through a link: %q, %v", res.Text, err)
	}
	p.mkdir(filepath.Join(p.dir, "empty"))
	if res, err := p.fs.ListDirectory(context.Background(), ListArgs{Path: "empty/"}); err != nil || res.Text != "[The directory is empty.]" {
		t.Errorf("empty: %q, %v", res.Text, err)
	}
	_, err = p.fs.ListDirectory(context.Background(), ListArgs{Path: "b.txt"})
	p.wantErr(err, "b.txt is not a directory: read_file shows a file")
	for i := range 2100 {
		p.write(fmt.Sprintf("many/%04d", i), "")
	}
	res, err = p.fs.ListDirectory(context.Background(), ListArgs{Path: "many"})
	if err != nil || !strings.HasSuffix(res.Text, "1999\n\n[100 more entries are not shown. List a directory below this one.]") {
		t.Errorf("many: …%q, %v", res.Text[max(0, len(res.Text)-100):], err)
	}
}
