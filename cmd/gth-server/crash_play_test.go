//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gth-server/gth-server/runner/runnertest"
	"github.com/gth-server/gth-server/session"
)

// turn is a scripted turn: words, and commands beside each other and beside
// reading.
func (r *round) turn() []runnertest.Reply {
	var replies []runnertest.Reply
	for range 1 + r.below(2) {
		reply := runnertest.Reply{Chunks: []string{"some ", "words ", "first "}, Pace: r.below(4), Delay: r.below(8)}
		for range 1 + r.below(3) {
			if r.chance(20) {
				reply.Calls = append(reply.Calls, runnertest.NewCall("read_file", map[string]string{"path": "file"}))
			} else {
				reply.Calls = append(reply.Calls, runnertest.Shell(r.someCommand()))
			}
		}
		replies = append(replies, reply)
	}
	return append(replies, runnertest.Reply{Text: "done. "})
}

// someCommand is mostly a new one, and sometimes one that may be granted.
func (r *round) someCommand() string {
	again := r.chance(20)
	r.mu.Lock()
	defer r.mu.Unlock()
	if again && len(r.past) > 0 {
		return r.past[r.rng.IntN(len(r.past))]
	}
	r.tags++
	c := fmt.Sprintf("note t%d", r.tags)
	r.past = append(r.past, c)
	return c
}

// decide answers a question, in one of the ways there are.
func (r *round) decide(p *peer, q *question, mustGoOn bool) string {
	time.Sleep(r.upTo(8 * time.Millisecond))
	if !mustGoOn && r.chance(8) {
		p.killWithin(r.upTo(100 * time.Millisecond)) // nobody answers any more
		return ""
	}
	choices := []string{"allow-once", "allow-once", "allow-once", "allow-session", "allow-workspace", "allow-workspace", "reject-once", "reject-once", "reject-session"}
	choice := choices[r.below(len(choices))]
	if !slices.Contains(q.options, choice) {
		r.fail("call %s is not offered %s but %v", q.command, choice, q.options)
		return ""
	}
	if r.chance(15) {
		open, err := r.inspect()
		if err != nil || open.asks[q.call] == "" {
			r.fail("the question about %s cannot be answered: %v", q.command, err)
			return ""
		}
		r.answerElsewhere(open.asks[q.call], q.call, q.command, choice)
		return ""
	}
	r.note(q.call, q.command, choice)
	return choice
}

// note remembers an answer that is about to be given.
func (r *round) note(call, command, choice string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[call] = &sent{choice: choice, life: r.life}
	switch {
	case strings.HasPrefix(choice, "reject"):
		r.rejected[command] = true
	case choice == "allow-workspace":
		r.granted[command] = true
	}
}

// answerElsewhere answers by a process of its own, which may be killed over
// it; then another one does it again.
func (r *round) answerElsewhere(ask, call, command, choice string) {
	r.note(call, command, choice)
	r.met.add("answers by another process", 1)
	if r.chance(30) {
		cmd := r.command("asks", "answer", ask, choice)
		if cmd.Start() == nil {
			time.Sleep(r.upTo(60 * time.Millisecond))
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			r.met.add("answering processes killed", 1)
		}
	}
	out, err := r.cli("asks", "answer", ask, choice)
	if err != nil && !strings.Contains(out, "was answered already") {
		r.fail("asks answer: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[call].acked = true
}

// answerAmongTheDead answers questions while no process has their session.
func (r *round) answerAmongTheDead() {
	open := r.left.asks
	for _, th := range r.all {
		for _, call := range th.was.order {
			if open[call] != "" && r.chance(30) && !r.failed {
				r.answerElsewhere(open[call], call, th.was.calls[call].command, []string{"allow-once", "allow-workspace", "reject-once"}[r.below(3)])
			}
		}
	}
}

// drive plays turns in each session, all beside each other.
func (r *round) drive(p *peer, all []*conversation) error {
	errs := make([]error, len(all))
	var drivers sync.WaitGroup
	for i, th := range all {
		drivers.Go(func() { errs[i] = r.driveOne(p, th) })
	}
	drivers.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, errGone) {
			return err
		}
	}
	return errors.Join(errs...)
}

