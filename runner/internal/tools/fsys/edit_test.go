package fsys

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEdit(t *testing.T) {
	for _, tc := range []struct {
		name, before string
		edits        []Edit
		after        string
	}{
		{"one word", "a b c\n", []Edit{{"b", "B", false}}, "a B c\n"},
		{"in order", "a\nb\n", []Edit{{"a", "b1", false}, {"b1", "x", false}}, "x\nb\n"},
		{"all", "a a a", []Edit{{"a", "b", true}}, "b b b"},
		{"all, overlapping", "aaaa", []Edit{{"aa", "b", true}}, "bb"},
		{"remove", "a\nb\nc\n", []Edit{{"b\n", "", false}}, "a\nc\n"},
		{"CRLF kept", "one\r\ntwo\r\nthree\r\n", []Edit{{"one\ntwo", "1\n2\n2b", false}}, "1\r\n2\r\n2b\r\nthree\r\n"},
		{"CRLF in the edit", "one\ntwo\n", []Edit{{"one\r\ntwo", "1\r\n2", false}}, "1\n2\n"},
		{"mixed line ends", "a\nb\r\nc\nd\r\n", []Edit{{"c\nd", "C\nD", false}}, "a\nb\r\nC\nD\r\n"},
		{"one line of CRLF text", "a\r\nb\r\n", []Edit{{"a", "x\ny", false}}, "x\r\ny\r\nb\r\n"},
		{"lone CR kept", "a\rb\nc", []Edit{{"c", "d", false}}, "a\rb\nd"},
		{"byte order mark kept", "\ufeffa\n", []Edit{{"a", "b", false}}, "\ufeffb\n"},
		{"not UTF-8 kept", "caf\xe9 a\n", []Edit{{"a\n", "b\n", false}}, "caf\xe9 b\n"},
		{"trimmed lines", "func f() {\n\t\tif x {\n\t\t\ty()\n\t\t}\n}\n", []Edit{{"if x {\n\ty()\n}", "if z {\n\ty()\n}", false}}, "func f() {\n\t\tif z {\n\t\t\ty()\n\t\t}\n}\n"},
		{"trimmed, trailing blanks", "a  \nb\t\nc\n", []Edit{{"a\nb\n", "x\n", false}}, "x\nc\n"},
		{"trimmed, end of file", "  a\n  b", []Edit{{"   a\n   b\n", "c\n", false}}, "c\n"},
		{"trimmed, CRLF", "  a\r\n  b\r\nc\r\n", []Edit{{"    a\n    b", "    x\n    y", false}}, "  x\r\n  y\r\nc\r\n"},
		{"trimmed, all", " a\n  a\n", []Edit{{"\ta", "\tb", true}}, " b\n  b\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlace(t)
			p.write("f", tc.before)
			res, err := p.fs.EditFile(context.Background(), EditArgs{Path: "f", Edits: tc.edits})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.after, p.content("f")); diff != "" {
				t.Error(diff)
			}
			if len(res.Diffs) != 1 || *res.Diffs[0].Old != tc.before || res.Diffs[0].New != tc.after {
				t.Errorf("diffs %+v", res.Diffs)
			}
		})
	}
}

