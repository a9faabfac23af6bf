package acp

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/gth-server/gth-server/acp/internal/wire"
)

var update = flag.Bool("update", false, "rewrite the server's lines of the transcripts")

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

// TestTranscripts plays the client's lines (>) of each section and compares
// what the server writes with the lines (<) behind them. Session ids are
// written S1, S2 in the order in which they appear; CWD is a directory.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	lines, messages := 0, 0
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, section := range ar.Files {
			cwd := t.TempDir()
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+section.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					got, checked := play(t, string(section.Data), cwd)
					lines += strings.Count(got, "\n")
					messages += checked
					if *update {
						ar.Files[i].Data = []byte(got)
						return
					}
					if d := cmp.Diff(string(section.Data), got); d != "" {
						t.Errorf("transcript (-want +got):\n%s", d)
					}
				})
			})
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d files, %d lines, %d messages held against the schema", len(files), lines, messages)
}

// play runs one transcript and returns it with the server's real lines.
func play(t *testing.T, transcript, cwd string) (string, int) {
	s := start(nil)
	r := &reader{ids: map[string]string{}, cwd: cwd}
	done := make(chan struct{})
	go func() { defer close(done); r.read(bufio.NewScanner(s.out)) }()
	var out strings.Builder
	batch := false
	flush := func() {
		if batch {
			settle()
			for _, l := range r.take() {
				// Whether a cancelled first prompt gave the session its title
				// depends on how far it came.
				if !strings.Contains(l, `"sessionUpdate":"session_info_update"`) {
					out.WriteString("< " + l + "\n")
				}
			}
		}
		batch = false
	}
	for line := range strings.Lines(transcript) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "> "):
			s.send(r.real(line[2:]))
			batch = true
			out.WriteString(line + "\n")
		case strings.HasPrefix(line, "<"):
			flush()
		default:
			flush()
			out.WriteString(line + "\n")
		}
	}
	flush()
	if err := s.end(t); err != nil {
		t.Errorf("Serve: %v", err)
	}
	<-done
	return out.String(), s.check.count
}

// settle waits until the server has nothing more to do.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

type reader struct {
	mu    sync.Mutex
	lines []string
	ids   map[string]string // real id to name
	cwd   string
}

func (r *reader) read(sc *bufio.Scanner) {
	for sc.Scan() {
		r.mu.Lock()
		r.lines = append(r.lines, strings.ReplaceAll(uuids.ReplaceAllStringFunc(sc.Text(), r.name), r.cwd, "CWD"))
		r.mu.Unlock()
	}
}

func (r *reader) name(id string) string {
	if r.ids[id] == "" {
		r.ids[id] = fmt.Sprintf("S%d", len(r.ids)+1)
	}
	return r.ids[id]
}

func (r *reader) real(line string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, name := range r.ids {
		line = strings.ReplaceAll(line, `"`+name+`"`, `"`+id+`"`)
	}
	return strings.ReplaceAll(line, "CWD", r.cwd)
}

// take returns what has come, withdrawals first: they are written by a
// goroutine of their own, so their place among the updates is left open.
func (r *reader) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lines
	r.lines = nil
	slices.SortStableFunc(l, func(a, b string) int {
		first := func(s string) int {
			if strings.Contains(s, wire.MethodCancelRequest) {
				return 0
			}
			return 1
		}
		return first(a) - first(b)
	})
	return l
}
