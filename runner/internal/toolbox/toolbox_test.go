package toolbox

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/tools/fsys"
	"github.com/gth-server/gth-server/runner/internal/tools/shell"
)

func box() Box { return New(Options{Cwd: "/work", Files: &fsys.FS{}, Engine: &shell.Engine{}}) }

func TestArgumentsAreChecked(t *testing.T) {
	tests := []struct{ tool, raw, want string }{ // want "" is no error
		{"read_file", `{"path":"a"}`, ""},
		{"read_file", ` {"limit": 3, "path":"a"} `, ""},
		{"read_file", `{"PATH":"a"}`, `"PATH" is no argument`},
		{"read_file", `{"path":"a","Path":"b"}`, `"Path" is no argument`},
		{"read_file", `{"path":null}`, `"path" is missing`},
		{"read_file", ``, `"path" is missing`},
		{"read_file", `{"path":"a"} {}`, "object"},
		{"read_file", `{"path":"a","limit":"3"}`, "limit"},
		{"edit_file", `{"path":"a","edits":[{"oldText":"x","newText":"y"}]}`, ""},
		{"edit_file", `{"path":"a","edits":"x"}`, "edits"},
		{"run_shell_command", `{"command":"ls","justification":"j"}`, ""},
		{"run_shell_command", `{"command":["ls"]}`, "command"},
		{"run_shell_command", `{"command":"\n "}`, "empty"},
		{"run_shell_command", `{"command":"ls","timeout":3}`, `"timeout" is no argument`},
	}
	for _, tt := range tests {
		args, p, err := box().Find(tt.tool).Check(tt.raw)
		if tt.want == "" {
			if err != nil || len(args) == 0 || p.Title == "" || p.Run == nil {
				t.Errorf("%s %s: %v", tt.tool, tt.raw, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: error %v, want %q", tt.tool, tt.raw, err, tt.want)
		}
	}
	t.Logf("%d cases", len(tests))
}

// TestNoticesFollowTheRung: what is not gated at a rung carries none.
func TestNoticesFollowTheRung(t *testing.T) {
	for _, rung := range approvals.Rungs() {
		for _, info := range box().Infos(rung) {
			noticed := strings.Contains(info.Desc, "without this remark")
			if want := rung != approvals.Bypass && approvals.Gated(info.Name, rung); noticed != want {
				t.Errorf("%s at %s: notice %v, want %v", info.Name, rung, noticed, want)
			}
		}
	}
}

func TestWithoutAnEngineThereIsNoShell(t *testing.T) {
	if b := New(Options{Files: &fsys.FS{}, Off: []string{"write_file", "edit_file"}}); b.Names() != "read_file, list_directory" {
		t.Errorf("tools are %s", b.Names())
	}
	b := New(Options{Files: &fsys.FS{}})
	if b.Find(ShellName) != nil || len(b) != 4 {
		t.Errorf("tools are %s", b.Names())
	}
}

func TestLiveOutputIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pieces []string
		l := &liveOutput{budget: 40_000, show: func(s string) { pieces = append(pieces, s) }}
		for range 1000 {
			l.add("line\n")
			time.Sleep(time.Millisecond)
		}
		l.flush()
		if got := strings.Join(pieces, ""); got != strings.Repeat("line\n", 1000) || len(pieces) > 12 {
			t.Errorf("%d bytes in %d pieces", len(got), len(pieces))
		}
		pieces = nil
		l.add(strings.Repeat("é", 30_000))
		l.add("more")
		l.flush()
		if got := strings.Join(pieces, ""); len(got) > 35_003 || strings.Contains(got, "more") {
			t.Errorf("%d bytes were shown", len(got))
		}
	})
}
