//go:build unix

package fsys

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Special files are refused at once: nothing waits for a writer.
func TestSpecialFiles(t *testing.T) {
	p := newPlace(t)
	if err := syscall.Mkfifo(filepath.Join(p.dir, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "s") // a socket's path may have 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	l, err := net.Listen("unix", filepath.Join(short, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.open(Options{Roots: []string{p.dir, short, "/dev"}})
	p.link("fifo", "tofifo")
	for _, tc := range []struct{ path, want string }{
		{"fifo", "fifo is a FIFO and not a regular file: file tools do not open it"},
		{"tofifo", "fifo is a FIFO and not a regular file: file tools do not open it"},
		{short + "/sock", short + "/sock is a socket and not a regular file: file tools do not open it"},
		{"/dev/zero", "/dev/zero is a device and not a regular file: file tools do not open it"},
	} {
		start := time.Now()
		_, err := p.read(tc.path)
		p.wantErr(err, tc.want)
		_, err = p.fs.WriteFile(context.Background(), WriteArgs{Path: tc.path, Content: "x"})
		p.wantErr(err, tc.want)
		_, err = p.fs.EditFile(context.Background(), EditArgs{Path: tc.path, Edits: []Edit{{OldText: "a", NewText: "b"}}})
		p.wantErr(err, tc.want)
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s took %v", tc.path, d)
		}
	}
}

// While one goroutine swaps a directory, a file and a parent for links that
// lead outside, or a file for a FIFO, nothing outside is read or changed and
// nothing hangs.
func TestSwappedForLinks(t *testing.T) {
	p := newPlace(t)
	p.write(filepath.Join(p.dir, "dir/secret.txt"), "inside\n")
	p.write("file", "inside\n")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { p.swap(ctx) })
	reads, writes, bad := 0, 0, 0
	for ctx.Err() == nil {
		for _, path := range []string{"dir/secret.txt", "file"} {
			if text, err := p.read(path); err == nil {
				reads++
				if strings.Contains(text, "outside") {
					bad++
				}
			}
			if _, err := p.fs.WriteFile(ctx, WriteArgs{Path: path, Content: "inside\n" + strings.Repeat("x", writes%7)}); err == nil {
				writes++
			}
			if res, err := p.fs.ListDirectory(ctx, ListArgs{Path: "dir"}); err == nil && strings.Contains(res.Text, "only-outside") {
				bad++
			}
			if _, err := p.fs.EditFile(ctx, EditArgs{Path: path, Edits: []Edit{{OldText: "nobody", NewText: "all"}}}); err == nil {
				bad++
			}
			if _, err := p.fs.WriteFile(ctx, WriteArgs{Path: "dir/new/x", Content: "x"}); err == nil {
				writes++
			}
		}
	}
	wg.Wait()
	if bad > 0 {
		t.Errorf("%d calls reached outside", bad)
	}
	if reads == 0 || writes == 0 {
		t.Errorf("%d reads and %d writes succeeded: the race was not run", reads, writes)
	}
	t.Logf("%d reads and %d writes succeeded under swapping", reads, writes)
}

// swap exchanges names until ctx ends. Errors are part of the game.
func (p *place) swap(ctx context.Context) {
	at := func(name string) string { return filepath.Join(p.dir, name) }
	_ = os.Symlink(p.outside, at("door"))
	_ = os.Symlink(p.secret, at("key"))
	_ = syscall.Mkfifo(at("pipe"), 0o666)
	for i := 0; ctx.Err() == nil; i++ {
		for _, names := range [][2]string{{"dir", "door"}, {"file", [2]string{"key", "pipe"}[i%2]}} {
			_ = os.Rename(at(names[0]), at("aside"))
			_ = os.Rename(at(names[1]), at(names[0]))
			_ = os.Rename(at(names[0]), at(names[1]))
			_ = os.Rename(at("aside"), at(names[0]))
		}
	}
}
