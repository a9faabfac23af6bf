package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

func logCases() map[string]func(*suite) {
	return map[string]func(*suite){
		"append numbers without gaps":   appendNumbers,
		"append keeps every kind":       appendKinds,
		"append is whole or not at all": appendWhole,
		"append by key is idempotent":   appendKey,
		"append at once has one winner": appendRace,
		"append of one key at once":     appendKeyRace,
		"sessions do not share a log":   appendApart,
		"after pages":                   afterPages,
		"records in and out are copies": recordCopies,
		"append honours what was expected": func(c *suite) {
			l := c.create()
			c.text(l, 0, "one")
			for _, wrong := range []session.Seq{0, 2, 1 << 60} {
				_, err := c.st.Append(c.ctx, session.Batch{Lease: l, Expect: wrong, Events: []session.Event{session.Text{Text: "no"}}})
				c.want(err, session.ErrConflict, fmt.Sprintf("append behind %d of 1", wrong))
			}
			c.text(l, 1, "two")
		},
		"append of nothing": func(c *suite) {
			l := c.create()
			recs, err := c.st.Append(c.ctx, session.Batch{Lease: l})
			if err != nil || len(recs) != 0 || len(c.log(l.Session)) != 0 {
				c.Fatalf("an empty batch gave %v, %v", recs, err)
			}
		},
	}
}

func appendNumbers(c *suite) {
	l := c.create()
	at := base().Add(time.Minute)
	for i := range 10 {
		recs, err := c.st.Append(c.ctx, session.Batch{
			Lease: l, Expect: session.Seq(2 * i), Turn: "turn", At: at, Sync: i%2 == 0,
			Events: []session.Event{session.Text{Text: fmt.Sprint(i)}, session.TitleChanged{Title: fmt.Sprint(i)}},
		})
		c.ok(err, "append")
		c.same(recs, []session.Record{
			{Seq: session.Seq(2*i + 1), At: at, Turn: "turn", Event: session.Text{Text: fmt.Sprint(i)}},
			{Seq: session.Seq(2*i + 2), At: at, Turn: "turn", Event: session.TitleChanged{Title: fmt.Sprint(i)}},
		}, "the stored records")
		c.same(c.log(l.Session)[2*i:], recs, "the end of the log")
	}
}

func appendKinds(c *suite) {
	l := c.create()
	events := Events()
	recs, err := c.st.Append(c.ctx, session.Batch{Lease: l, At: base(), Events: events})
	c.ok(err, "append every kind of event")
	for i, ev := range events {
		c.same(recs[i].Event, ev, "returned")
	}
	c.same(c.log(l.Session), recs, "the log")
	for _, ev := range LiveEvents() {
		_, err := c.st.Append(c.ctx, session.Batch{Lease: l, Expect: session.Seq(len(events)), Events: []session.Event{session.Text{Text: "x"}, ev}})
		c.want(err, session.ErrLive, fmt.Sprintf("append a %T", ev))
	}
	c.same(c.log(l.Session), recs, "the log after live events were refused")
}

func appendWhole(c *suite) {
	l := c.create()
	broken := session.Step{Message: []byte("{not json")}
	for _, evs := range [][]session.Event{{session.Text{Text: "a"}, broken}, {session.Text{Text: "a"}, nil}, {session.Text{Text: "a"}, &session.Text{Text: "b"}}} {
		if _, err := c.st.Append(c.ctx, session.Batch{Lease: l, Key: "k", Events: evs}); err == nil {
			c.Fatalf("a batch with %T %+v was stored", evs[1], evs[1])
		}
	}
	if n := len(c.log(l.Session)); n != 0 {
		c.Fatalf("%d records of refused batches are stored", n)
	}
	c.text(l, 0, "one")
}

