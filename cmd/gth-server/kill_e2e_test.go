//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/gth-server/gth-server/runner/runnertest"
	"github.com/gth-server/gth-server/session"
)

// killRounds is how often TestKill kills; GTH_LONG makes it a thousand.
func killRounds() int {
	if os.Getenv("GTH_LONG") != "" {
		return 1000
	}
	return 50
}

// killed is one round: a turn with questions, parallel calls and a change
// of rung in one process, killed at a random moment, and what another
// process makes of its session.
type killed struct {
	t      *testing.T
	rng    *rand.Rand
	dir    string
	name   string
	model  *runnertest.Server
	answer map[string]string // by command: what the first client answered
	phases map[string]int
}

// TestKill kills the real program with SIGKILL at random moments of
// scripted turns and holds what a restart finds against what its client
// was told: nothing acknowledged is lost, no approved call runs twice, a
// reported one ran once, a refused one never.
func TestKill(t *testing.T) {
	model := runnertest.NewServer(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	phases := map[string]int{}
	rounds := killRounds()
	var dir string
	for i := range rounds {
		if i%10 == 0 {
			dir = t.TempDir() // a store lives through ten deaths
		}
		k := &killed{t: t, rng: rng, dir: dir, name: fmt.Sprintf("r%d", i), model: model, phases: phases, answer: map[string]string{}}
		k.round()
		if t.Failed() {
			t.Fatalf("round %d of seed %d", i, seed)
		}
	}
	t.Logf("%d rounds, killed %v", rounds, phases)
	if phases["while it was asked"] == 0 || phases["behind a reported call"] == 0 {
		t.Errorf("the kills missed whole phases: %v", phases)
	}
}

func (k *killed) command(n int) string { return fmt.Sprintf("note %s-%d", k.name, n) }

func (k *killed) start() *editor {
	e := newEditorIn(k.t, k.dir, k.model)
	if err := standIns(filepath.Join(k.dir, "bin"), e.called, "note"); err != nil {
		k.t.Fatal(err)
	}
	return e
}

func (k *killed) round() {
	first := k.start()
	id := first.open()
	// The client answers one question at a time, so what is behind the gate
	// needs no lock.
	gate, rng := make(chan struct{}, 1), rand.New(rand.NewPCG(k.rng.Uint64(), 2))
	first.answer = func(r sdk.RequestPermissionRequest) string {
		gate <- struct{}{}
		defer func() { <-gate }()
		time.Sleep(time.Duration(rng.IntN(8)) * time.Millisecond)
		choice := []string{"allow-once", "allow-once", "allow-session", "allow-workspace", "reject-once"}[rng.IntN(5)]
		k.answer[*r.ToolCall.Title] = choice
		return choice
	}
	go func() { // never answered, as a rule
		_, _ = first.prompt(id,
			runnertest.Reply{Text: "one", Calls: []runnertest.Call{runnertest.Shell(k.command(1)), runnertest.Shell(k.command(2)), runnertest.Shell(k.command(3))}},
			runnertest.Reply{Text: "two", Calls: []runnertest.Call{runnertest.Shell(k.command(4))}},
			runnertest.Reply{Text: "three"})
	}()
	if k.name[len(k.name)-1]%2 == 0 {
		go func() {
			_, _ = first.conn.SetSessionMode(first.ctx(), sdk.SetSessionModeRequest{SessionId: id, ModeId: "manual"})
		}()
	}
	k.delay(first)
	if err := first.cmd.Process.Kill(); err != nil {
		k.t.Fatal(err)
	}
	_ = first.cmd.Wait()
	gate <- struct{}{} // no answer is under way any more
	defer func() { <-gate }()
	told := k.reported(first, id)
	k.phase(first, id, told)
	k.after(id, told)
}

// delay waits for a random part of a whole turn, measured in what the client
// was told rather than in time, so that slow machines are killed alike.
func (k *killed) delay(e *editor) {
	until := k.rng.IntN(14)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		e.mu.Lock()
		n := len(e.asked)
		for _, us := range e.updates {
			n += len(us)
		}
		e.mu.Unlock()
		if n >= until {
			break
		}
	}
	time.Sleep(time.Duration(k.rng.IntN(4000)) * time.Microsecond)
}

// reported lists the commands whose results the client was told, by state.
func (k *killed) reported(e *editor, id sdk.SessionId) map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	titles, out := map[sdk.ToolCallId]string{}, map[string]string{}
	for _, u := range e.updates[id] {
		switch {
		case u.ToolCall != nil:
			titles[u.ToolCall.ToolCallId] = u.ToolCall.Title
			if s := u.ToolCall.Status; s == "completed" || s == "failed" {
				out[u.ToolCall.Title] = string(s)
			}
		case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
			if s := *u.ToolCallUpdate.Status; s == "completed" || s == "failed" {
				out[titles[u.ToolCallUpdate.ToolCallId]] = string(s)
			}
		}
	}
	return out
}

