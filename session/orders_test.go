package session_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// life is one session that lives through several processes.
type life struct {
	t      *testing.T
	rt     *rapid.T
	shared session.Store
	id     session.ID

	mu      sync.Mutex // guards what follows up to the blank line
	proc    *sessiontest.Process
	effects map[string]int
	dieAt   string // where the next call finds its process killed

	m     *session.Manager
	s     *session.Session
	old   []*session.Manager
	acks  map[string]approvals.Answer // acknowledged answers by ask
	known []session.Record
	did   map[string]int
	given int
}

// callsPerTurn is how many calls each turn asks for.
const callsPerTurn = 3

func (l *life) script() sessiontest.Script {
	return sessiontest.Script{func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		if t.Prompt().OnAsk == session.AskFail {
			return session.StopEndTurn, nil
		}
		var reqs []approvals.Request
		for i := range callsPerTurn {
			r := offering(fmt.Sprintf("%s-%d", t.ID(), i))
			reqs = append(reqs, r)
			if err := t.Append(ctx, session.CallAnnounced{Call: approvals.Call{ID: r.CallID, Tool: r.Tool, Arguments: r.Arguments}}); err != nil {
				return "", err
			}
		}
		settled, err := t.Ask(ctx, reqs)
		if err != nil {
			return "", err
		}
		return session.StopEndTurn, l.run(ctx, t, settled)
	}}
}

// run is a runner's way with settled calls, which dies where it should.
func (l *life) run(ctx context.Context, t *session.Turn, settled []session.Settled) error {
	l.die("before")
	return sessiontest.RunSettled(func(call string) string {
		l.die("started")
		l.mu.Lock()
		proc := l.proc
		l.mu.Unlock()
		proc.Alive(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.effects[call]++
		})
		l.die("ran")
		return "ran"
	})(ctx, t, settled)
}

func (l *life) die(at string) {
	l.mu.Lock()
	hit, proc := l.dieAt == at, l.proc
	if hit {
		l.dieAt = ""
	}
	l.mu.Unlock()
	if hit {
		proc.Kill()
	}
}

// start makes a process and opens the session in it.
func (l *life) start() {
	l.mu.Lock()
	l.proc = sessiontest.NewProcess(l.shared)
	proc := l.proc
	l.mu.Unlock()
	l.m = session.NewManager(context.Background(), session.Options{Store: proc, NewRunner: sessiontest.NewResuming(l.run, l.script())})
	l.old = append(l.old, l.m)
	var err error
	if l.id == "" {
		if l.s, err = l.m.Create(context.Background(), session.Spec{Cwd: "/"}); err == nil {
			l.id = l.s.ID()
		}
	} else {
		l.s, err = l.m.Open(context.Background(), l.id)
	}
	if err != nil && proc.Alive(func() {}) {
		l.rt.Fatalf("open: %v", err)
	}
	if err != nil {
		l.restart() // it was killed while it opened
	}
}

// restart goes on in another process, after the death of this one or a
// proper end of its session.
func (l *life) restart() {
	if err := l.m.Close(context.Background()); err != nil && l.proc.Alive(func() {}) {
		l.rt.Fatalf("close: %v", err)
	}
	l.start()
}

func (l *life) crash() {
	l.proc.Kill()
	l.start() // while the goroutines of the dead one still run
}

// answer gives one ask of the session any answer, here or from outside.
func (l *life) answer() {
	var asks []string
	for _, r := range wholeLog(l.t, l.shared, l.id) {
		if a, ok := r.Event.(session.Asked); ok {
			asks = append(asks, a.Request.ID)
		}
	}
	if len(asks) == 0 {
		return
	}
	id := asks[len(asks)-1-rapid.IntRange(0, min(len(asks)-1, 2*callsPerTurn)).Draw(l.rt, "ask")]
	l.give(id, rapid.SampledFrom(choices()).Draw(l.rt, "choice"))
}

// allowAll allows what is open, in the order of the store.
func (l *life) allowAll() {
	open, err := l.shared.OpenAsks(context.Background(), l.id)
	if err != nil {
		l.rt.Fatal(err)
	}
	for _, ask := range open {
		l.give(ask.Request.ID, approvals.AllowOnce)
	}
}

func (l *life) give(id string, c approvals.Choice) {
	l.given++
	a := approvals.Answer{Choice: c, By: fmt.Sprint("person ", l.given), At: time.Now().UTC().Round(0)}
	var stored session.StoredAsk
	var err error
	if rapid.Bool().Draw(l.rt, "outside") {
		stored, err = session.Answer(context.Background(), l.shared, id, a)
	} else {
		stored, err = l.s.Answer(context.Background(), id, a)
	}
	was, acked := l.acks[id]
	switch {
	case err == nil && acked:
		l.rt.Fatalf("ask %s took a second answer", id)
	case err == nil:
		l.acks[id] = a
	case errors.Is(err, session.ErrConflict) && acked && (stored.Answer == nil || cmp.Diff(was, *stored.Answer) != ""):
		l.rt.Fatalf("a late answer to ask %s was told %+v, the first was %+v", id, stored.Answer, was)
	}
}

