package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// claimer asks three questions a turn and claims what was approved twice.
// It counts the claims that were given per ask.
type claimer struct {
	mu     sync.Mutex
	claims map[string]int
}

func (c *claimer) script() sessiontest.Script {
	return sessiontest.Script{
		sessiontest.Show(delta("m", "thinking")),
		sessiontest.Emit(session.Text{Message: "m", Text: "thinking"}),
		sessiontest.Ask(func(ctx context.Context, turn *session.Turn, settled []session.Settled) error {
			var wg sync.WaitGroup
			for range 2 {
				for _, s := range settled {
					wg.Go(func() { c.claim(ctx, turn, s) })
				}
			}
			wg.Wait()
			return turn.AppendSync(ctx, session.CallEnded{CallID: "1", State: session.CallCompleted})
		}, offering("1"), offering("2"), request("3")),
	}
}

func (c *claimer) claim(ctx context.Context, turn *session.Turn, s session.Settled) {
	if turn.Claim(ctx, s.Request.ID, s.Request.Digest) == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.claims[s.Request.ID]++
	}
}

// checkAsks fails unless every ask of the log was settled at most once, as
// the store says, and claimed at most once and only when it was approved.
func (c *claimer) checkAsks(t testing.TB, st session.Store, recs []session.Record) {
	t.Helper()
	settled := map[string]int{}
	for _, a := range only[session.Answered](recs) {
		settled[a.AskID]++
		stored, err := st.GetAsk(context.Background(), a.AskID)
		if err != nil || stored.Answer == nil || stored.Answer.By != a.Answer.By || stored.Answer.Choice != a.Answer.Choice {
			t.Errorf("ask %s is logged as %+v and stored as %+v, %v", a.AskID, a.Answer, stored.Answer, err)
		}
		c.mu.Lock()
		claims := c.claims[a.AskID]
		c.mu.Unlock()
		if claims > 1 || claims == 1 && a.Decision.Action != approvals.Approve || (claims == 1) != (stored.State == session.AskClaimed) {
			t.Errorf("ask %s became %v, is %s, and was claimed %d times", a.AskID, a.Decision.Action, stored.State, claims)
		}
	}
	for _, a := range only[session.Asked](recs) {
		// Those that were open when the session closed are open still.
		stored, err := st.GetAsk(context.Background(), a.Request.ID)
		if n := settled[a.Request.ID]; err != nil || n > 1 || n == 0 && stored.State == session.AskClaimed {
			t.Errorf("ask %s was settled %d times and is %s, %v", a.Request.ID, n, stored.State, err)
		}
	}
}

func choices() []approvals.Choice {
	return []approvals.Choice{approvals.RejectOnce, approvals.RejectSession, approvals.AllowOnce, approvals.AllowSession, approvals.AllowWorkspace, approvals.Unanswered}
}

// TestStress runs many sessions at once, each with several people who
// answer, cancel, move the rung and close at random.
func TestStress(t *testing.T) {
	sessions, turns := 50, 5
	if testing.Short() {
		sessions, turns = 10, 3
	}
	c := &claimer{claims: map[string]int{}}
	st := session.NewMemory()
	m := session.NewManager(t.Context(), session.Options{Store: st, NewRunner: sessiontest.NewRunner(c.script())})
	dir := t.TempDir()
	var ids sync.Map
	var ran, answers atomic.Int64
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			s, err := m.Create(t.Context(), session.Spec{Cwd: dir})
			if err != nil {
				t.Error(err)
				return
			}
			ids.Store(s.ID(), true)
			n, a := disturb(t, s, turns, uint64(i))
			ran.Add(n)
			answers.Add(a)
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	records := 0
	ids.Range(func(id, _ any) bool {
		recs := wholeLog(t, st, id.(session.ID))
		records += len(recs)
		checkLog(t, recs)
		c.checkAsks(t, st, recs)
		return true
	})
	t.Logf("%d sessions, %d turns, %d answers, %d claims, %d records", sessions, ran.Load(), answers.Load(), len(c.claims), records)
	if ran.Load() == 0 || answers.Load() == 0 || len(c.claims) == 0 {
		t.Error("nothing happened")
	}
}

