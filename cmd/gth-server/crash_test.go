//go:build unix

package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gth-server/gth-server/runner/runnertest"
)

// The crash test kills the program at random moments, and holds what it
// finds afterwards against what its clients had been told.

// crashRounds is how many rounds are played; each kills once or more.
func crashRounds() int {
	if os.Getenv("GTH_LONG") == "1" {
		return 1000
	}
	return 50
}

// crashSeed is the seed of the rounds, the same one again when it is given.
func crashSeed(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("GTH_CRASH_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("GTH_CRASH_SEED: %v", err)
		}
	}
	t.Logf("seed %d: GTH_CRASH_SEED=%d plays the same rounds, though not to the microsecond", seed, seed)
	return seed
}

// crashers is how many rounds are played beside each other: they mostly
// wait.
const crashers = 4

// tally counts what the rounds of a test met.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what] += n
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, k := range slices.Sorted(maps.Keys(c.n)) {
		out = append(out, fmt.Sprintf("%s %d", k, c.n[k]))
	}
	return strings.Join(out, ", ")
}

// playRounds plays n rounds and returns what they met.
func playRounds(t *testing.T, n int, play func(*round)) (phases, met *tally) {
	bin, model, seed := program(t), runnertest.NewServer(t), crashSeed(t)
	phases, met = &tally{n: map[string]int{}}, &tally{n: map[string]int{}}
	next, dir := make(chan int), t.TempDir()
	var players sync.WaitGroup
	for range crashers {
		players.Go(func() {
			for i := range next {
				w, err := newWorld(bin, dir, strconv.Itoa(i), model.URL)
				if err != nil {
					t.Error(err)
					continue
				}
				r := &round{
					world: w, t: t, number: i, name: fmt.Sprintf("round %d", i), rng: rand.New(rand.NewPCG(seed, uint64(i))),
					phases: phases, met: met, sent: map[string]*sent{}, rejected: map[string]bool{}, granted: map[string]bool{},
				}
				play(r)
				if r.failed {
					errs, _ := os.ReadFile(w.stderr)
					t.Logf("%s: %s\nstandard error of its processes:\n%s", r.name, r.kills, errs)
				} else {
					_ = os.RemoveAll(w.dir)
				}
			}
		})
	}
	for i := range n {
		if end, ok := t.Deadline(); ok && time.Until(end) < 2*patience {
			t.Errorf("%d of %d rounds were played when the time of the test was nearly over: give it a longer -timeout", i, n)
		}
		if t.Failed() {
			break
		}
		next <- i
	}
	close(next)
	players.Wait()
	return phases, met
}

// TestCrash kills a process that is alone with its store, up to three times
// in a round, and lets the next one go on.
func TestCrash(t *testing.T) {
	n := crashRounds() * 4 / 5
	begin := time.Now()
	phases, met := playRounds(t, n, (*round).alone)
	t.Logf("%d rounds in %v; kills by phase: %s", n, time.Since(begin).Round(time.Second), phases)
	t.Logf("met: %s", met)
	if t.Failed() {
		return
	}
	for _, phase := range []string{"in a model's answer", "asked", "answered, not started", "running, before the effect", "running, after the effect"} {
		if phases.n[phase] == 0 {
			chance(t, "no kill landed in the phase %q of %s", phase, phases)
		}
	}
	for _, what := range []string{"asked again", "outcome unknown", "run after a load", "grants of a workspace", "rung changes", "rejections", "answers by another process"} {
		if met.n[what] == 0 {
			chance(t, "no round met %q: %s", what, met)
		}
	}
}

// TestCrashSurvivor kills one of two processes that share a store; the
// other one goes on, and then takes over what the first one had.
func TestCrashSurvivor(t *testing.T) {
	n := crashRounds() / 5
	begin := time.Now()
	phases, met := playRounds(t, n, (*round).together)
	t.Logf("%d rounds in %v; kills by phase: %s", n, time.Since(begin).Round(time.Second), phases)
	t.Logf("met: %s", met)
	for _, what := range []string{"serving processes killed", "joined processes killed", "sessions taken over"} {
		if met.n[what] == 0 && !t.Failed() {
			chance(t, "no round met %q: %s", what, met)
		}
	}
}

// round is one story: sessions, the processes that have them in turn, and
// what is known about both from outside.
type round struct {
	*world
	t           *testing.T
	number      int
	name        string
	kills       string
	failed      bool
	phases, met *tally

	mu       sync.Mutex
	rng      *rand.Rand
	tags     int
	past     []string         // commands that were prompted
	sent     map[string]*sent // answers by call
	rejected map[string]bool  // commands that any question about was rejected
	granted  map[string]bool  // commands that a workspace grant was asked for
	all      []*conversation
	left     *found // what the last process left
	life     int    // how many processes had the sessions before
}

// sent is an answer that was given to a question.
type sent struct {
	choice string
	acked  bool // by asks answer
	life   int  // in which it was given
}

// conversation is a session over all its processes.
type conversation struct {
	id   string
	has  *peer    // who has it
	base *history // as has found it, nil when it made it
	was  *history // as it was found the last time, nil before
}

func (r *round) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("%s: %s", r.name, fmt.Sprintf(format, args...))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *round) below(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.IntN(n)
}

