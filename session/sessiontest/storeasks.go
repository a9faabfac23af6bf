package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

const digest = "0123456789abcdef"

func ask(id string, s session.ID) approvals.Request {
	return approvals.Request{
		ID: id, Session: string(s), CallID: "c1", Tool: "run_shell_command", Arguments: []byte(`{"command":"a && b"}`),
		Digest: digest, Why: "a test asks", Created: base(),
	}
}

// fullAsk sets every field of a request.
func fullAsk(id string, s session.ID) approvals.Request {
	r := ask(id, s)
	entry := approvals.Entry{Type: "exec", Matcher: "prefix", Pattern: "go test"}
	offer := &approvals.Offer{Entry: entry, Preview: "p", Summary: "s"}
	r.Subject = approvals.Subject{Kind: approvals.SubjectShell, Command: "a && b", Name: "n", Server: "s", Host: "h"}
	r.Rung, r.Stage, r.Outcome, r.Reason, r.Unrated = approvals.Write, approvals.StageUnratedRung, approvals.Destructive, "reason", "unrated"
	r.Rule = &approvals.RuleMatch{List: "escalate", Entry: entry, Source: "f:1", Rate: true}
	r.Notes, r.AllowSession, r.AllowWorkspace, r.RejectSession, r.Typed, r.Attempts = []string{"n"}, offer, offer, offer, true, 2
	r.Rounds = []approvals.Round{{Command: "c", Justification: "j", Outcome: approvals.Catastrophic, Reason: "r"}}
	r.Expires = base().Add(time.Hour)
	return r
}

func allow() approvals.Answer {
	return approvals.Answer{Choice: approvals.AllowOnce, By: "test", At: base()}
}
func approve() approvals.Decision { return approvals.Decision{Action: approvals.Approve} }
func refuse() approvals.Decision {
	return approvals.Decision{Action: approvals.Reject, Message: "no"}
}

func grant(id string) approvals.Grant {
	return approvals.Grant{ID: id, Entry: approvals.Entry{Type: "shell", Matcher: "exact", Pattern: "make " + id}, Scope: approvals.ScopeWorkspace, At: base(), By: "test", Ask: "a", Rung: approvals.Write, Cwd: "."}
}

func (c *suite) put(l session.Lease, r approvals.Request) {
	c.Helper()
	c.ok(c.st.PutAsk(c.ctx, l, r), "put ask "+r.ID)
}

func (c *suite) get(id string) session.StoredAsk {
	c.Helper()
	a, err := c.st.GetAsk(c.ctx, id)
	c.ok(err, "get ask "+id)
	return a
}

// patience is how long a watch may take to tell.
const patience = 5 * time.Second

func (c *suite) closed(ch <-chan struct{}, what string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	select {
	case <-ch:
	case <-ctx.Done():
		c.Fatalf("%s: not told within %v", what, patience)
	}
}

func askCases() map[string]func(*suite) {
	return map[string]func(*suite){
		"an ask is stored open and whole": func(c *suite) {
			l := c.create()
			want := fullAsk("a", l.Session)
			c.put(l, want)
			c.same(c.get("a"), session.StoredAsk{Request: want, State: session.AskOpen}, "the ask")
			c.want(c.st.PutAsk(c.ctx, l, ask("a", l.Session)), session.ErrConflict, "put the id again")
			other := c.create()
			c.want(c.st.PutAsk(c.ctx, other, ask("a", other.Session)), session.ErrConflict, "put the id in another session")
			c.same(c.get("a").Request, want, "the ask after that")
		},
		"an ask needs an id and its session": func(c *suite) {
			l := c.create()
			for _, r := range []approvals.Request{ask("", l.Session), ask("x", newID()), ask("y", "")} {
				if err := c.st.PutAsk(c.ctx, l, r); err == nil {
					c.Fatalf("an ask %q of session %q was stored under the lease of %s", r.ID, r.Session, l.Session)
				}
			}
			open, err := c.st.OpenAsks(c.ctx, "")
			if err != nil || len(open) != 0 {
				c.Fatalf("refused asks are stored: %v, %v", open, err)
			}
		},
		"put at once has one winner": func(c *suite) {
			l := c.create()
			c.oneWinner(together(16, func(int) error { return c.st.PutAsk(c.ctx, l, ask("a", l.Session)) }), session.ErrConflict, "put ask")
		},
		"unknown asks": func(c *suite) {
			l := c.create()
			_, err := c.st.GetAsk(c.ctx, "x")
			c.want(err, session.ErrNotFound, "get")
			_, err = c.st.AnswerAsk(c.ctx, "x", allow(), approve())
			c.want(err, session.ErrNotFound, "answer")
			_, err = c.st.WatchAsk(c.ctx, "x")
			c.want(err, session.ErrNotFound, "watch")
			c.want(c.st.ClaimAsk(c.ctx, l, "x", digest), session.ErrNotFound, "claim")
		},
		"the first answer wins and is restated": firstAnswer,
		"answers at once have one winner":       answerRace,
		"answering needs no lease": func(c *suite) {
			l := c.create()
			c.put(l, ask("a", l.Session))
			c.ok(c.st.Release(c.ctx, l), "release")
			_, err := c.st.AnswerAsk(c.ctx, "a", allow(), approve())
			c.ok(err, "answer without a lease")
		},
		"an answer may come too late":            expiry,
		"a claim is given once":                  claims,
		"claims at once have one winner":         claimRace,
		"a claim is bound to what was asked":     claimDigest,
		"open asks, oldest first":                openAsks,
		"a watch tells when an ask leaves open":  watches,
		"a watch ends with its context":          watchEnds,
		"asks in and out are copies":             askCopies,
		"answer and claim at once never run two": answerClaimRace,
	}
}