func appendKey(c *suite) {
	l := c.create()
	b := session.Batch{Lease: l, Key: "k1", Turn: "t", At: base(), Events: []session.Event{session.Text{Text: "a"}, session.Text{Text: "b"}}}
	first, err := c.st.Append(c.ctx, b)
	c.ok(err, "append")
	c.text(l, 2, "c")
	again, err := c.st.Append(c.ctx, b)
	c.ok(err, "append the same key again")
	c.same(again, first, "the records of that time")
	if n := len(c.log(l.Session)); n != 3 {
		c.Fatalf("the log has %d records, want 3", n)
	}
	b.Key = ""
	_, err = c.st.Append(c.ctx, b)
	c.want(err, session.ErrConflict, "the same batch without a key")
	b.Key, b.Expect = "k2", 3
	_, err = c.st.Append(c.ctx, b)
	c.ok(err, "the same events under another key")
	other := c.create()
	b.Lease, b.Key, b.Expect = other, "k1", 0
	_, err = c.st.Append(c.ctx, b)
	c.ok(err, "the same key in another session")
	if n := len(c.log(other.Session)); n != 2 {
		c.Fatalf("the other log has %d records, want 2", n)
	}
	next := c.takeOver(l)
	b.Lease, b.Key = l, "k1"
	_, err = c.st.Append(c.ctx, b)
	c.want(err, session.ErrLost, "a known key under a lost lease")
	b.Lease = next
	again, err = c.st.Append(c.ctx, b)
	c.ok(err, "a known key under the next lease")
	c.same(again, first, "the records of that time")
}

func appendRace(c *suite) {
	l := c.create()
	const rounds, writers = 10, 8
	for round := range rounds {
		errs := together(writers, func(i int) error {
			_, err := c.st.Append(c.ctx, session.Batch{Lease: l, Expect: session.Seq(2 * round), Key: fmt.Sprint(round, "-", i), At: base(), Events: []session.Event{
				session.Text{Text: fmt.Sprint(i)}, session.Text{Text: fmt.Sprint(i)},
			}})
			return err
		})
		winner := c.oneWinner(errs, session.ErrConflict, "append")
		recs := c.log(l.Session)
		if len(recs) != 2*round+2 || recs[2*round].Event.(session.Text).Text != fmt.Sprint(winner) || recs[2*round+1].Event.(session.Text).Text != fmt.Sprint(winner) {
			c.Fatalf("round %d: the log does not end with the two records of %d: %+v", round, winner, recs[2*round:])
		}
	}
}

func appendKeyRace(c *suite) {
	l := c.create()
	got := make([][]session.Record, 8)
	for i, err := range together(len(got), func(i int) (err error) {
		got[i], err = c.st.Append(c.ctx, session.Batch{Lease: l, Key: "k", At: base(), Events: []session.Event{session.Text{Text: "once"}}})
		return err
	}) {
		c.ok(err, fmt.Sprintf("append %d of one key", i))
	}
	for _, recs := range got {
		c.same(recs, c.log(l.Session), "the records of one key")
	}
	if n := len(c.log(l.Session)); n != 1 {
		c.Fatalf("the log has %d records, want 1", n)
	}
}

func appendApart(c *suite) {
	const sessions, records = 6, 20
	leases := make([]session.Lease, sessions)
	for i := range leases {
		leases[i] = c.create()
	}
	errs := together(sessions, func(i int) error {
		for n := range records {
			_, err := c.st.Append(c.ctx, session.Batch{Lease: leases[i], Expect: session.Seq(n), Events: []session.Event{session.Text{Text: string(leases[i].Session)}}})
			if err != nil {
				return err
			}
			if recs, err := c.st.After(c.ctx, leases[i].Session, 0, 0); err != nil || len(recs) != n+1 {
				return fmt.Errorf("%d records after %d appends: %w", len(recs), n+1, err)
			}
		}
		return nil
	})
	c.ok(errors.Join(errs...), "write to several sessions at once")
	for _, l := range leases {
		for i, r := range c.log(l.Session) {
			if r.Seq != session.Seq(i+1) || r.Event.(session.Text).Text != string(l.Session) {
				c.Fatalf("record %d of session %s is %+v", i+1, l.Session, r)
			}
		}
	}
}

func afterPages(c *suite) {
	l := c.create()
	if n := len(c.log(l.Session)); n != 0 {
		c.Fatalf("a new log has %d records", n)
	}
	for i := range 9 {
		c.text(l, session.Seq(i), fmt.Sprint(i))
	}
	whole := c.log(l.Session)
	tests := []struct {
		after    session.Seq
		limit    int
		from, to int
	}{{0, 0, 0, 9}, {0, 4, 0, 4}, {4, 4, 4, 8}, {8, 4, 8, 9}, {5, 0, 5, 9}, {9, 0, 9, 9}, {1 << 62, 3, 9, 9}, {0, 100, 0, 9}}
	for _, tt := range tests {
		recs, err := c.st.After(c.ctx, l.Session, tt.after, tt.limit)
		c.ok(err, "after")
		c.same(recs, whole[tt.from:tt.to], fmt.Sprintf("after %d, limit %d", tt.after, tt.limit))
	}
	_, err := c.st.After(c.ctx, newID(), 0, 0)
	c.want(err, session.ErrNotFound, "after of an unknown session")
}

