//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/persistence"
	"github.com/gth-server/gth-server/session"
)

// world is a user's machine: a directory with a store, a workspace and the
// stand-in note, which notes its words once per execution.
type world struct {
	bin, dir, work, data, called, stderr, model string
}

func newWorld(bin, parent, name, model string) (*world, error) {
	parent, err := filepath.EvalSymlinks(parent) // which grants are kept under
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(parent, name)
	w := &world{
		bin: bin, dir: dir, work: filepath.Join(dir, "work"), data: filepath.Join(dir, "data"), called: filepath.Join(dir, "called"),
		stderr: filepath.Join(dir, "stderr"), model: model,
	}
	note := "#!/bin/sh\nsleep 0.01\necho \"$*\" >> " + shellQuote(w.called) + "\nsleep 0.01\n"
	for _, d := range []string{w.work, filepath.Join(dir, "bin")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(w.work, "file"), []byte("words\n"), 0o600); err != nil {
		return nil, err
	}
	return w, os.WriteFile(filepath.Join(dir, "bin", "note"), []byte(note), 0o700)
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.bin, args...)
	cmd.Dir = w.work
	cmd.Env = []string{"PATH=" + filepath.Join(w.dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + w.dir, "XDG_CONFIG_HOME=" + w.dir, "GTH_DATA_DIR=" + w.data}
	return cmd
}