func firstAnswer(c *suite) {
	l := c.create()
	c.put(l, ask("a", l.Session))
	g := grant("g")
	a := approvals.Answer{Choice: approvals.AllowSession, Typed: "t", Reason: "r", Arguments: []byte(`{"x":"<&>"}`), By: "first", At: base()}
	d := approvals.Decision{Action: approvals.Approve, Scope: approvals.ScopeSession, Grant: &g, Refusal: &g, Message: "m"}
	want := session.StoredAsk{Request: ask("a", l.Session), State: session.AskAnswered, Answer: &a, Decision: &d}
	got, err := c.st.AnswerAsk(c.ctx, "a", a, d)
	c.ok(err, "answer")
	c.same(got, want, "the answered ask")
	for range 3 {
		got, err = c.st.AnswerAsk(c.ctx, "a", approvals.Answer{Choice: approvals.RejectOnce, By: "later"}, refuse())
		c.want(err, session.ErrConflict, "answer again")
		c.same(got, want, "what is restated")
	}
	c.same(c.get("a"), want, "the ask")
	c.ok(c.st.ClaimAsk(c.ctx, l, "a", digest), "claim")
	want.State = session.AskClaimed
	got, err = c.st.AnswerAsk(c.ctx, "a", allow(), approve())
	c.want(err, session.ErrConflict, "answer a claimed ask")
	c.same(got, want, "what is restated")
}

func answerRace(c *suite) {
	l := c.create()
	for round := range 10 {
		id := fmt.Sprint("a", round)
		c.put(l, ask(id, l.Session))
		got := make([]session.StoredAsk, 12)
		errs := together(len(got), func(i int) (err error) {
			a := allow()
			a.By = fmt.Sprint(i)
			got[i], err = c.st.AnswerAsk(c.ctx, id, a, approve())
			return err
		})
		winner := c.oneWinner(errs, session.ErrConflict, "answer")
		for _, g := range got {
			if g.Answer == nil || g.Answer.By != fmt.Sprint(winner) {
				c.Fatalf("%d won, and a caller was told %+v", winner, g.Answer)
			}
		}
	}
}

func expiry(c *suite) {
	l := c.create()
	for i, tt := range []struct {
		after time.Duration
		late  bool
	}{{time.Hour - time.Nanosecond, false}, {time.Hour, true}, {2 * time.Hour, true}} {
		id := fmt.Sprint("a", i)
		r := ask(id, l.Session)
		r.Expires = base().Add(time.Hour)
		c.put(l, r)
		watch, err := c.st.WatchAsk(c.ctx, id)
		c.ok(err, "watch")
		a := allow()
		a.At = base().Add(tt.after)
		got, err := c.st.AnswerAsk(c.ctx, id, a, approve())
		c.closed(watch, "the watch of an ask that left open")
		if !tt.late {
			c.ok(err, "answer in time")
			continue
		}
		c.want(err, session.ErrConflict, "answer too late")
		if got.State != session.AskExpired || got.Decision != nil && got.Decision.Action == approvals.Approve {
			c.Fatalf("answered too late: %+v", got)
		}
		a.At = base()
		_, err = c.st.AnswerAsk(c.ctx, id, a, approve())
		c.want(err, session.ErrConflict, "answer an expired ask with an early date")
		c.want(c.st.ClaimAsk(c.ctx, l, id, digest), session.ErrConflict, "claim an expired ask")
	}
}