func recordCopies(c *suite) {
	l := c.create()
	raw := []byte(`{"a":1}`)
	old := "before"
	exit := 7
	events := []session.Event{
		session.Step{Message: raw},
		session.CallEnded{CallID: "1", ExitCode: &exit, Diffs: []session.Diff{{Path: "/f", Old: &old}}},
	}
	recs, err := c.st.Append(c.ctx, session.Batch{Lease: l, Events: events})
	c.ok(err, "append")
	spoil := func(evs ...session.Event) {
		for _, ev := range evs {
			switch e := ev.(type) {
			case session.Step:
				copy(e.Message, "{\"b\":2}")
			case session.CallEnded:
				*e.ExitCode, e.Diffs[0].Path, *e.Diffs[0].Old = 1, "/changed", "changed"
			}
		}
	}
	spoil(events...)
	spoil(recs[0].Event, recs[1].Event)
	read := c.log(l.Session)
	spoil(read[0].Event, read[1].Event)
	read = c.log(l.Session)
	end := read[1].Event.(session.CallEnded)
	if got := string(read[0].Event.(session.Step).Message); got != `{"a":1}` || *end.ExitCode != 7 || end.Diffs[0].Path != "/f" || *end.Diffs[0].Old != "before" {
		c.Fatalf("the stored records changed with the caller's: %s, %+v", got, end)
	}
}

// wholeCases concern every method.
func wholeCases() map[string]func(*suite) {
	return map[string]func(*suite){
		"every method honours its context": func(c *suite) {
			l := c.create()
			c.ok(c.st.PutAsk(c.ctx, l, ask("a", l.Session)), "put ask")
			ctx, cancel := context.WithCancel(c.ctx)
			cancel()
			for name, call := range everyMethod(c.st, l) {
				c.want(call(ctx), context.Canceled, name+" under a cancelled context")
			}
			if got, err := c.st.GetAsk(c.ctx, "a"); err != nil || got.State != session.AskOpen || len(c.log(l.Session)) != 0 {
				c.Fatalf("a cancelled call took effect: %+v, %v", got, err)
			}
		},
		"every method refuses after close": func(c *suite) {
			l := c.create()
			c.ok(c.st.Close(), "close")
			for name, call := range everyMethod(c.st, l) {
				c.want(call(c.ctx), session.ErrClosed, name+" after Close")
			}
			c.ok(c.st.Close(), "close again")
		},
	}
}

func everyMethod(st session.Store, l session.Lease) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Create":  func(ctx context.Context) error { _, err := st.Create(ctx, meta(newID())); return err },
		"Acquire": func(ctx context.Context) error { _, err := st.Acquire(ctx, l.Session); return err },
		"Meta":    func(ctx context.Context) error { _, err := st.Meta(ctx, l.Session); return err },
		"Update":  func(ctx context.Context) error { return st.Update(ctx, l, meta(l.Session)) },
		"List":    func(ctx context.Context) error { _, _, err := st.List(ctx, session.Filter{}); return err },
		"Append": func(ctx context.Context) error {
			_, err := st.Append(ctx, session.Batch{Lease: l, Events: []session.Event{session.TitleChanged{}}})
			return err
		},
		"After":  func(ctx context.Context) error { _, err := st.After(ctx, l.Session, 0, 0); return err },
		"PutAsk": func(ctx context.Context) error { return st.PutAsk(ctx, l, ask("new", l.Session)) },
		"GetAsk": func(ctx context.Context) error { _, err := st.GetAsk(ctx, "a"); return err },
		"AnswerAsk": func(ctx context.Context) error {
			_, err := st.AnswerAsk(ctx, "a", allow(), approve())
			return err
		},
		"ClaimAsk":    func(ctx context.Context) error { return st.ClaimAsk(ctx, l, "a", digest) },
		"OpenAsks":    func(ctx context.Context) error { _, err := st.OpenAsks(ctx, ""); return err },
		"WatchAsk":    func(ctx context.Context) error { _, err := st.WatchAsk(ctx, "a"); return err },
		"PutGrant":    func(ctx context.Context) error { return st.PutGrant(ctx, "/w", grant("g")) },
		"Grants":      func(ctx context.Context) error { _, err := st.Grants(ctx, "/w"); return err },
		"DeleteGrant": func(ctx context.Context) error { return st.DeleteGrant(ctx, "/w", "g") },
		"Release":     func(ctx context.Context) error { return st.Release(ctx, l) },
		"Delete":      func(ctx context.Context) error { return st.Delete(ctx, l.Session) },
	}
}