// disturb plays turns while others answer, cancel and move the rung.
func disturb(t *testing.T, s *session.Session, turns int, seed uint64) (ran, answers int64) {
	var others sync.WaitGroup
	var given atomic.Int64
	for p := range uint64(3) {
		sub := s.Subscribe(0)
		random := rand.New(rand.NewPCG(seed, p))
		others.Go(func() {
			defer sub.Close()
			for {
				r, err := sub.Next(t.Context())
				if err != nil {
					return
				}
				asked, ok := r.Event.(session.Asked)
				if !ok {
					continue
				}
				switch random.IntN(12) {
				case 0:
					s.Cancel(errors.New("enough"))
				case 1:
					_ = s.SetRung(t.Context(), approvals.Rungs()[random.IntN(5)], "test") // closing is no fault here
				case 2, 3, 4:
					if p != 0 { // somebody answers
						continue
					}
				}
				a := approvals.Answer{Choice: choices()[random.IntN(6)], By: fmt.Sprint(p)}
				if _, err := s.Answer(t.Context(), asked.Request.ID, a); err == nil {
					given.Add(1)
				} else if !errors.Is(err, session.ErrConflict) && !errors.Is(err, session.ErrClosed) {
					t.Errorf("answer: %v", err)
				}
			}
		})
	}
	for n := range turns {
		if _, err := s.Start(t.Context(), prompt(session.AskWait)); err != nil {
			t.Errorf("start: %v", err)
			break
		}
		ran++
		if n == turns-1 && seed%2 == 0 {
			break // close while it runs
		}
		if err := s.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	others.Wait()
	return ran, given.Load()
}

// TestAnyOrderSettlesOnce plays answers, duplicates and cancellations of
// one turn in any order.
func TestAnyOrderSettlesOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &claimer{claims: map[string]int{}}
		st := session.NewMemory()
		m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner(c.script())})
		s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
		if err != nil {
			rt.Fatal(err)
		}
		startAsking(t, s)
		open, err := st.OpenAsks(t.Context(), s.ID())
		if err != nil || len(open) != 3 {
			rt.Fatal(open, err)
		}
		first := map[string]*string{} // ask to who answered it
		var wg sync.WaitGroup
		for i := range rapid.IntRange(1, 12).Draw(rt, "acts") {
			id := open[rapid.IntRange(0, 2).Draw(rt, "ask")].Request.ID
			act := rapid.IntRange(0, 6).Draw(rt, "act")
			a := approvals.Answer{By: fmt.Sprint(i)}
			if act < 6 {
				a.Choice = choices()[act]
			}
			do := func() {
				if act == 6 {
					s.Cancel(errors.New("enough"))
					return
				}
				if _, err := s.Answer(context.Background(), id, a); err != nil && !errors.Is(err, session.ErrConflict) {
					t.Errorf("answer: %v", err)
				}
			}
			if rapid.Bool().Draw(rt, "at once") {
				wg.Go(do)
				continue
			}
			wg.Wait()
			do()
			stored, err := st.GetAsk(t.Context(), id)
			if err != nil {
				rt.Fatal(err)
			}
			if was := first[id]; was != nil && *was != stored.Answer.By {
				rt.Fatalf("the answer of %s was replaced by that of %s", *was, stored.Answer.By)
			} else if stored.Answer != nil {
				first[id] = &stored.Answer.By
			}
		}
		wg.Wait()
		s.Cancel(errors.New("the end"))
		if err := s.Wait(t.Context()); err != nil {
			rt.Fatal(err)
		}
		recs := wholeLog(t, st, s.ID())
		checkLog(t, recs)
		c.checkAsks(t, st, recs)
		if n := len(only[session.Answered](recs)); n != 3 {
			rt.Errorf("%d of 3 asks were settled", n)
		}
		if err := s.Close(t.Context()); err != nil {
			rt.Error(err)
		}
	})
}