func claims(c *suite) {
	l, other := c.create(), c.create()
	c.put(l, ask("a", l.Session))
	c.want(c.st.ClaimAsk(c.ctx, l, "a", digest), session.ErrConflict, "claim an open ask")
	_, err := c.st.AnswerAsk(c.ctx, "a", allow(), approve())
	c.ok(err, "answer")
	c.want(c.st.ClaimAsk(c.ctx, other, "a", digest), session.ErrNotFound, "claim another session's ask")
	c.ok(c.st.ClaimAsk(c.ctx, l, "a", digest), "claim")
	c.want(c.st.ClaimAsk(c.ctx, l, "a", digest), session.ErrConflict, "claim again")
	c.want(c.st.ClaimAsk(c.ctx, c.takeOver(l), "a", digest), session.ErrConflict, "claim again under the next lease")
	if got := c.get("a").State; got != session.AskClaimed {
		c.Fatalf("the ask is %s", got)
	}
	for i, d := range []approvals.Decision{refuse(), {Action: approvals.Halt}, {}} {
		id := fmt.Sprint("refused", i)
		c.put(other, ask(id, other.Session))
		_, err := c.st.AnswerAsk(c.ctx, id, approvals.Answer{Choice: approvals.RejectOnce, At: base()}, d)
		c.ok(err, "refuse")
		c.want(c.st.ClaimAsk(c.ctx, other, id, digest), session.ErrConflict, fmt.Sprintf("claim what became %v", d.Action))
	}
}

func claimRace(c *suite) {
	l := c.create()
	for round := range 10 {
		id := fmt.Sprint("a", round)
		c.put(l, ask(id, l.Session))
		_, err := c.st.AnswerAsk(c.ctx, id, allow(), approve())
		c.ok(err, "answer")
		c.oneWinner(together(12, func(int) error { return c.st.ClaimAsk(c.ctx, l, id, digest) }), session.ErrConflict, "claim")
	}
}

func claimDigest(c *suite) {
	l := c.create()
	c.put(l, ask("a", l.Session))
	_, err := c.st.AnswerAsk(c.ctx, "a", allow(), approve())
	c.ok(err, "answer")
	for _, wrong := range []string{"", "x", digest + "0"} {
		c.want(c.st.ClaimAsk(c.ctx, l, "a", wrong), session.ErrConflict, "claim with digest "+wrong)
	}
	c.ok(c.st.ClaimAsk(c.ctx, l, "a", digest), "claim after wrong digests")
	c.put(l, ask("edited", l.Session))
	a := allow()
	a.Arguments = []byte(`{"command":"c"}`)
	_, err = c.st.AnswerAsk(c.ctx, "edited", a, approve())
	c.ok(err, "answer with other arguments")
	c.ok(c.st.ClaimAsk(c.ctx, l, "edited", "another digest"), "claim edited arguments")
}

func openAsks(c *suite) {
	l, other := c.create(), c.create()
	for i, id := range []string{"c", "a", "b"} {
		r := ask(id, l.Session)
		r.Created = base().Add(time.Duration(i) * time.Second)
		c.put(l, r)
	}
	r := ask("other", other.Session)
	r.Created = base().Add(-time.Second)
	c.put(other, r)
	ids := func(s session.ID) (got []string) {
		open, err := c.st.OpenAsks(c.ctx, s)
		c.ok(err, "open asks")
		for _, a := range open {
			if a.State != session.AskOpen {
				c.Fatalf("an ask among the open ones is %s", a.State)
			}
			got = append(got, a.Request.ID)
		}
		return got
	}
	c.same(ids(l.Session), []string{"c", "a", "b"}, "of one session")
	c.same(ids(""), []string{"other", "c", "a", "b"}, "of all")
	c.same(ids(newID()), []string(nil), "of an unknown session")
	_, err := c.st.AnswerAsk(c.ctx, "a", allow(), approve())
	c.ok(err, "answer")
	c.same(ids(l.Session), []string{"c", "b"}, "after an answer")
}

