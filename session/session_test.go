package session_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func prompt(on session.OnAsk) session.Prompt {
	return session.Prompt{Blocks: []session.Block{{Type: "text", Text: "go"}}, By: "test", OnAsk: on}
}

// play runs one turn and returns its records.
func play(t *testing.T, s *session.Session, p session.Prompt) []session.Record {
	t.Helper()
	sub := s.Subscribe(0)
	defer sub.Close()
	id, err := s.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return sessiontest.ReadTurn(t.Context(), t, sub, id)
}

func endOf(t *testing.T, recs []session.Record) session.TurnEnded {
	t.Helper()
	end, ok := recs[len(recs)-1].Event.(session.TurnEnded)
	if !ok {
		t.Fatalf("the last record is a %T, want TurnEnded", recs[len(recs)-1].Event)
	}
	return end
}

func request(call string) approvals.Request {
	return approvals.Request{CallID: call, Tool: "run_shell_command", Arguments: []byte(`{"command":"ls && true"}`), Digest: "d-" + call, Why: "a test asks"}
}

func TestTurnAsksAndRuns(t *testing.T) {
	var got []session.Settled
	s := sessiontest.Open(t, sessiontest.Script{
		sessiontest.Ask(func(ctx context.Context, turn *session.Turn, settled []session.Settled) error {
			got = settled
			if err := turn.Claim(ctx, settled[0].Request.ID, "d-1"); err != nil {
				return err
			}
			if err := turn.Claim(ctx, settled[0].Request.ID, "d-1"); !errors.Is(err, session.ErrConflict) {
				t.Errorf("second claim: %v, want ErrConflict", err)
			}
			return nil
		}, request("1")),
	})
	sub := s.Subscribe(0)
	defer sub.Close()
	id, err := s.Start(t.Context(), prompt(session.AskWait))
	if err != nil {
		t.Fatal(err)
	}
	var ask string
	for ask == "" {
		r, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := r.Event.(session.Asked); ok {
			ask = a.Request.ID
		}
	}
	if _, err := s.Answer(t.Context(), ask, approvals.Answer{Choice: approvals.AllowOnce, By: "test"}); err != nil {
		t.Fatal(err)
	}
	rest := sessiontest.ReadTurn(t.Context(), t, sub, id)
	if end := endOf(t, rest); end.Reason != session.StopEndTurn {
		t.Fatalf("the turn ended with %+v", end)
	}
	if len(got) != 1 || got[0].Decision.Action != approvals.Approve || string(got[0].Request.Arguments) != `{"command":"ls && true"}` {
		t.Fatalf("settled: %+v", got)
	}
	stored, err := s.Answer(t.Context(), ask, approvals.Answer{Choice: approvals.RejectOnce, By: "late"})
	if !errors.Is(err, session.ErrConflict) || stored.Answer == nil || stored.Answer.By != "test" || stored.State != session.AskClaimed {
		t.Fatalf("late answer: %+v, %v", stored, err)
	}
}