// Events returns one event of every kind that is stored, with every field
// of it set.
func Events() []session.Event {
	exit, old := 3, "old text"
	entry := approvals.Entry{Type: "shell", Matcher: "exact", Pattern: "go test ./... && echo '<ok>'"}
	answer := approvals.Answer{Choice: approvals.AllowSession, Typed: "typed", Reason: "because", Arguments: []byte(`{"command":"ls"}`), By: "test", At: base()}
	g := approvals.Grant{ID: "g1", Entry: entry, Scope: approvals.ScopeSession, At: base(), By: "test", Ask: "a1", Rung: approvals.Write, Cwd: ".", Expires: base().Add(time.Hour), Uses: 2}
	decision := approvals.Decision{Action: approvals.Approve, Scope: approvals.ScopeSession, Grant: &g, Message: "message"}
	subject := approvals.Subject{Kind: approvals.SubjectShell, Command: "ls && pwd > \u2028", Name: "n", Server: "s", Host: "h"}
	call := approvals.Call{ID: "c1", Tool: "run_shell_command", Server: "s", Name: "n", Arguments: []byte(`{"command":"a && b <c>"}`)}
	usage := session.Usage{Input: 1, Output: 2, Cached: 3, Reasoning: 4}
	rule := approvals.RuleMatch{List: "deny", Entry: entry, Source: "f:1", Rate: true}
	link := &session.Link{V: 1, Prev: "abc", Head: "def", Key: []byte{1}, Salts: map[string][]byte{"tool": {2}}, Digests: map[string][]byte{"rung": {3}}}
	rating := approvals.Rating{Outcome: approvals.Destructive, Reason: "r", Failure: "f", Detail: "d", Suggest: "s", Model: "m"}
	return []session.Event{
		session.TurnStarted{ID: "t1", Prompt: []session.Block{{Type: "resource_link", Text: "x", URI: "file:///x", Name: "n", MimeType: "text/plain"}}, By: "test", Continues: true},
		session.TurnEnded{ID: "t1", Reason: session.StopFailed, Error: "e", ErrorKind: "model", Usage: usage, Head: "abc"},
		session.RungChanged{From: approvals.Write, To: approvals.Auto, By: "test"},
		session.TitleChanged{Title: "title"},
		session.Text{Message: "m", Text: strings.Repeat("text ", 1000), Partial: true},
		session.Reasoning{Message: "m", Text: "because"},
		session.Step{Number: 4, Message: []byte(`{"role":"assistant","content":"<&>"}`), Usage: usage},
		session.CallAnnounced{Call: call, Title: "title", Kind: session.KindExecute, Locations: []session.Location{{Path: "/f", Line: 3}}},
		session.Decided{
			ID: "d1", CallID: "c1", Tool: "t", Subject: subject, Rung: approvals.Assisted, AskID: "a1", Answer: &answer, Decision: &decision, Duration: time.Second, Link: link,
			Verdict: approvals.Verdict{
				Action: approvals.Reject, Stage: approvals.StageDenyList, Scope: approvals.ScopeWorkspace, Message: "m", Rule: &rule, Rating: &rating,
				Stages: []approvals.StageResult{{Stage: approvals.StageDenyList, Result: "reject", Detail: "d"}}, Preflights: []string{"open-world"},
				Floor: &approvals.Floor{Family: "destructive-root", Description: "d"},
			},
		},
		session.Asked{Request: fullAsk("a1", "s1")},
		session.Answered{AskID: "a1", CallID: "c1", Answer: answer, Decision: decision, Link: link},
		session.Granted{Grant: g, Refusal: true},
		session.CallExecuting{CallID: "c1", Digest: digest},
		session.CallEnded{CallID: "c1", State: session.CallFailed, Result: "r", Display: "d", Diffs: []session.Diff{{Path: "/f", Old: &old, New: "new"}}, ExitCode: &exit, Duration: time.Minute},
	}
}

// LiveEvents returns one event of every kind that is not stored.
func LiveEvents() []session.Event {
	return []session.Event{
		session.TextDelta{Message: "m", Text: "t"},
		session.ReasoningDelta{Message: "m", Text: "t"},
		session.CallOutput{CallID: "c", Text: "t"},
	}
}
