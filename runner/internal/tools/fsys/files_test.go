package fsys

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ptr(n int) *int { return &n }

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func trimmed(from, to int) string { return strings.TrimSuffix(numbered(from, to), "\n") }

func TestReadWindows(t *testing.T) {
	p := newPlace(t)
	p.write("f", numbered(1, 5000))
	p.write("open", "one\ntwo")
	p.write("crlf", "one\r\ntwo\r\n")
	p.write("empty", "")
	p.write("bom", "\ufeffone\n")
	p.write("onlybom", "\ufeff")
	p.write("latin", "caf\xe9\n")
	p.write("nul", strings.Repeat("x\n", probe)+"late \x00 nul\n")
	for _, tc := range []struct {
		name string
		a    ReadArgs
		want string
	}{
		{"default", ReadArgs{Path: "f"}, trimmed(1, 2000) + "\n\n[Lines 1 to 2000 of 5000. Read on with offset 2001.]"},
		{"middle", ReadArgs{Path: "f", Offset: ptr(10), Limit: ptr(2)}, trimmed(10, 11) + "\n\n[Lines 10 to 11 of 5000. Read on with offset 12.]"},
		{"to the end", ReadArgs{Path: "f", Offset: ptr(4999)}, trimmed(4999, 5000) + "\n\n[Lines 4999 to 5000, the end of the file.]"},
		{"exactly the end", ReadArgs{Path: "f", Offset: ptr(4999), Limit: ptr(2)}, trimmed(4999, 5000) + "\n\n[Lines 4999 to 5000, the end of the file.]"},
		{"limit over the bound", ReadArgs{Path: "f", Limit: ptr(1 << 40)}, trimmed(1, 2000) + "\n\n[Lines 1 to 2000 of 5000. Read on with offset 2001.]"},
		{"head", ReadArgs{Path: "f", Head: ptr(1)}, "line 1\n\n[Lines 1 to 1 of 5000. Read on with offset 2.]"},
		{"head of a short file", ReadArgs{Path: "open", Head: ptr(9)}, "one\ntwo"},
		{"tail", ReadArgs{Path: "f", Tail: ptr(2)}, trimmed(4999, 5000) + "\n\n[The last 2 lines; there are more before them.]"},
		{"tail of a short file", ReadArgs{Path: "open", Tail: ptr(9)}, "one\ntwo"},
		{"tail of all", ReadArgs{Path: "open", Tail: ptr(2)}, "one\ntwo"},
		{"line ends", ReadArgs{Path: "crlf"}, "one\ntwo"},
		{"line ends from the end", ReadArgs{Path: "crlf", Tail: ptr(5)}, "one\ntwo"},
		{"empty", ReadArgs{Path: "empty"}, "[The file is empty.]"},
		{"empty tail", ReadArgs{Path: "empty", Tail: ptr(1)}, "[The file is empty.]"},
		{"byte order mark", ReadArgs{Path: "bom"}, "one"},
		{"only a byte order mark", ReadArgs{Path: "onlybom"}, "[The file is empty.]"},
		{"not UTF-8", ReadArgs{Path: "latin"}, "caf\ufffd"},
		{"late NUL", ReadArgs{Path: "nul", Tail: ptr(1)}, "late \ufffd nul\n\n[The last 1 lines; there are more before them.]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, err := p.fs.ReadFile(context.Background(), tc.a)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, res.Text); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadRefusesArguments(t *testing.T) {
	p := newPlace(t)
	p.write("f", "a\nb\n")
	p.write("bin", "\x7fELF\x00\x01")
	p.write("utf16", "\xff\xfea\x00")
	const exclude = "offset and limit, head, and tail exclude each other: give only one of the three"
	for _, tc := range []struct {
		a    ReadArgs
		want string
	}{
		{ReadArgs{Path: "f", Head: ptr(1), Tail: ptr(1)}, exclude},
		{ReadArgs{Path: "f", Head: ptr(1), Limit: ptr(1)}, exclude},
		{ReadArgs{Path: "f", Tail: ptr(1), Offset: ptr(1)}, exclude},
		{ReadArgs{Path: "f", Offset: ptr(0)}, "offset is 0 and must be at least 1: lines are counted from 1"},
		{ReadArgs{Path: "f", Tail: ptr(-3)}, "tail is -3 and must be at least 1: lines are counted from 1"},
		{ReadArgs{Path: "f", Offset: ptr(3)}, "f has 2 lines: offset 3 is past its end"},
		{ReadArgs{Path: "bin"}, "bin is a binary file (6 bytes) and cannot be shown as text: use a program that understands it"},
		{ReadArgs{Path: "utf16", Tail: ptr(1)}, "utf16 is UTF-16 text (4 bytes) and cannot be shown as text: use a program that understands it"},
	} {
		_, err := p.fs.ReadFile(context.Background(), tc.a)
		p.wantErr(err, tc.want)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.fs.ReadFile(ctx, ReadArgs{Path: "f"}); err == nil {
		t.Error("a cancelled read gave a result")
	}
}

// The bounds hold for files of any shape.
func TestReadBounds(t *testing.T) {
	p := newPlace(t)
	p.write("wide", strings.Repeat(strings.Repeat("ü", 3000)+"\n", 40))
	p.write("one", strings.Repeat("z", 5<<20))
	p.write("huge", strings.Repeat("abc\n", 3<<20))
	for _, name := range []string{"wide", "one", "huge"} {
		for _, a := range []ReadArgs{{Path: name}, {Path: name, Tail: ptr(2000)}} {
			res, err := p.fs.ReadFile(context.Background(), a)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(res.Text); n > maxReadBytes+500 {
				t.Errorf("%s: %d bytes", name, n)
			}
			for line := range strings.Lines(res.Text) {
				if n := len([]rune(line)); n > maxLineChars+len(lineCut)+1 {
					t.Errorf("%s: a line of %d characters", name, n)
				}
			}
		}
	}
	if got, err := p.read("one"); err != nil || got != strings.Repeat("z", 2000)+" [line cut]\n\n[1 of these lines are longer than 2000 characters and were cut.]" {
		t.Errorf("one long line: …%q, %v", got[max(0, len(got)-100):], err)
	}
	if got, err := p.read("huge"); err != nil || !strings.HasSuffix(got, "[Lines 1 to 2000 of more. Read on with offset 2001.]") {
		t.Errorf("huge: …%q, %v", got[max(0, len(got)-100):], err)
	}
}

func TestWrite(t *testing.T) {
	p := newPlace(t)
	ctx := context.Background()
	res, err := p.fs.WriteFile(ctx, WriteArgs{Path: "new/deep/f.txt", Content: "one\n"})
	if err != nil || res.Text != "Created new/deep/f.txt with 4 bytes." || p.content("new/deep/f.txt") != "one\n" {
		t.Fatalf("create: %+v, %v", res, err)
	}
	if diff := cmp.Diff([]Diff{{Path: filepath.Join(p.dir, "new/deep/f.txt"), New: "one\n"}}, res.Diffs); diff != "" {
		t.Error(diff)
	}
	file := filepath.Join(p.dir, "new/deep/f.txt")
	if err := os.Chmod(file, 0o751); err != nil {
		t.Fatal(err)
	}
	res, err = p.fs.WriteFile(ctx, WriteArgs{Path: file, Content: "two\n"})
	if err != nil || res.Text != "Replaced the content of new/deep/f.txt with 4 bytes." || *res.Diffs[0].Old != "one\n" {
		t.Errorf("replace: %+v, %v", res, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode after replacing: %v, %v", info.Mode(), err)
	}
	res, err = p.fs.WriteFile(ctx, WriteArgs{Path: file, Content: "two\n"})
	if err != nil || res.Text != "new/deep/f.txt holds exactly this content already." || res.Diffs != nil {
		t.Errorf("same content: %+v, %v", res, err)
	}
	p.link("new/deep/f.txt", "link")
	p.link("new/later.txt", "dangling")
	for _, name := range []string{"link", "dangling"} {
		if _, err := p.fs.WriteFile(ctx, WriteArgs{Path: name, Content: "through"}); err != nil {
			t.Error(err)
		}
		if info, err := os.Lstat(filepath.Join(p.dir, name)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v", name, err)
		}
	}
	if p.content("new/deep/f.txt") != "through" || p.content("new/later.txt") != "through" {
		t.Error("a write through a link did not reach its target")
	}
	if err := os.Chmod(file, 0o444); err != nil {
		t.Fatal(err)
	}
	_, err = p.fs.WriteFile(ctx, WriteArgs{Path: file, Content: "x"})
	p.wantErr(err, "new/deep/f.txt is write-protected: ask the user before its permissions are changed")
	_, err = p.fs.WriteFile(ctx, WriteArgs{Path: "new", Content: "x"})
	p.wantErr(err, "new is a directory: name a file in it, list_directory shows them")
	_, err = p.fs.WriteFile(ctx, WriteArgs{Path: "new/x/", Content: "x"})
	p.wantErr(err, "new/x names a directory, it ends in a slash: name a file")
	_, err = p.fs.WriteFile(ctx, WriteArgs{Path: "new/later.txt/x", Content: "x"})
	p.wantErr(err, "new/later.txt/x does not exist: a part of the path is a file and not a directory")
	p.noTemp()
}

// noTemp checks that no temporary file was left behind.
func (p *place) noTemp() {
	p.t.Helper()
	err := filepath.WalkDir(p.dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".tmp") {
			p.t.Errorf("%s was left behind", path)
		}
		return err
	})
	if err != nil {
		p.t.Error(err)
	}
}

// A file whose name is shared with one outside keeps its content there.
func TestWriteLeavesHardLinkAlone(t *testing.T) {
	p := newPlace(t)
	if err := os.Link(p.secret, filepath.Join(p.dir, "hard")); err != nil {
		t.Skipf("the file system has no hard links: %v", err)
	}
	if _, err := p.fs.WriteFile(context.Background(), WriteArgs{Path: "hard", Content: "x"}); err != nil {
		t.Error(err)
	}
}

func TestCancelledWriteChangesNothing(t *testing.T) {
	p := newPlace(t)
	p.write("f", "old")
	s, _, err := p.fs.resolve(context.Background(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.wantErr(p.fs.replace(ctx, s, "new"), "f was not written: context canceled")
	if p.content("f") != "old" {
		t.Error("the file was changed")
	}
	p.noTemp()
}

// Somebody else's change between reading and writing is not lost.
func TestForeignChangeIsKept(t *testing.T) {
	p := newPlace(t)
	p.write("f", "old")
	for _, path := range []string{"f", "new"} {
		s, _, err := p.fs.resolve(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		p.write(path, "theirs")
		p.wantErr(p.fs.replace(context.Background(), s, "ours"), path+" was not written: it was changed by somebody else in the meantime: read it again first")
		s.close()
		if p.content(path) != "theirs" {
			t.Errorf("%s: the foreign change was lost", path)
		}
	}
	p.noTemp()
}

func BenchmarkRead2000Lines(b *testing.B) {
	dir := b.TempDir()
	text := bytes.Repeat([]byte("\tif err != nil { return }\n"), 2000)[:50<<10]
	if err := os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a/b/c/f.go"), text, 0o644); err != nil {
		b.Fatal(err)
	}
	f, err := Open(Options{Roots: []string{dir}})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.ReadFile(context.Background(), ReadArgs{Path: "a/b/c/f.go"}); err != nil {
			b.Fatal(err)
		}
	}
}