func (r *round) driveOne(p *peer, th *conversation) error {
	rungs := []string{"manual", "write", "assisted", "assisted", "auto", "bypass"}
	for range 1 + r.below(2) {
		if r.chance(40) {
			if err := p.setRung(th.id, rungs[r.below(len(rungs))], r.chance(50)); err != nil {
				return err
			}
			r.met.add("rung changes", 1)
		}
		var during sync.WaitGroup
		var moved error
		if r.chance(20) {
			rung, wait := rungs[r.below(len(rungs))], r.upTo(80*time.Millisecond)
			during.Go(func() { time.Sleep(wait); moved = p.setRung(th.id, rung, true) })
			r.met.add("rung changes during turns", 1)
		}
		err := r.prompt(p, th, r.turn())
		during.Wait()
		if err = errors.Join(err, moved); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) prompt(p *peer, th *conversation, replies []runnertest.Reply) error {
	text, err := json.Marshal(replies)
	if err != nil {
		return err
	}
	stop, err := p.prompt(th.id, string(text))
	if err == nil && stop != "end_turn" {
		return fmt.Errorf("a turn ended with %s", stop)
	}
	return err
}

// adopt loads a session of a dead process, and waits until everything that
// it left is settled.
func (r *round) adopt(p *peer, th *conversation) error {
	begin := time.Now()
	if err := p.load(th.id, r.work); err != nil {
		return err
	}
	took := time.Since(begin)
	th.has, th.base = p, th.was
	if took > 6*time.Second {
		return fmt.Errorf("a dead process's session took %v to load", took)
	}
	if th.was == nil {
		return errors.New("a session was loaded whose log is not known")
	}
	var told error
	p.with(th.id, func(v *view) {
		told = v.told(th.was)
		if v.rung != th.was.rung {
			told = errors.Join(told, fmt.Errorf("the session stood at rung %s and stands at %s", th.was.rung, v.rung))
		}
	})
	if told != nil {
		return fmt.Errorf("load session %s: %w", th.id, told)
	}
	return r.settle(p, th)
}

// settle waits until each call of a loaded session has its end, and each
// question that nobody answered was asked again, in time.
func (r *round) settle(p *peer, th *conversation) error {
	const inTime = 2 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		missing := ""
		p.with(th.id, func(v *view) {
			for call, f := range th.was.calls {
				if v.stateOf(call) == "" {
					missing = fmt.Sprintf("call %s %+v has no end", call, *f)
				} else if state := v.stateOf(call); state != string(session.CallCompleted) && r.mustHaveRun(th, call) {
					end, missing = time.Time{}, fmt.Sprintf("call %s %+v was allowed and ended as %s", call, *f, state)
				}
				q := v.asked[call]
				if th.was.open(f) && r.answered(call) == nil {
					switch {
					case q == nil && time.Since(v.ready) > inTime:
						end, missing = time.Time{}, fmt.Sprintf("the question about %s did not come again in %v", f.command, inTime)
					case q != nil && q.at.Sub(v.ready) > inTime:
						end, missing = time.Time{}, fmt.Sprintf("the question about %s came again after %v", f.command, q.at.Sub(v.ready))
					}
				}
			}
		})
		switch {
		case missing == "":
			return nil
		case time.Now().After(end):
			return fmt.Errorf("load session %s: %s", th.id, missing)
		}
		select {
		case <-p.gone:
			return p.failure(errors.New("the program ended"))
		default:
		}
	}
}

// mustHaveRun reports whether nothing but a kill could keep a call from
// running that waited when its session was loaded: it was allowed, at the
// rung that it was asked at, and not by a process that died over it.
func (r *round) mustHaveRun(th *conversation, call string) bool {
	f, s := th.was.calls[call], r.answered(call)
	r.mu.Lock()
	defer r.mu.Unlock()
	return f.ask != "" && f.answer == nil && f.end == "" && s != nil && s.life == r.life &&
		strings.HasPrefix(s.choice, "allow") && f.rung == th.was.rung && !r.rejected[f.command]
}

func (r *round) answered(call string) *sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[call]
}