func watches(c *suite) {
	l := c.create()
	c.put(l, ask("a", l.Session))
	var watchers []<-chan struct{}
	for range 4 {
		w, err := c.st.WatchAsk(c.ctx, "a")
		c.ok(err, "watch")
		watchers = append(watchers, w)
		select {
		case <-w:
			c.Fatal("a watch told of an ask that is open")
		default:
		}
	}
	_, err := c.st.AnswerAsk(c.ctx, "a", allow(), approve())
	c.ok(err, "answer")
	for _, w := range watchers {
		c.closed(w, "an answer")
	}
	w, err := c.st.WatchAsk(c.ctx, "a")
	c.ok(err, "watch an answered ask")
	c.closed(w, "an ask that was answered before")
}

func watchEnds(c *suite) {
	l := c.create()
	c.put(l, ask("a", l.Session))
	for range 10 {
		ctx, cancel := context.WithCancel(c.ctx)
		_, err := c.st.WatchAsk(ctx, "a")
		cancel()
		c.ok(err, "watch") // what it held is looked for after Close
	}
	w, err := c.st.WatchAsk(c.ctx, "a")
	c.ok(err, "watch")
	_, err = c.st.AnswerAsk(c.ctx, "a", allow(), approve())
	c.ok(err, "answer")
	c.closed(w, "an answer after other watches ended")
}

func askCopies(c *suite) {
	l := c.create()
	r := fullAsk("a", l.Session)
	c.put(l, r)
	spoil := func(r approvals.Request) {
		copy(r.Arguments, `{"command":"x`)
		r.Notes[0], r.Rounds[0].Command, r.AllowSession.Preview, r.Rule.Source = "x", "x", "x", "x"
	}
	spoil(r)
	spoil(c.get("a").Request)
	c.same(c.get("a").Request, fullAsk("a", l.Session), "the ask")
	g := grant("g")
	a := approvals.Answer{Choice: approvals.AllowOnce, Arguments: []byte(`{"x":1}`), At: base()}
	d := approvals.Decision{Action: approvals.Approve, Grant: &g}
	stored, err := c.st.AnswerAsk(c.ctx, "a", a, d)
	c.ok(err, "answer")
	for _, s := range []session.StoredAsk{{Answer: &a, Decision: &d}, stored, c.get("a")} {
		copy(s.Answer.Arguments, `{"y":2}`)
		s.Decision.Grant.ID = "x"
	}
	if got := c.get("a"); string(got.Answer.Arguments) != `{"x":1}` || got.Decision.Grant.ID != "g" {
		c.Fatalf("the stored answer changed with the caller's: %s, %+v", got.Answer.Arguments, got.Decision.Grant)
	}
}

func answerClaimRace(c *suite) {
	l := c.create()
	for round := range 10 {
		id := fmt.Sprint("a", round)
		c.put(l, ask(id, l.Session))
		claimed := make([]bool, 12)
		errs := together(len(claimed), func(i int) error {
			a, d := allow(), approve()
			if i%2 == 0 {
				a, d = approvals.Answer{Choice: approvals.RejectOnce, At: base()}, refuse()
			}
			if _, err := c.st.AnswerAsk(c.ctx, id, a, d); err != nil && !errors.Is(err, session.ErrConflict) {
				return err
			}
			err := c.st.ClaimAsk(c.ctx, l, id, digest)
			claimed[i] = err == nil
			if errors.Is(err, session.ErrConflict) {
				err = nil
			}
			return err
		})
		c.ok(errors.Join(errs...), "answer and claim")
		n := 0
		for _, was := range claimed {
			if was {
				n++
			}
		}
		want := 0
		if c.get(id).Decision.Action == approvals.Approve {
			want = 1
		}
		if n != want {
			c.Fatalf("%d claims of an ask that became %v", n, c.get(id).Decision.Action)
		}
	}
}

