package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

func delta(message, text string) session.Event {
	return session.TextDelta{Message: message, Text: text}
}

func TestLiveEventsKeepTheirPlace(t *testing.T) {
	s := sessiontest.Open(t, sessiontest.Script{
		sessiontest.Show(delta("m1", "a"), delta("m1", "b")),
		sessiontest.Emit(session.Text{Message: "m1", Text: "ab"}),
		sessiontest.Show(session.ReasoningDelta{Message: "m2", Text: "r"}, delta("m2", "c")),
		sessiontest.Emit(session.Reasoning{Message: "m2", Text: "r"}, session.Text{Message: "m2", Text: "c"}),
		sessiontest.Show(session.CallOutput{CallID: "1", Text: "out"}),
		sessiontest.Emit(session.CallEnded{CallID: "1", State: session.CallCompleted}),
	})
	recs := play(t, s, prompt(session.AskWait))
	var got []string
	for _, r := range recs {
		got = append(got, fmt.Sprintf("%T", r.Event)[len("session."):])
		if session.Live(r.Event) != (r.Seq == 0) || r.Turn == "" {
			t.Errorf("%T has number %d and turn %q", r.Event, r.Seq, r.Turn)
		}
	}
	want := "TurnStarted TextDelta TextDelta Text ReasoningDelta TextDelta Reasoning Text CallOutput CallEnded TurnEnded"
	if strings.Join(got, " ") != want {
		t.Errorf("order %s\nwant  %s", strings.Join(got, " "), want)
	}
	again := play(t, s, prompt(session.AskWait))
	for i, r := range again {
		if i < 5 && session.Live(r.Event) {
			t.Error("a late subscriber got a live event of the past")
		}
	}
}

// TestLaggingSubscriber plays more than fits before anybody reads. The
// stored records all come, and of each message its beginning.
func TestLaggingSubscriber(t *testing.T) {
	for name, piece := range map[string]string{"many": "x", "large": strings.Repeat("x", 10_000)} {
		t.Run(name, func(t *testing.T) {
			var script sessiontest.Script
			const messages, pieces = 4, 700
			for m := range messages {
				id := fmt.Sprint(m)
				for range pieces {
					script = append(script, sessiontest.Show(delta(id, piece)))
				}
				script = append(script, sessiontest.Emit(session.Text{Message: id, Text: "whole"}))
			}
			s := sessiontest.Open(t, script)
			sub := s.Subscribe(0)
			defer sub.Close()
			id, err := s.Start(t.Context(), prompt(session.AskWait))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			live, stored, bytes := 0, 0, 0
			for _, r := range sessiontest.ReadTurn(t.Context(), t, sub, id) {
				if r.Seq != 0 {
					stored++
					continue
				}
				live++
				bytes += len(piece)
			}
			if stored != messages+2 {
				t.Errorf("%d stored records came, want %d", stored, messages+2)
			}
			if live == 0 || live > 1024 || bytes > 256<<10 {
				t.Errorf("%d live events of %d bytes were kept", live, bytes)
			}
			t.Logf("kept %d of %d live events, %d bytes", live, messages*pieces, bytes)
			// The lag is over: the next turn comes from its beginning.
			id, err = s.Start(t.Context(), prompt(session.AskWait))
			if err != nil {
				t.Fatal(err)
			}
			if r := sessiontest.ReadTurn(t.Context(), t, sub, id); r[1].Event != delta("0", piece) {
				t.Errorf("the next turn begins with %+v", r[1].Event)
			}
		})
	}
}

