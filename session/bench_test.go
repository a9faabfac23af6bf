package session_test

import (
	"context"
	"testing"

	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// bench runs f inside a turn.
func bench(b *testing.B, f func(ctx context.Context, t *session.Turn, s *session.Session)) {
	b.Helper()
	var s *session.Session
	ready := make(chan struct{})
	s = sessiontest.Open(b, step(func(ctx context.Context, t *session.Turn) (session.StopReason, error) {
		<-ready
		f(ctx, t, s)
		return session.StopEndTurn, nil
	}))
	close(ready)
	if _, err := s.Start(b.Context(), prompt(session.AskWait)); err != nil {
		b.Fatal(err)
	}
	if err := s.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	bench(b, func(ctx context.Context, t *session.Turn, _ *session.Session) {
		for b.Loop() {
			if err := t.Append(ctx, session.Text{Message: "m", Text: "hello"}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkShowToLaggards shows to ten subscribers that never read.
func BenchmarkShowToLaggards(b *testing.B) {
	bench(b, func(_ context.Context, t *session.Turn, s *session.Session) {
		for range 10 {
			defer s.Subscribe(0).Close()
		}
		for b.Loop() {
			t.Show(session.TextDelta{Message: "m", Text: "hello"})
		}
	})
}

func BenchmarkShowAndRead(b *testing.B) {
	bench(b, func(ctx context.Context, t *session.Turn, s *session.Session) {
		sub := s.Subscribe(session.Seq(len(t.Records())))
		defer sub.Close()
		for b.Loop() {
			t.Show(session.TextDelta{Message: "m", Text: "hello"})
			if _, err := sub.Next(ctx); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkGrantsUnchanged(b *testing.B) {
	bench(b, func(_ context.Context, t *session.Turn, _ *session.Session) {
		for b.Loop() {
			t.Grants()
		}
	})
}