// cli runs a command of the program to its end.
func (w *world) cli(args ...string) (string, error) {
	cmd := w.command(args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("gth-server %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return string(out), nil
}

// noted counts the executions of each command.
func (w *world) noted() map[string]int {
	b, _ := os.ReadFile(w.called) // absent means never called
	n := map[string]int{}
	for line := range strings.Lines(string(b)) {
		n["note "+strings.TrimSuffix(line, "\n")]++
	}
	return n
}

// history is a session's log and what it says.
type history struct {
	raw     []string
	records []session.Record
	items   []item
	text    string
	partial bool
	rung    string
	turns   int // that began
	over    int // that ended
	calls   map[string]*fate
	order   []string
	granted map[string]bool // commands that were allowed for the session
	refused map[string]bool // commands that were rejected for the session
}

// fate is what a log says of one call.
type fate struct {
	command   string
	ask       string
	rung      string // at which it was asked
	answer    *session.Answered
	executing bool
	end       session.CallState
}

func (h *history) open(f *fate) bool { return f.ask != "" && f.answer == nil && f.end == "" }

// readHistory decodes a log, and refuses one whose records do not follow
// from each other.
func readHistory(out string) (*history, error) {
	h := &history{rung: "assisted", calls: map[string]*fate{}, granted: map[string]bool{}, refused: map[string]bool{}}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		r, err := session.DecodeRecord([]byte(line))
		if err != nil {
			return nil, err
		}
		h.raw, h.records = append(h.raw, line), append(h.records, r)
		if int(r.Seq) != len(h.records) {
			return nil, fmt.Errorf("record %d stands at place %d", r.Seq, len(h.records))
		}
		if err := h.take(r.Event); err != nil {
			return nil, fmt.Errorf("record %d: %w", r.Seq, err)
		}
	}
	return h, nil
}

func (h *history) take(ev session.Event) error {
	switch e := ev.(type) {
	case session.TurnStarted:
		h.turns++
	case session.TurnEnded:
		h.over++
	case session.RungChanged:
		h.rung = e.To.String()
		h.items = append(h.items, item{kind: "rung", state: h.rung})
	case session.Text:
		h.text += e.Text
		h.partial = h.partial || e.Partial
	case session.CallAnnounced:
		if h.calls[e.Call.ID] != nil {
			return fmt.Errorf("call %s is announced twice", e.Call.ID)
		}
		h.calls[e.Call.ID] = &fate{command: e.Title}
		h.order = append(h.order, e.Call.ID)
		h.items = append(h.items, item{kind: "announced", id: e.Call.ID})
	case session.Asked:
		return h.step(e.Request.CallID, "is asked", func(f *fate) bool { return f.ask == "" }, func(f *fate) { f.ask, f.rung = e.Request.ID, e.Request.Rung.String() })
	case session.Answered:
		return h.step(e.CallID, "is answered", func(f *fate) bool { return f.ask == e.AskID && f.answer == nil }, func(f *fate) { f.answer = &e })
	case session.Granted:
		if e.Refusal {
			h.refused[e.Grant.Entry.Pattern] = true
		} else {
			h.granted[e.Grant.Entry.Pattern] = true
		}
	case session.CallExecuting:
		h.items = append(h.items, item{kind: "executing", id: e.CallID})
		may := func(f *fate) bool {
			return !f.executing && (f.ask == "" || f.answer != nil && f.answer.Decision.Action == approvals.Approve)
		}
		return h.step(e.CallID, "starts", may, func(f *fate) { f.executing = true })
	case session.CallEnded:
		h.items = append(h.items, item{kind: "ended", id: e.CallID, state: string(e.State)})
		ran := e.State == session.CallCompleted || e.State == session.CallUnknown
		return h.step(e.CallID, "ends as "+string(e.State), func(f *fate) bool { return f.executing || !ran }, func(f *fate) { f.end = e.State })
	}
	return nil
}

// step moves a call on, if it may.
func (h *history) step(call, what string, may func(*fate) bool, do func(*fate)) error {
	f := h.calls[call]
	if f == nil || f.end != "" || !may(f) {
		return fmt.Errorf("call %s %s out of its turn: %+v", call, what, f)
	}
	do(f)
	return nil
}

// reported counts the calls of a command by how they ended.
func (h *history) reported(command string) (completed, unsure int) {
	for _, f := range h.calls {
		switch {
		case f.command != command || !f.executing:
		case f.end == session.CallCompleted:
			completed++
		default:
			unsure++
		}
	}
	return completed, unsure
}

// continues says how h is no continuation of was.
func (h *history) continues(was *history) error {
	if was == nil {
		return nil
	}
	if len(h.raw) < len(was.raw) {
		return fmt.Errorf("the log had %d records and has %d", len(was.raw), len(h.raw))
	}
	for i, line := range was.raw {
		if h.raw[i] != line {
			return fmt.Errorf("record %d changed from\n%s to\n%s", i+1, line, h.raw[i])
		}
	}
	return nil
}

// agrees says what a client was told that h does not hold. was is the log
// before that client came, nil when it made the session. The caller holds
// the peer's mu.
func (h *history) agrees(was *history, v *view) error {
	from, text := 0, ""
	if was != nil {
		from, text = len(was.items), was.text
	}
	if !within(h.items, from, v.live, was == nil) {
		return fmt.Errorf("the client was told\n%v, the log holds\n%v behind %d", v.live, h.items, from)
	}
	if rest := strings.TrimPrefix(h.text, text); !h.partial {
		for _, told := range v.texts {
			if !strings.HasPrefix(rest, told) {
				return fmt.Errorf("a finished turn told %q, the log holds %q", told, rest)
			}
		}
		if !strings.HasPrefix(rest, v.text) && !strings.HasPrefix(v.text, rest) {
			return fmt.Errorf("the client was told the text %q, the log holds %q", v.text, rest)
		}
	}
	if h.rung != v.rung && (v.pending == "" || h.rung != v.pending) {
		return fmt.Errorf("rung %s was acknowledged, %q asked for, the log stands at %s", v.rung, v.pending, h.rung)
	}
	before := 0
	if was != nil {
		before = was.turns
	}
	if h.over-before < len(v.texts) {
		return fmt.Errorf("%d prompts were answered, the log holds %d ends of %d turns", len(v.texts), h.over, h.turns)
	}
	for call := range v.asked {
		if f := h.calls[call]; f == nil || f.ask == "" {
			return fmt.Errorf("the client was asked about call %s, the log was not", call)
		}
	}
	return nil
}

// within reports whether part stands in all as one piece, at from or, unless
// exactly, behind it.
func within(all []item, from int, part []item, exactly bool) bool {
	for i := from; i+len(part) <= len(all); i++ {
		if slices.Equal(all[i:i+len(part)], part) {
			return true
		}
		if exactly {
			break
		}
	}
	return false
}

// stateOf returns how a call ended, as far as the client was told.
func (v *view) stateOf(call string) string {
	for _, is := range slices.Concat(v.live, v.replayed) {
		if is.id == call && is.kind != "executing" && is.state != "" {
			return is.state
		}
	}
	return ""
}

// told says what a replay should have told of the calls of was.
func (v *view) told(was *history) error {
	states := map[string]string{}
	for _, is := range v.replayed {
		states[is.id] = is.state
	}
	for id, f := range was.calls {
		state, ok := states[id]
		want := string(f.end)
		switch {
		case !ok:
			return fmt.Errorf("call %s was not told again", id)
		case f.end == "" && f.executing:
			want = string(session.CallUnknown)
		case f.end == "":
			continue
		}
		if state != want {
			return fmt.Errorf("call %s was told again as %q, want %q", id, state, want)
		}
	}
	return nil
}

// found is what a store holds.
type found struct {
	logs   map[string]string // as sessions show --json prints them
	grants map[string]bool   // commands that are allowed in the workspace
	asks   map[string]string // ids of the asks that can be answered, by call
}

// inspect reads the store as one more process of the user. It says so when
// a chain of decisions is broken.
func (w *world) inspect(ids ...string) (f *found, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	store, err := persistence.OpenShared(ctx, persistence.Options{Dir: filepath.Join(w.data, storeDir), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	f = &found{logs: map[string]string{}, grants: map[string]bool{}, asks: map[string]string{}}
	for _, id := range ids {
		records, err := store.After(ctx, session.ID(id), 0, 0)
		if err != nil {
			return nil, err
		}
		if _, _, err := session.Verify(records); err != nil {
			return nil, fmt.Errorf("verify session %s: %w", id, err)
		}
		for _, r := range records {
			line, err := session.EncodeRecord(r)
			if err != nil {
				return nil, err
			}
			f.logs[id] += string(line) + "\n"
		}
	}
	open, err := store.OpenAsks(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, a := range open {
		f.asks[a.Request.CallID] = a.Request.ID
	}
	grants, err := store.Grants(ctx, w.work)
	for _, g := range grants {
		f.grants[g.Entry.Pattern] = true
	}
	return f, err
}

// agrees compares what the command line shows with what was found.
func (f *found) agrees(w *world) error {
	for id, log := range f.logs {
		if out, err := w.cli("sessions", "show", "--json", id); err != nil || out != log {
			return fmt.Errorf("sessions show prints\n%s (%w), the store holds\n%s", out, err, log)
		}
	}
	if out, err := w.cli("sessions", "verify"); err != nil || strings.Contains(out, "BROKEN") {
		return fmt.Errorf("sessions verify: %w: %s", err, out)
	}
	out, err := w.cli("grants", "list", "--json")
	for c := range f.grants {
		if err != nil || !strings.Contains(out, `"pattern":"`+c+`"`) {
			return fmt.Errorf("grants list prints %s (%w), the store holds %v", out, err, f.grants)
		}
	}
	return nil
}