// TestStreamsComeFromTheirBeginning lets a reader fall behind at random and
// checks that what it gets of each message is a beginning of it.
func TestStreamsComeFromTheirBeginning(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		turns := rapid.IntRange(1, 3).Draw(rt, "turns")
		big := strings.Repeat("y", 60_000)
		proceed := make(chan bool)
		s := sessiontest.Open(t, step(func(ctx context.Context, turn *session.Turn) (session.StopReason, error) {
			n := 0
			for <-proceed {
				msg := fmt.Sprint(turn.ID(), n/7)
				turn.Show(delta(msg, fmt.Sprint(n%7)+big))
				if n++; n%7 == 0 {
					if err := turn.Append(ctx, session.Text{Message: msg}); err != nil {
						return "", err
					}
				}
			}
			return session.StopEndTurn, nil
		}))
		sub := s.Subscribe(0)
		seen := map[string]int{}
		seq := session.Seq(0)
		read := func(ctx context.Context) session.Record {
			r, err := sub.Next(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				return r // the piece was one of the lost ones
			}
			if err != nil {
				rt.Fatal(err)
			}
			if d, ok := r.Event.(session.TextDelta); ok {
				if want := fmt.Sprint(seen[d.Message]); d.Text[:1] != want {
					rt.Fatalf("piece %s of message %s came in place of %s", d.Text[:1], d.Message, want)
				}
				seen[d.Message]++
			} else if seq++; r.Seq != seq {
				rt.Fatalf("record %d came in place of %d", r.Seq, seq)
			}
			return r
		}
		for range turns {
			id, err := s.Start(t.Context(), prompt(session.AskWait))
			if err != nil {
				rt.Fatal(err)
			}
			read(t.Context())
			for range rapid.IntRange(0, 40).Draw(rt, "pieces") {
				proceed <- true
				if rapid.Bool().Draw(rt, "read") {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					read(ctx)
					cancel()
				}
			}
			proceed <- false
			for {
				if end, ok := read(t.Context()).Event.(session.TurnEnded); ok && end.ID == id {
					break
				}
			}
		}
		if err := s.Close(t.Context()); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestSubscriberWhoComesLate(t *testing.T) {
	shown, subscribed := make(chan struct{}), make(chan struct{})
	s := sessiontest.Open(t, sessiontest.Script{
		sessiontest.Show(delta("m1", "missed")),
		func(context.Context, *session.Turn) (session.StopReason, error) {
			close(shown)
			<-subscribed
			return "", nil
		},
		sessiontest.Show(delta("m1", "the middle")),
		sessiontest.Emit(session.Text{Message: "m1", Text: "partial", Partial: true}),
		sessiontest.Show(delta("m1", "more")),
		sessiontest.Emit(session.Text{Message: "m1", Text: "all"}),
		sessiontest.Show(delta("m2", "from the start")),
		sessiontest.Emit(session.Text{Message: "m2", Text: "from the start"}),
	})
	id, err := s.Start(t.Context(), prompt(session.AskWait))
	if err != nil {
		t.Fatal(err)
	}
	<-shown
	sub := s.Subscribe(1)
	close(subscribed)
	var got []string
	for _, r := range sessiontest.ReadTurn(t.Context(), t, sub, id) {
		switch e := r.Event.(type) {
		case session.TextDelta:
			got = append(got, "~"+e.Text)
		case session.Text:
			got = append(got, e.Text)
		}
	}
	if strings.Join(got, "|") != "partial|all|~from the start|from the start" {
		t.Errorf("it got %q", got)
	}
}

func TestSubscribeBehind(t *testing.T) {
	s := sessiontest.Open(t, sessiontest.Script{sessiontest.Emit(session.TitleChanged{Title: "x"})})
	play(t, s, prompt(session.AskWait))
	for after := range session.Seq(6) {
		sub := s.Subscribe(after)
		for want := after + 1; want <= 3; want++ {
			if r, err := sub.Next(t.Context()); err != nil || r.Seq != want {
				t.Errorf("behind %d: %+v, %v, want record %d", after, r, err, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if r, err := sub.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("behind %d: %+v, %v, want nothing more", after, r, err)
		}
		cancel()
		sub.Close()
		sub.Close()
		if _, err := sub.Next(t.Context()); !errors.Is(err, session.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	sub := s.Subscribe(0)
	for range 3 {
		if _, err := sub.Next(t.Context()); err != nil {
			t.Errorf("the log of a closed session: %v", err)
		}
	}
	if _, err := sub.Next(t.Context()); !errors.Is(err, session.ErrClosed) {
		t.Errorf("after the last record of a closed session: %v", err)
	}
}

func TestNextWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sessiontest.Open(t, nil)
		for name, wake := range map[string]func(*session.Subscription){
			"close":   (*session.Subscription).Close,
			"session": func(*session.Subscription) { _ = s.Close(t.Context()) },
		} {
			sub := s.Subscribe(1 << 40)
			got := make(chan error, 1)
			go func() {
				_, err := sub.Next(t.Context())
				got <- err
			}()
			synctest.Wait()
			wake(sub)
			if err := <-got; !errors.Is(err, session.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