func (r *round) chance(percent int) bool { return r.below(100) < percent }

func (r *round) upTo(d time.Duration) time.Duration { return time.Duration(r.below(int(d) + 1)) }

// points are the moments of a turn that nothing may miss; each is the first
// aim of every so many rounds.
var points = []aim{
	{"text", 1, 0}, {"asked", 1, 0}, {"answering", 1, 4 * time.Millisecond}, {"executing", 1, 0}, {"effect", 1, 0}, {"ended", 1, 0},
}

// someAim spreads kills over what a client can see, and over time.
func (r *round) someAim() aim {
	if r.life == 0 && r.number%2 == 0 {
		return points[r.number/2%len(points)]
	}
	switch points := []string{"opened", "loaded", "announced", "asked", "answering", "answering", "executing", "effect", "ended", "rung", "text", "prompted"}; r.below(4) {
	case 0:
		return aim{"start", 1, r.upTo(700 * time.Millisecond)}
	case 1:
		return aim{"line", 1 + r.below(40), r.upTo(3 * time.Millisecond)}
	default:
		a := aim{points[r.below(len(points))], 1 + r.below(3), r.upTo(25 * time.Millisecond)}
		if r.chance(50) {
			a.delay = r.upTo(2 * time.Millisecond)
		}
		return a
	}
}

// alone plays a round with one process at a time.
func (r *round) alone() {
	lives := 1 + 1 + r.below(3)
	for life := 1; life <= lives && !r.failed; life++ {
		last, a := life == lives, aim{}
		if !last {
			a = r.someAim()
			r.kills += a.String() + "; "
		}
		if !r.live(a, last) {
			return
		}
	}
}

// live is one process from its start to its kill or, the last one, its
// end. It reports whether the round can go on.
func (r *round) live(a aim, last bool) bool {
	p, err := launch(r.world, a, func(p *peer, q *question) string { return r.decide(p, q, last) })
	if p == nil {
		r.fail("the program does not start: %v", err)
		return false
	}
	if err == nil {
		err = r.use(p, last)
	}
	if err != nil && !errors.Is(err, errGone) {
		r.fail("%v", err)
	}
	if last && !r.failed {
		if err := p.quit(); err != nil {
			r.fail("the program ended with %v", err)
		}
	} else {
		p.bury()
	}
	if !r.failed {
		r.autopsy(p, last)
	}
	r.life++
	if !last && !r.failed {
		r.answerAmongTheDead()
	}
	return !r.failed
}

// use opens what there is and plays turns.
func (r *round) use(p *peer, last bool) error {
	for len(r.all) == 0 || len(r.all) < 2 && r.chance(40) {
		id, err := p.open(r.work)
		if id != "" {
			r.all = append(r.all, &conversation{id: id, has: p})
		}
		if err != nil {
			return err
		}
	}
	for _, th := range r.all {
		if th.has == p {
			continue
		}
		if err := r.adopt(p, th); err != nil {
			return err
		}
	}
	if err := r.drive(p, r.all); err != nil || !last {
		return err
	}
	return r.useGrants(p)
}

// together plays a round with two processes.
func (r *round) together() {
	victim := r.number % 2 // the one that serves the store, or the other one
	a := r.someAim()
	r.kills = fmt.Sprintf("process %d of 2, %v", victim+1, a)
	var peers [2]*peer
	for i := range peers {
		is := aim{}
		if i == victim {
			is = a
		}
		p, err := launch(r.world, is, func(p *peer, q *question) string { return r.decide(p, q, i != victim) })
		if err != nil && !errors.Is(err, errGone) {
			r.fail("%v", err)
			return
		}
		defer p.bury()
		peers[i] = p
	}
	var both sync.WaitGroup
	for i, p := range peers {
		both.Go(func() {
			id, err := p.open(r.work)
			if err == nil {
				th := &conversation{id: id, has: p}
				r.mu.Lock()
				r.all = append(r.all, th)
				r.mu.Unlock()
				err = r.drive(p, []*conversation{th})
			}
			if err != nil && (i != victim || !errors.Is(err, errGone)) {
				r.fail("process %d: %v", i+1, err)
			}
			if i == victim {
				p.bury()
			}
		})
	}
	both.Wait()
	dead, alive := peers[victim], peers[1-victim]
	if r.failed {
		return
	}
	r.met.add([]string{"serving processes killed", "joined processes killed"}[victim], 1)
	r.autopsy(dead, false)
	r.life++
	for _, th := range r.all {
		if r.failed {
			return
		}
		if th.has == dead {
			if err := r.adopt(alive, th); err != nil {
				r.fail("the survivor: %v", err)
				return
			}
			r.met.add("sessions taken over", 1)
		}
	}
	err := r.drive(alive, r.all)
	if err == nil {
		err = r.useGrants(alive)
	}
	if err == nil {
		err = alive.quit()
	}
	if err != nil {
		r.fail("the survivor: %v", err)
		return
	}
	r.autopsy(alive, true)
}

// chance reports what a long run must meet and a short one may miss.
func chance(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("GTH_LONG") != "" {
		t.Errorf(format, args...)
		return
	}
	t.Logf(format, args...)
}