func TestEditText(t *testing.T) {
	p := newPlace(t)
	p.write("d/f", "a\nb\nc\n")
	e := EditArgs{Path: "d/f", DryRun: true, Edits: []Edit{{OldText: "b", NewText: "B"}}}
	diff := "--- d/f\n+++ d/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
	res, err := p.fs.EditFile(context.Background(), e)
	if want := "Dry run, d/f was not changed. It would get 1 replacement:\n" + diff; err != nil || res.Text != want || res.Diffs != nil {
		t.Errorf("dry run: %q, %v", res.Text, err)
	}
	if p.content("d/f") != "a\nb\nc\n" {
		t.Error("a dry run changed the file")
	}
	if err := os.Chmod(filepath.Join(p.dir, "d/f"), 0o700); err != nil {
		t.Fatal(err)
	}
	e.DryRun = false
	res, err = p.fs.EditFile(context.Background(), e)
	if want := "Changed d/f, 1 replacement:\n" + diff; err != nil || res.Text != want {
		t.Errorf("edit: %q, %v", res.Text, err)
	}
	if info, err := os.Stat(filepath.Join(p.dir, "d/f")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestEditRefuses(t *testing.T) {
	p := newPlace(t)
	const text = "alpha\nbeta\nalpha\n  gamma\n"
	p.write("f", text)
	p.write("bin", "a\x00b")
	p.write("big", strings.Repeat("x", maxEditBytes+1))
	for _, tc := range []struct {
		path  string
		edits []Edit
		want  string
	}{
		{"f", nil, "edit_file got 0 edits: give between 1 and 200"},
		{"f", make([]Edit, 201), "edit_file got 201 edits: give between 1 and 200"},
		{"f", []Edit{{"", "x", false}}, "edit 1 of 1 in f: oldText is empty: give the text to replace, or use write_file for the whole file (no edit was made)"},
		{"f", []Edit{{"beta", "beta", false}}, "edit 1 of 1 in f: oldText and newText are equal: give the text that should stand there afterwards (no edit was made)"},
		{"f", []Edit{{"alpha", "x", false}}, "edit 1 of 1 in f: oldText occurs 2 times (lines 1, 3): add lines around it until it is unique, or set replaceAll (no edit was made)"},
		{"f", []Edit{{"beta", "x", false}, {"delta", "y", false}}, "edit 2 of 2 in f: oldText was not found: read the file again and copy the passage exactly (no edit was made)"},
		{"f", []Edit{{"gamma\nomega", "x", false}}, "edit 1 of 1 in f: oldText was not found, although a line of it occurs at line 4: read the file again and copy the passage exactly (no edit was made)"},
		{"f", []Edit{{"beta", "x", false}, {"x", "beta", false}}, "the edits leave f as it is: check oldText and newText"},
		{"f", []Edit{{" \n", "x", false}}, "edit 1 of 1 in f: oldText was not found: read the file again and copy the passage exactly (no edit was made)"},
		{"none", []Edit{{"a", "b", false}}, "none does not exist: look for it with list_directory"},
		{"bin", []Edit{{"a", "b", false}}, "bin is a binary file (3 bytes) and cannot be shown as text: use a program that understands it"},
		{"big", []Edit{{"x", "b", false}}, "big has 10485761 bytes and may have 10485760 for this tool: change it with a program instead"},
	} {
		_, err := p.fs.EditFile(context.Background(), EditArgs{Path: tc.path, Edits: tc.edits})
		p.wantErr(err, tc.want)
	}
	if p.content("f") != text {
		t.Error("a refused edit changed the file")
	}
	p.noTemp()
}

// Hostile sizes end quickly and within memory.
func TestEditBounds(t *testing.T) {
	p := newPlace(t)
	p.write("a", strings.Repeat("a", 4<<20))
	p.write("lines", strings.Repeat(" x\n", 1<<17))
	for _, tc := range []struct {
		path string
		edit Edit
	}{
		{"a", Edit{"a", strings.Repeat("b", 1<<20), true}},
		{"a", Edit{strings.Repeat("a", 1<<20), "b", false}},
		{"lines", Edit{strings.Repeat("x\n", 1<<15), "b", false}},
		{"lines", Edit{strings.Repeat("x\n", 1<<15) + "y", "b", false}},
	} {
		start := time.Now()
		if _, err := p.fs.EditFile(context.Background(), EditArgs{Path: tc.path, Edits: []Edit{tc.edit}}); err == nil {
			t.Errorf("%s: the edit was made", tc.path)
		}
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("%s took %v", tc.path, d)
		}
	}
	res, err := p.fs.EditFile(context.Background(), EditArgs{Path: "lines", Edits: []Edit{{"x\n", "yy\n", true}}})
	if err != nil || len(res.Text) > maxDiffText+500 {
		t.Errorf("a large diff: %d bytes, %v", len(res.Text), err)
	}
}

// Replacing a unique passage changes that passage and no other byte.
func TestReplaceKeepsTheRest(t *testing.T) {
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		piece := rapid.SampledFrom([]string{"a", "b", " ", "\n", "\r\n", "\r", "ü"})
		join := func(label string) string { return strings.Join(rapid.SliceOf(piece).Draw(t, label), "") }
		before, after := join("before"), join("after")
		text := before + "<<\r\n>>" + after
		got, n, err := applyEdit(text, Edit{OldText: "<<\n>>", NewText: "[\n]"})
		if err != nil || n != 1 {
			t.Fatalf("%d replacements, %v", n, err)
		}
		if want := before + "[\r\n]" + after; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
	t.Logf("%d texts", runs)
}
