package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner"
)

func TestExec(t *testing.T) {
	env := harmlessEnv(t)
	tests := []struct {
		command string
		exit    int
		output  string
	}{
		{"echo out; echo err >&2; exit 4", 4, "out\nerr\n"},
		{"true", 0, ""},
		{"X=rm; $X -rf /", 126, "efused"},
		{"case x in @(x|y)) echo ext;; esac", 0, "ext\n"},
	}
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			r := shellReading(t, tt.command)
			var out bytes.Buffer
			exit, err := runner.Exec(t.Context(), runner.ExecOptions{
				Reading: r, Posture: approvals.Posture{Rung: approvals.Bypass}, Dir: t.TempDir(), Env: env, Output: &out,
			})
			if err != nil || exit != tt.exit || !strings.Contains(out.String(), tt.output) {
				t.Fatalf("exit %d, output %q, error %v", exit, out.String(), err)
			}
		})
	}
}

func TestExecIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("interrupt")
	time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
	start := time.Now()
	exit, err := runner.Exec(ctx, runner.ExecOptions{
		Reading: shellReading(t, "sleep 20"), Posture: approvals.Posture{Rung: approvals.Bypass},
		Dir: t.TempDir(), Env: harmlessEnv(t), Output: &bytes.Buffer{},
	})
	if exit != 130 || !errors.Is(err, cause) || time.Since(start) > 5*time.Second {
		t.Fatalf("exit %d, error %v after %s", exit, err, time.Since(start))
	}
}

func TestExecRunsNothingUnjudged(t *testing.T) {
	for _, command := range []string{"echo 'open", "echo \x00"} {
		exit, err := runner.Exec(t.Context(), runner.ExecOptions{
			Reading: shellReading(t, command), Dir: t.TempDir(), Env: harmlessEnv(t), Output: &bytes.Buffer{},
		})
		if err == nil {
			t.Errorf("%q ran and ended with %d", command, exit)
		}
	}
}

func shellReading(t *testing.T, command string) *approvals.Reading {
	t.Helper()
	raw, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return approvals.Read(approvals.Call{ID: "1", Tool: "run_shell_command", Arguments: raw}, approvals.Place{Cwd: dir, Home: "/nowhere", Roots: []string{dir}})
}
