package session

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gth-server/gth-server/approvals"
)

func bornAt(id string, r approvals.Rung) approvals.Grant { return approvals.Grant{ID: id, Rung: r} }

func TestFold(t *testing.T) {
	grants := func(ids ...string) []approvals.Grant {
		var gs []approvals.Grant
		for _, id := range ids {
			r, err := approvals.ParseRung(id)
			if err != nil {
				t.Fatal(err)
			}
			gs = append(gs, bornAt(id, r))
		}
		return gs
	}
	steps := []struct {
		ev   Event
		want func(*state) // what the event changes
	}{
		{TurnStarted{ID: "t1"}, func(s *state) { s.turn = "t1" }},
		{Step{Usage: Usage{Input: 1, Output: 2}}, func(s *state) { s.usage = Usage{Input: 1, Output: 2} }},
		{Step{Usage: Usage{Input: 4, Cached: 8, Reasoning: 16}}, func(s *state) { s.usage = Usage{Input: 5, Output: 2, Cached: 8, Reasoning: 16} }},
		{TitleChanged{Title: "x"}, func(s *state) { s.title = "x" }},
		{Asked{Request: approvals.Request{ID: "a"}}, func(s *state) { s.asks["a"] = openAsk{turn: "t1", req: approvals.Request{ID: "a"}} }},
		{Asked{Request: approvals.Request{ID: "b"}}, func(s *state) { s.asks["b"] = openAsk{turn: "t1", req: approvals.Request{ID: "b"}} }},
		{Answered{AskID: "a"}, func(s *state) { delete(s.asks, "a") }},
		{Granted{Grant: bornAt("manual", approvals.Manual)}, func(s *state) { s.grants = grants("manual") }},
		{Granted{Grant: bornAt("auto", approvals.Auto)}, func(s *state) { s.grants = grants("manual", "auto") }},
		{Granted{Grant: bornAt("auto", approvals.Auto)}, func(*state) {}},
		{Granted{Grant: bornAt("auto", approvals.Auto), Refusal: true}, func(s *state) { s.refusals = grants("auto") }},
		{TurnEnded{ID: "t1"}, func(s *state) { s.turn = "" }},
		{RungChanged{From: approvals.Auto, To: approvals.Bypass}, func(s *state) { s.rung = approvals.Bypass }},
		{RungChanged{From: approvals.Bypass, To: approvals.Assisted}, func(s *state) { s.rung, s.grants = approvals.Assisted, grants("manual") }},
		{RungChanged{From: approvals.Assisted, To: approvals.Manual}, func(s *state) { s.rung = approvals.Manual }},
		{Text{Text: "x"}, func(*state) {}},
		{TurnStarted{ID: "t2"}, func(s *state) { s.turn, s.usage = "t2", Usage{} }},
	}
	got, want := newState(approvals.Auto), newState(approvals.Auto)
	for _, step := range steps {
		fold(&got, step.ev)
		step.want(&want)
		if d := cmp.Diff(want, got, cmp.AllowUnexported(state{}, openAsk{}, openCall{}), cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("after %T (-want +got):\n%s", step.ev, d)
		}
	}
}

func TestFoldLeavesEarlierCopies(t *testing.T) {
	st := newState(approvals.Auto)
	fold(&st, Granted{Grant: bornAt("a", approvals.Auto)})
	fold(&st, Granted{Grant: bornAt("b", approvals.Manual)})
	before := st.grants
	fold(&st, RungChanged{From: approvals.Auto, To: approvals.Manual})
	fold(&st, Granted{Grant: bornAt("c", approvals.Manual)})
	if before[0].ID != "a" || before[1].ID != "b" || len(st.grants) != 2 {
		t.Errorf("an earlier copy changed to %+v", before)
	}
}

func TestInForce(t *testing.T) {
	now := time.Unix(1000, 0)
	gs := []approvals.Grant{{ID: "for ever"}, {ID: "over", Expires: now}, {ID: "past", Expires: now.Add(-1)}, {ID: "still", Expires: now.Add(1)}}
	got := inForce(gs, now)
	if len(got) != 2 || got[0].ID != "for ever" || got[1].ID != "still" {
		t.Errorf("in force: %+v", got)
	}
}

// TestTornStreamsAreForgotten keeps what a subscriber that never reads
// costs bounded, whatever number of turns goes by.
func TestTornStreamsAreForgotten(t *testing.T) {
	h := newHub()
	s := h.subscribe(0, nil)
	for range 3 {
		for i := range maxLiveEvents + 10 {
			h.show(Record{Event: TextDelta{Message: time.Duration(i).String()}}, false)
		}
		if len(s.torn) < 10 || len(s.live) != maxLiveEvents {
			t.Fatalf("%d torn streams, %d live events", len(s.torn), len(s.live))
		}
		h.publish([]Record{{Event: TurnEnded{}}})
		if len(s.torn) != 0 || len(h.began) != 0 {
			t.Fatalf("after the turn %d streams are torn and %d have begun", len(s.torn), len(h.began))
		}
	}
}