// useGrants runs commands that were granted: nobody is asked about them.
func (r *round) useGrants(p *peer) error {
	store, err := r.inspect()
	if err != nil {
		return err
	}
	have := store.grants
	th := r.all[r.below(len(r.all))]
	if err := p.setRung(th.id, "assisted", true); err != nil {
		return err
	}
	var calls []runnertest.Call
	for _, c := range slices.Sorted(maps.Keys(have)) {
		if !r.rejected[c] && len(calls) < 2 {
			calls = append(calls, runnertest.Shell(c))
		}
	}
	if len(calls) == 0 {
		return r.prompt(p, th, []runnertest.Reply{{Text: "nothing to do"}})
	}
	asked := func() (n int) { p.with(th.id, func(v *view) { n = len(v.asked) }); return n }
	before, were := asked(), r.noted()
	if err := r.prompt(p, th, []runnertest.Reply{{Calls: calls}, {Text: "done"}}); err != nil {
		return err
	}
	if n := asked() - before; n > 0 {
		return fmt.Errorf("%d questions about commands that are granted: %v", n, have)
	}
	if n := total(r.noted()) - total(were); n != len(calls) {
		return fmt.Errorf("%d of %d granted commands ran", n, len(calls))
	}
	r.met.add("grants of a workspace", len(calls))
	return nil
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// autopsy reads what a process left, and compares that with what it had
// told.
func (r *round) autopsy(p *peer, last bool) {
	marks := r.noted()
	ids := make([]string, len(r.all))
	for i, th := range r.all {
		ids[i] = th.id
	}
	store, err := r.inspect(ids...)
	if err == nil && last {
		err = store.agrees(r.world)
	}
	if err != nil {
		r.fail("%v", err)
		return
	}
	r.left = store
	for c := range store.grants {
		if !r.granted[c] {
			r.fail("nobody granted %s", c)
		}
	}
	for _, th := range r.all {
		h, err := readHistory(store.logs[th.id])
		if err != nil {
			r.fail("session %s: %v\n%s", th.id, err, store.logs[th.id])
			return
		}
		if err := errors.Join(h.continues(th.was), r.holds(p, th, h), r.answers(h, store.grants, last)); err != nil {
			r.fail("session %s: %v", th.id, err)
		}
		r.count(p, th, h, marks, last)
		th.was = h
	}
	r.effects(last)
}

// holds compares a log with what the client of p was told.
func (r *round) holds(p *peer, th *conversation, h *history) error {
	if th.has != p {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.view(th.id)
	if v.ready.IsZero() {
		return nil
	}
	for call, q := range v.asked {
		f := h.calls[call]
		if s := r.answered(call); f != nil && q.choice != "" && f.end != "" && f.answer == nil && s != nil {
			return fmt.Errorf("call %s ended as %s, and its answer %s is lost", call, f.end, s.choice)
		}
	}
	return h.agrees(th.base, v)
}

// answers compares the answers in a log with those that were given.
func (r *round) answers(h *history, grants map[string]bool, last bool) error {
	for call, f := range h.calls {
		s := r.answered(call)
		switch {
		case f.answer == nil:
		case s == nil:
			return fmt.Errorf("the log holds the answer %s about %s that nobody gave", f.answer.Answer.Choice, f.command)
		case f.answer.Answer.Choice.String() != s.choice:
			return fmt.Errorf("the log holds the answer %s about %s, which was answered %s", f.answer.Answer.Choice, f.command, s.choice)
		}
		if s == nil {
			continue
		}
		if last && f.answer == nil {
			return fmt.Errorf("the answer %s about %s is lost", s.choice, f.command)
		}
		if s.choice == "allow-workspace" && (s.acked || f.answer != nil) && !grants[f.command] {
			return fmt.Errorf("%s was granted and is not", f.command)
		}
		if strings.HasPrefix(s.choice, "reject") && f.executing {
			return fmt.Errorf("%s was rejected and ran", f.command)
		}
	}
	return nil
}

// count says where a kill landed, and what there was to see.
func (r *round) count(p *peer, th *conversation, h *history, marks map[string]int, last bool) {
	if last {
		return
	}
	if th.has != p {
		if th.has.dead() {
			r.phases.add("before it was loaded", 1)
		}
		return
	}
	r.phases.add(h.phase(marks), 1)
	for call, f := range h.calls {
		s := r.answered(call)
		if f.executing && f.end == "" {
			r.met.add("outcome unknown", 1)
		}
		if h.open(f) && s == nil {
			r.met.add("asked again", 1)
		}
		if f.ask != "" && f.end == "" && !f.executing && s != nil && strings.HasPrefix(s.choice, "allow") {
			r.met.add("run after a load", 1)
		}
		if f.answer != nil && strings.HasPrefix(f.answer.Answer.Choice.String(), "reject") {
			r.met.add("rejections", 1)
		}
	}
}

// phase names where a session stood.
func (h *history) phase(marks map[string]int) string {
	phase, pending := "", 0
	for _, id := range h.order {
		f := h.calls[id]
		if f.end != "" {
			continue
		}
		pending++
		completed, _ := h.reported(f.command)
		switch {
		case f.executing && marks[f.command] > completed:
			return "running, after the effect"
		case f.executing:
			return "running, before the effect"
		case f.answer != nil:
			phase = "answered, not started"
		case f.ask != "" && phase == "":
			phase = "asked"
		}
	}
	switch {
	case phase != "":
		return phase
	case pending > 0:
		return "announced"
	case h.turns > h.over:
		return "in a model's answer"
	}
	return "between turns"
}

// effects compares what ran with what was reported.
func (r *round) effects(last bool) {
	unsure := map[string]int{}
	completed := map[string]int{}
	for _, th := range r.all {
		for _, f := range th.was.calls {
			switch {
			case !f.executing:
			case f.end == session.CallCompleted:
				completed[f.command]++
			default:
				unsure[f.command]++
			}
		}
	}
	var marks map[string]int
	for end := time.Now().Add(100 * time.Millisecond); ; time.Sleep(5 * time.Millisecond) {
		// What a killed process had started may still come to its effect.
		marks = r.noted()
		if !last || time.Now().After(end) || total(marks) >= total(completed)+total(unsure) {
			break
		}
	}
	for c, n := range marks {
		if n > completed[c]+unsure[c] {
			r.fail("%s ran %d times, of %d that were reported and %d that are unknown", c, n, completed[c], unsure[c])
		}
	}
	for _, c := range r.past {
		if marks[c] < completed[c] {
			r.fail("%s ran %d times and was reported %d times", c, marks[c], completed[c])
		}
	}
	r.met.add("commands run", total(marks))
}