func grantCases() map[string]func(*suite) {
	return map[string]func(*suite){
		"grants are kept per workspace": func(c *suite) {
			for _, g := range []string{"b", "a", "c"} {
				c.ok(c.st.PutGrant(c.ctx, "/one", grant(g)), "put grant")
			}
			c.ok(c.st.PutGrant(c.ctx, "/two", grant("d")), "put grant")
			c.same(c.grants("/one"), []approvals.Grant{grant("b"), grant("a"), grant("c")}, "the grants of /one")
			c.same(c.grants("/two"), []approvals.Grant{grant("d")}, "the grants of /two")
			for _, unknown := range []string{"/", "/on", "/one/", "/one/x"} {
				c.same(c.grants(unknown), []approvals.Grant(nil), "the grants of "+unknown)
			}
		},
		"a grant of the same id is replaced": func(c *suite) {
			c.ok(c.st.PutGrant(c.ctx, "/one", grant("a")), "put grant")
			c.ok(c.st.PutGrant(c.ctx, "/one", grant("b")), "put grant")
			changed := grant("a")
			changed.Uses = 7
			c.ok(c.st.PutGrant(c.ctx, "/one", changed), "put grant again")
			c.same(c.grants("/one"), []approvals.Grant{changed, grant("b")}, "the grants")
		},
		"a grant is revoked": func(c *suite) {
			c.ok(c.st.PutGrant(c.ctx, "/one", grant("a")), "put grant")
			c.ok(c.st.PutGrant(c.ctx, "/two", grant("a")), "put grant")
			c.want(c.st.DeleteGrant(c.ctx, "/one", "x"), session.ErrNotFound, "delete an unknown grant")
			c.want(c.st.DeleteGrant(c.ctx, "/three", "a"), session.ErrNotFound, "delete from an unknown workspace")
			c.ok(c.st.DeleteGrant(c.ctx, "/one", "a"), "delete")
			c.want(c.st.DeleteGrant(c.ctx, "/one", "a"), session.ErrNotFound, "delete again")
			c.same(c.grants("/one"), []approvals.Grant(nil), "the grants of /one")
			c.same(c.grants("/two"), []approvals.Grant{grant("a")}, "the grants of /two")
		},
		"a grant that was revoked does not come back": func(c *suite) {
			c.ok(c.st.PutGrant(c.ctx, "/one", grant("a")), "put grant")
			c.ok(c.st.DeleteGrant(c.ctx, "/one", "a"), "delete")
			c.ok(c.st.PutGrant(c.ctx, "/one", grant("a")), "put it again")
			c.ok(c.st.PutGrant(c.ctx, "/two", grant("a")), "put it elsewhere")
			c.same(c.grants("/one"), []approvals.Grant(nil), "the grants of /one")
			c.same(c.grants("/two"), []approvals.Grant{grant("a")}, "the grants of /two")
			c.want(c.st.DeleteGrant(c.ctx, "/one", "a"), session.ErrNotFound, "delete again")
		},
		"a grant needs an id and a workspace": func(c *suite) {
			if c.st.PutGrant(c.ctx, "", grant("a")) == nil || c.st.PutGrant(c.ctx, "/one", grant("")) == nil {
				c.Fatal("a grant without an id or a workspace was stored")
			}
		},
		"grants in and out are copies": func(c *suite) {
			g := grant("a")
			g.Entry = approvals.Entry{Type: "tool", Matcher: "hint", Hints: map[string]bool{"readOnlyHint": true}}
			want := approvals.Grant(g)
			want.Entry.Hints = map[string]bool{"readOnlyHint": true}
			c.ok(c.st.PutGrant(c.ctx, "/one", g), "put grant")
			g.Entry.Hints["readOnlyHint"] = false
			got := c.grants("/one")
			got[0].ID, got[0].Entry.Hints["readOnlyHint"] = "x", false
			c.same(c.grants("/one"), []approvals.Grant{want}, "the grants")
		},
		"grants at once": func(c *suite) {
			errs := together(20, func(i int) error { return c.st.PutGrant(c.ctx, "/one", grant(fmt.Sprint(i))) })
			c.ok(errors.Join(errs...), "put grants at once")
			errs = together(10, func(i int) error { return c.st.DeleteGrant(c.ctx, "/one", fmt.Sprint(i)) })
			c.ok(errors.Join(errs...), "delete grants at once")
			if n := len(c.grants("/one")); n != 10 {
				c.Fatalf("%d grants are left, want 10", n)
			}
		},
	}
}

func (c *suite) grants(workspace string) []approvals.Grant {
	c.Helper()
	gs, err := c.st.Grants(c.ctx, workspace)
	c.ok(err, "grants of "+workspace)
	return gs
}
