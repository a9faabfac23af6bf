//go:build linux || darwin

package shell

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gth-server/gth-server/approvals"
)

// compatBar is the share of everyday commands that must behave as under
// plain bash. It only ever goes up.
const compatBar = 0.992

type compatRow struct {
	ID, Group, Setup, Command string
	Compare                   []string
}

// outcome is what a command did, as far as it is compared.
type outcome struct {
	stdout, stderr string
	exit           int
	files          map[string]string
}

func (o outcome) diff(p outcome, parts []string) string {
	for _, part := range parts {
		switch part {
		case "stdout":
			if o.stdout != p.stdout {
				return fmt.Sprintf("stdout %q, want %q", p.stdout, o.stdout)
			}
		case "stderr":
			if o.stderr != p.stderr {
				return fmt.Sprintf("stderr %q, want %q", p.stderr, o.stderr)
			}
		case "exit":
			if o.exit != p.exit {
				return fmt.Sprintf("exit %d, want %d", p.exit, o.exit)
			}
		case "files":
			if !maps.Equal(o.files, p.files) {
				return fmt.Sprintf("files %v, want %v", p.files, o.files)
			}
		}
	}
	return ""
}

// TestEverydayCommands runs harmless everyday command lines as they are and
// from the guarded print, and counts where both do the same.
func TestEverydayCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some hundred commands twice")
	}
	rows := readCompat(t)
	e := newEngine(t)
	c := &compat{engine: e, root: t.TempDir(), templates: make(map[string]*template)}
	fails := make([]string, len(rows))
	var g errgroup.Group
	g.SetLimit(8) // most of them sleep
	for i, row := range rows {
		g.Go(func() error {
			fails[i] = c.row(t, i, row)
			return nil
		})
	}
	_ = g.Wait()
	equal, unstable := 0, 0
	for i, f := range fails {
		switch {
		case f == "":
			equal++
		case f == unstableRow:
			unstable++
			t.Logf("%s: plain bash does not do the same twice", rows[i].ID)
		default:
			t.Logf("%s: %q: %s", rows[i].ID, rows[i].Command, f)
		}
	}
	rate := float64(equal) / float64(len(rows)-unstable)
	t.Logf("%d commands, %d equal to plain bash, %d unstable: %.1f %%", len(rows), equal, unstable, 100*rate)
	if rate < compatBar || unstable > len(rows)/50 {
		t.Errorf("rate %.4f is below %.4f, or too many unstable rows", rate, compatBar)
	}
}

func readCompat(t *testing.T) []compatRow {
	t.Helper()
	f, err := os.Open("testdata/shell-compat.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []compatRow
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var r compatRow
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 418 {
		t.Fatalf("%d rows, want 418", len(rows))
	}
	return rows
}

const unstableRow = "unstable"

type compat struct {
	engine *Engine
	root   string

	mu        sync.Mutex
	templates map[string]*template
}

func (c *compat) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.root, "USER=root", "LANG=C.UTF-8", "TZ=UTC", "TERM=dumb",
		"PYENV_ROOT=" + os.Getenv("PYENV_ROOT"), "GOFLAGS=-mod=mod", "GOCACHE=" + filepath.Join(os.TempDir(), "gth-compat-gocache"), "GOTOOLCHAIN=local",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.org",
		"GIT_AUTHOR_DATE=2024-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2024-01-02T03:04:05Z", "GIT_CONFIG_NOSYSTEM=1",
	}
}

// row returns what differs, "" when nothing does.
func (c *compat) row(t *testing.T, i int, row compatRow) string {
	base := filepath.Join(c.root, fmt.Sprintf("r%03d", i))
	text, ext, err := printed(row.Command, base)
	if err != nil {
		return "not printed: " + err.Error()
	}
	plain := c.plain(t, base, row)
	guarded := c.guarded(t, base, row, text, ext)
	diff := plain.diff(guarded, row.Compare)
	if diff == "" {
		return ""
	}
	if again := c.plain(t, base, row); plain.diff(again, row.Compare) != "" {
		return unstableRow
	}
	return strings.TrimSpace(plain.diff(c.guarded(t, base, row, text, ext), row.Compare))
}