// step does one thing.
func (l *life) step() {
	acts := map[string]func(){
		"answer": l.answer, "answer again": l.answer, "allow all": l.allowAll, "allow all again": l.allowAll,
		"prompt":   func() { l.prompt(session.AskWait) },
		"queue":    func() { l.prompt(session.AskQueue) },
		"continue": func() { _, _ = l.s.Continue(context.Background(), prompt(session.AskFail)) }, // busy, asked or dead
		"cancel":   func() { l.s.Cancel(errors.New("enough")) },
		"lost":     func() { l.s.Cancel(session.ErrOwnerLost) },
		"reopen":   l.restart,
		"crash":    l.crash,
		"crash later": func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.dieAt = rapid.SampledFrom([]string{"before", "started", "ran"}).Draw(l.rt, "where")
		},
		"wait": func() { time.Sleep(time.Millisecond) },
	}
	act := rapid.SampledFrom(slices.Sorted(maps.Keys(acts))).Draw(l.rt, "act")
	l.did[act]++
	acts[act]()
	recs := wholeLog(l.t, l.shared, l.id)
	if len(recs) < len(l.known) || !slices.EqualFunc(l.known, recs[:len(l.known)], sameRecord) {
		l.rt.Fatalf("after %s the log is not a continuation of what it was", act)
	}
	l.known = recs
	if !l.proc.Alive(func() {}) {
		l.restart()
	}
}

// sameRecord compares records by their encoding.
func sameRecord(a, b session.Record) bool {
	x, errX := session.EncodeRecord(a)
	y, errY := session.EncodeRecord(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// prompt starts a turn when none runs, which settles what is open.
func (l *life) prompt(on session.OnAsk) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := l.s.Start(ctx, prompt(on)); err != nil && !errors.Is(err, session.ErrBusy) && l.proc.Alive(func() {}) {
		l.rt.Fatalf("start: %v", err)
	}
}

// check holds the whole life to what is promised, once everything is over.
func (l *life) check() {
	recs := wholeLog(l.t, l.shared, l.id)
	checkLog(l.t, recs)
	if _, _, err := session.Verify(recs); err != nil {
		l.rt.Fatalf("verify: %v", err)
	}
	ends := map[string]session.CallEnded{}
	for _, e := range only[session.CallEnded](recs) {
		if _, twice := ends[e.CallID]; twice {
			l.rt.Fatalf("call %s ended twice", e.CallID)
		}
		ends[e.CallID] = e
	}
	answered := map[string]session.Answered{}
	for _, a := range only[session.Answered](recs) {
		if _, twice := answered[a.AskID]; twice {
			l.rt.Fatalf("ask %s was answered twice in the log", a.AskID)
		}
		answered[a.AskID] = a
	}
	for id, a := range l.acks {
		if got, ok := answered[id]; !ok || cmp.Diff(a, got.Answer) != "" {
			l.rt.Fatalf("the acknowledged answer %+v to ask %s is in the log as %+v", a, id, got)
		}
	}
	for _, asked := range only[session.Asked](recs) {
		call, effects := asked.Request.CallID, l.effects[asked.Request.CallID]
		end, ended := ends[call]
		a, settled := answered[asked.Request.ID]
		approved := settled && a.Decision.Action == approvals.Approve
		switch {
		case !ended && settled:
			l.rt.Fatalf("call %s was settled and has no end", call)
		case effects > 1, effects > 0 && !approved:
			l.rt.Fatalf("call %s ran %d times, approved %v", call, effects, approved)
		case ended && end.State == session.CallCompleted && effects != 1:
			l.rt.Fatalf("call %s has the result %q and ran %d times", call, end.Result, effects)
		case ended && end.State != session.CallCompleted && end.State != session.CallUnknown && effects != 0:
			l.rt.Fatalf("call %s is %s and ran", call, end.State)
		}
	}
}

// TestAnyOrderRunsOnce plays answers, duplicates, cancellations, lost
// owners, crashes and new prompts of one session in any order.
func TestAnyOrderRunsOnce(t *testing.T) {
	did, ran := map[string]int{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		l := &life{t: t, rt: rt, shared: session.NewMemory(), effects: map[string]int{}, acks: map[string]approvals.Answer{}, did: did}
		defer func() {
			for _, m := range l.old {
				_ = m.Close(context.Background()) // its process may be dead
			}
		}()
		l.start()
		l.prompt(session.AskWait)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			l.step()
		}
		// The last process settles everything.
		l.mu.Lock()
		l.dieAt = ""
		l.mu.Unlock()
		l.crash()
		if err := l.s.Wait(t.Context()); err != nil {
			rt.Fatal(err)
		}
		if err := l.s.Close(t.Context()); err != nil {
			rt.Fatal(err)
		}
		l.check()
		ran += len(l.effects)
	})
	t.Logf("%d calls ran, %v", ran, did)
	if ran == 0 {
		t.Error("no call ran")
	}
}