func (k *killed) phase(e *editor, id sdk.SessionId, told map[string]string) {
	text, calls := e.seen(id)
	switch {
	case strings.Contains(text, "three"):
		k.phases["behind the last word"]++
	case len(told) > 0:
		k.phases["behind a reported call"]++
	case slices.Contains(calls, "in_progress"):
		k.phases["while a call ran"]++
	case len(e.asked) > 0:
		k.phases["while it was asked"]++
	case text != "" || len(calls) > 0:
		k.phases["while the model spoke"]++
	default:
		k.phases["before the first word"]++
	}
}

// after opens the session in a new process, lets what is left of it end,
// and compares.
func (k *killed) after(id sdk.SessionId, told map[string]string) {
	second := k.start()
	again := map[string]bool{}
	second.answer = func(r sdk.RequestPermissionRequest) string {
		second.mu.Lock()
		defer second.mu.Unlock()
		again[*r.ToolCall.Title] = true
		return "allow-once"
	}
	if _, err := second.conn.LoadSession(second.ctx(), sdk.LoadSessionRequest{SessionId: id, Cwd: second.work, McpServers: []sdk.McpServer{}}); err != nil {
		k.t.Errorf("session/load: %v\n%s", err, second.stderr)
		return
	}
	records := k.records(second, id)
	open := openCommands(records)
	second.await("what was open coming to its end", func() bool {
		done := k.reported(second, id)
		for _, c := range open {
			if done[c] == "" {
				return false
			}
		}
		return true
	})
	if out, err := second.prompt(id, runnertest.Reply{Text: "and on"}); err != nil || out.StopReason != sdk.StopReasonEndTurn {
		k.t.Errorf("the next prompt: %v, %v\n%s", out.StopReason, err, second.stderr)
	}
	later := k.reported(second, id)
	noted := map[string]int{}
	for line := range strings.Lines(second.noted()) {
		noted[strings.TrimSpace(line)]++
	}
	for n := range 4 {
		c := k.command(n + 1)
		switch ran := noted[c]; {
		case ran > 1:
			k.t.Errorf("%q ran %d times", c, ran)
		case (told[c] == "completed" || later[c] == "completed") && ran != 1:
			k.t.Errorf("%q was reported completed (%q, %q) and ran %d times", c, told[c], later[c], ran)
		case k.answer[c] == "reject-once" && !again[c] && ran != 0:
			k.t.Errorf("%q was refused and ran", c)
		}
		if told[c] != "" && later[c] != told[c] {
			k.t.Errorf("%q was reported as %s and is told again as %q", c, told[c], later[c])
		}
	}
	k.grants(second, told)
	if out, err := k.cli(second, "sessions", "verify", string(id)); err != nil {
		k.t.Errorf("sessions verify: %v\n%s", err, out)
	}
	second.quit()
}

// records is the session's log as the command line shows it.
func (k *killed) records(e *editor, id sdk.SessionId) []session.Record {
	out, err := k.cli(e, "sessions", "show", "--json", string(id))
	if err != nil {
		k.t.Fatalf("sessions show: %v\n%s", err, out)
	}
	var records []session.Record
	for line := range strings.Lines(out) {
		r, err := session.DecodeRecord([]byte(line))
		if err != nil {
			k.t.Fatalf("sessions show: %v in %q", err, line)
		}
		if want := session.Seq(len(records) + 1); r.Seq != want {
			k.t.Fatalf("record %d comes where %d belongs", r.Seq, want)
		}
		records = append(records, r)
	}
	return records
}

// openCommands lists the commands that have not ended in a log.
func openCommands(records []session.Record) []string {
	open := map[string]string{}
	for _, r := range records {
		switch ev := r.Event.(type) {
		case session.CallAnnounced:
			open[ev.Call.ID] = ev.Title
		case session.CallEnded:
			delete(open, ev.CallID)
		}
	}
	var out []string
	for _, title := range open {
		out = append(out, title)
	}
	return out
}

// grants: one that a reported call came with is there.
func (k *killed) grants(e *editor, told map[string]string) {
	out, err := k.cli(e, "grants", "list", "--json")
	var list struct {
		Grants []struct {
			Entry struct{ Pattern string }
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &list)
	}
	if err != nil {
		k.t.Fatalf("grants list: %v\n%s", err, out)
	}
	for c, choice := range k.answer {
		found := slices.ContainsFunc(list.Grants, func(g struct {
			Entry struct{ Pattern string }
		},
		) bool {
			return g.Entry.Pattern == c
		})
		if choice == "allow-workspace" && told[c] == "completed" && !found {
			k.t.Errorf("the grant for %q is lost", c)
		}
	}
}

func (k *killed) cli(e *editor, args ...string) (string, error) {
	cmd := exec.Command(program(k.t), args...)
	cmd.Env, cmd.Dir = e.cmd.Env, e.work
	out, err := cmd.CombinedOutput()
	return string(out), err
}