// fresh fills a directory as setup does. A set-up runs once; its result is
// copied.
func (c *compat) fresh(t *testing.T, dir, setup string) {
	c.mu.Lock()
	tmpl := c.templates[setup]
	if tmpl == nil {
		tmpl = &template{dir: filepath.Join(c.root, fmt.Sprintf("t%d", len(c.templates)))}
		c.templates[setup] = tmpl
	}
	c.mu.Unlock()
	tmpl.once.Do(func() {
		if err := os.MkdirAll(tmpl.dir, 0o755); err != nil {
			t.Error(err)
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-c", setup)
		cmd.Dir, cmd.Env = tmpl.dir, c.env()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("set-up: %v: %s", err, out)
		}
	})
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Error(err)
	}
	if out, err := exec.Command("cp", "-a", tmpl.dir, dir).CombinedOutput(); err != nil {
		t.Errorf("copying the set-up: %v: %s", err, out)
	}
}

type template struct {
	once sync.Once
	dir  string
}

func (c *compat) plain(t *testing.T, base string, row compatRow) outcome {
	work := filepath.Join(base, "w")
	c.fresh(t, work, row.Setup)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-c", row.Command)
	cmd.Args[0] = "bash"
	cmd.SysProcAttr = ownSession()
	cmd.WaitDelay = drainDelay
	cmd.Dir, cmd.Env = work, c.env()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return outcome{out.String(), errs.String(), exitCode(cmd.ProcessState), snapshotFiles(t, work)}
}

func (c *compat) guarded(t *testing.T, base string, row compatRow, text func(approvals.GuardNames) (string, error), ext bool) outcome {
	work := filepath.Join(base, "w")
	c.fresh(t, work, row.Setup)
	names := NewNames()
	script, err := text(names)
	if err != nil {
		t.Error(err)
	}
	errFile := filepath.Join(base, "stderr")
	yes := func() (bool, string) { return true, "" }
	res, err := c.engine.Run(context.Background(), Request{
		Script: "exec 2>'" + errFile + "'; " + script, Names: names, ExtGlob: ext, Dir: work, Env: c.env(), Timeout: 30 * time.Second,
		Check: checker{
			cmd:   func([]string) (bool, string) { return yes() },
			redir: func(string, bool) (bool, string) { return yes() },
		},
	})
	if err != nil {
		t.Error(err)
	}
	errs, _ := os.ReadFile(errFile)
	return outcome{res.Output, string(errs), res.ExitCode, snapshotFiles(t, work)}
}

// snapshotFiles reads the files below dir; what git keeps for itself holds
// times and is left out.
func snapshotFiles(t *testing.T, dir string) map[string]string {
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a directory that vanished meanwhile
		}
		rel, _ := filepath.Rel(dir, p)
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "__pycache__"):
			files[rel] = "dir"
			return fs.SkipDir
		case d.IsDir():
			files[rel] = "dir"
		case d.Type().IsRegular():
			b, _ := os.ReadFile(p)
			files[rel] = string(b)
			if i, err := d.Info(); err == nil {
				files[rel] += i.Mode().String()
			}
		default:
			files[rel] = d.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return files
}

// printed reads a command as the gate does and returns its print.
func printed(command, cwd string) (text func(approvals.GuardNames) (string, error), extGlob bool, err error) {
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return nil, false, err
	}
	r := approvals.Read(approvals.Call{Tool: approvals.ShellTool, Arguments: args}, approvals.Place{Cwd: cwd, Home: cwd, Roots: []string{cwd}})
	s := r.Script()
	if s == nil {
		return nil, false, fmt.Errorf("not read: %q", command)
	}
	if _, err := s.Print(NewNames(), approvals.Posture{}); err != nil {
		return nil, false, err
	}
	return func(n approvals.GuardNames) (string, error) { return s.Print(n, approvals.Posture{}) }, s.ExtGlob(), nil
}
