package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// RunStore runs the contract of session.Store against what open returns.
// Each case opens a fresh, empty store and closes it; after that no
// goroutine of it may be left.
func RunStore(t *testing.T, open func(t *testing.T) session.Store) {
	groups := []map[string]func(*suite){sessionCases(), logCases(), askCases(), grantCases(), wholeCases()}
	ran := 0
	for _, group := range groups {
		for name, run := range group {
			ran++
			t.Run(name, func(t *testing.T) {
				leaks := goleak.IgnoreCurrent()
				c := &suite{T: t, st: open(t), ctx: t.Context()}
				t.Cleanup(func() {
					if err := c.st.Close(); err != nil {
						t.Errorf("close the store: %v", err)
					}
					goleak.VerifyNone(t, leaks)
				})
				run(c)
			})
		}
	}
	t.Logf("%d cases of the store's contract", ran)
}

// suite is one case: a store and the helpers to state what it must do.
type suite struct {
	*testing.T
	st  session.Store
	ctx context.Context
}

// base is when the cases play.
func base() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC) }

func newID() session.ID { return session.ID(uuid.Must(uuid.NewV7()).String()) }

func meta(id session.ID) session.Meta {
	return session.Meta{ID: id, Cwd: "/work", Roots: []string{"/work", "/more"}, Title: "title", Surface: "test", Rung: approvals.Write, CreatedAt: base(), UpdatedAt: base()}
}

// create adds a session and returns its lease.
func (c *suite) create() session.Lease {
	c.Helper()
	l, err := c.st.Create(c.ctx, meta(newID()))
	if err != nil {
		c.Fatalf("create: %v", err)
	}
	return l
}

// takeOver releases l and returns the next lease.
func (c *suite) takeOver(l session.Lease) session.Lease {
	c.Helper()
	if err := c.st.Release(c.ctx, l); err != nil {
		c.Fatalf("release: %v", err)
	}
	next, err := c.st.Acquire(c.ctx, l.Session)
	if err != nil {
		c.Fatalf("acquire a released session: %v", err)
	}
	return next
}

func (c *suite) text(l session.Lease, expect session.Seq, text string) []session.Record {
	c.Helper()
	recs, err := c.st.Append(c.ctx, session.Batch{Lease: l, Expect: expect, Turn: "t", At: base(), Events: []session.Event{session.Text{Message: "m", Text: text}}})
	if err != nil {
		c.Fatalf("append %q behind %d: %v", text, expect, err)
	}
	return recs
}

// log returns the whole log.
func (c *suite) log(id session.ID) []session.Record {
	c.Helper()
	recs, err := c.st.After(c.ctx, id, 0, 0)
	if err != nil {
		c.Fatalf("read the log: %v", err)
	}
	return recs
}

// want fails the case unless err is target.
func (c *suite) want(err, target error, what string) {
	c.Helper()
	if !errors.Is(err, target) {
		c.Fatalf("%s: got %v, want %v", what, err, target)
	}
}

func (c *suite) ok(err error, what string) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

func (c *suite) same(got, want any, what string) {
	c.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		c.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// together runs f n times at once and returns the errors in order.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// oneWinner fails unless exactly one error is nil and the others are loser.
func (c *suite) oneWinner(errs []error, loser error, what string) int {
	c.Helper()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			c.Fatalf("%s: %d and %d both won", what, winner, i)
		case err == nil:
			winner = i
		case !errors.Is(err, loser):
			c.Fatalf("%s: loser %d got %v, want %v", what, i, err, loser)
		}
	}
	if winner < 0 {
		c.Fatalf("%s: nobody won", what)
	}
	return winner
}

func sessionCases() map[string]func(*suite) {
	return map[string]func(*suite){
		"create keeps the entry": func(c *suite) {
			m := meta(newID())
			l, err := c.st.Create(c.ctx, m)
			c.ok(err, "create")
			if l.Session != m.ID || l.Epoch == 0 {
				c.Fatalf("lease %+v is not of session %s with an epoch", l, m.ID)
			}
			got, err := c.st.Meta(c.ctx, m.ID)
			c.ok(err, "meta")
			c.same(got, m, "the entry")
		},
		"create refuses a taken id": func(c *suite) {
			l := c.create()
			_, err := c.st.Create(c.ctx, meta(l.Session))
			c.want(err, session.ErrConflict, "create twice")
			c.text(l, 0, "the first lease still writes")
		},
		"create refuses an empty id": func(c *suite) {
			if _, err := c.st.Create(c.ctx, meta("")); err == nil {
				c.Fatal("a session without an id was created")
			}
		},
		"create at once has one winner": func(c *suite) {
			m := meta(newID())
			c.oneWinner(together(16, func(int) error { _, err := c.st.Create(c.ctx, m); return err }), session.ErrConflict, "create")
		},
		"acquire": func(c *suite) {
			l := c.create()
			_, err := c.st.Acquire(c.ctx, l.Session)
			c.want(err, session.ErrConflict, "acquire a held session")
			_, err = c.st.Acquire(c.ctx, newID())
			c.want(err, session.ErrNotFound, "acquire an unknown session")
			seen := l.Epoch
			for range 5 {
				l = c.takeOver(l)
				if l.Epoch <= seen {
					c.Fatalf("epoch %d follows %d", l.Epoch, seen)
				}
				seen = l.Epoch
			}
		},
		"acquire at once has one winner": func(c *suite) {
			l := c.create()
			c.ok(c.st.Release(c.ctx, l), "release")
			c.oneWinner(together(16, func(int) error { _, err := c.st.Acquire(c.ctx, l.Session); return err }), session.ErrConflict, "acquire")
		},
		"a lost lease writes nothing": lostLease,
		"a released lease writes nothing": func(c *suite) {
			l := c.create()
			c.ok(c.st.Release(c.ctx, l), "release")
			_, err := c.st.Append(c.ctx, session.Batch{Lease: l, Events: []session.Event{session.TitleChanged{Title: "x"}}})
			c.want(err, session.ErrLost, "append after release")
			c.ok(c.st.Release(c.ctx, l), "release again")
			c.ok(c.st.Release(c.ctx, session.Lease{Session: newID(), Epoch: 1}), "release a session that is unknown")
		},
		"meta of an unknown session": func(c *suite) {
			_, err := c.st.Meta(c.ctx, newID())
			c.want(err, session.ErrNotFound, "meta")
		},
		"update changes title, rung and time only": func(c *suite) {
			l := c.create()
			later := base().Add(time.Hour)
			c.ok(c.st.Update(c.ctx, l, session.Meta{ID: l.Session, Cwd: "/elsewhere", Surface: "x", Title: "new", Rung: approvals.Auto, CreatedAt: later, UpdatedAt: later}), "update")
			want := meta(l.Session)
			want.Title, want.Rung, want.UpdatedAt = "new", approvals.Auto, later
			got, err := c.st.Meta(c.ctx, l.Session)
			c.ok(err, "meta")
			c.same(got, want, "the entry")
		},
		"list pages":             listPages,
		"list filters by cwd":    listFilters,
		"list refuses a cursor":  listCursors,
		"delete takes all of it": deletes,
	}
}

func lostLease(c *suite) {
	old := c.create()
	c.text(old, 0, "one")
	c.ok(c.st.PutAsk(c.ctx, old, ask("a", old.Session)), "put ask")
	_, err := c.st.AnswerAsk(c.ctx, "a", allow(), approve())
	c.ok(err, "answer")
	current := c.takeOver(old)
	events := []session.Event{session.Text{Text: "late"}}
	_, err = c.st.Append(c.ctx, session.Batch{Lease: old, Expect: 1, Events: events})
	c.want(err, session.ErrLost, "append under a lost lease")
	_, err = c.st.Append(c.ctx, session.Batch{Lease: old, Expect: 99, Events: events})
	c.want(err, session.ErrLost, "append under a lost lease behind a wrong number")
	_, err = c.st.Append(c.ctx, session.Batch{Lease: old, Expect: 1})
	c.want(err, session.ErrLost, "append of nothing under a lost lease")
	c.want(c.st.Update(c.ctx, old, meta(old.Session)), session.ErrLost, "update under a lost lease")
	c.want(c.st.PutAsk(c.ctx, old, ask("b", old.Session)), session.ErrLost, "put ask under a lost lease")
	c.want(c.st.ClaimAsk(c.ctx, old, "a", digest), session.ErrLost, "claim under a lost lease")
	c.ok(c.st.Release(c.ctx, old), "release a lost lease")
	_, err = c.st.Append(c.ctx, session.Batch{Lease: session.Lease{Session: old.Session, Epoch: current.Epoch + 1}, Expect: 1, Events: events})
	c.want(err, session.ErrLost, "append under a lease that was never given")
	c.text(current, 1, "the new holder writes, also after the old one released")
	if n := len(c.log(old.Session)); n != 2 {
		c.Fatalf("the log has %d records, want 2", n)
	}
	c.ok(c.st.ClaimAsk(c.ctx, current, "a", digest), "claim under the current lease")
}

func listPages(c *suite) {
	const n = 7
	var want []session.ID
	for i := range n {
		m := meta(newID())
		m.CreatedAt = base().Add(time.Duration(i) * time.Second)
		m.UpdatedAt = base().Add(time.Duration(-i) * time.Second)
		_, err := c.st.Create(c.ctx, m)
		c.ok(err, "create")
		want = append([]session.ID{m.ID}, want...)
	}
	for _, limit := range []int{1, 3, n - 1, n, n + 1, 0} {
		var got []session.ID
		f := session.Filter{Limit: limit}
		for pages := 0; ; pages++ {
			page, next, err := c.st.List(c.ctx, f)
			c.ok(err, "list")
			if limit > 0 && len(page) > limit || pages > n {
				c.Fatalf("limit %d: page %d has %d sessions", limit, pages, len(page))
			}
			for _, m := range page {
				got = append(got, m.ID)
			}
			if next == "" {
				break
			}
			f.Cursor = next
		}
		c.same(got, want, fmt.Sprintf("all pages of %d", limit))
	}
}

func listFilters(c *suite) {
	for i := range 60 {
		m := meta(newID())
		m.CreatedAt = base().Add(time.Duration(i) * time.Minute)
		if i%20 == 0 {
			m.Cwd = "/work/deeper"
		}
		_, err := c.st.Create(c.ctx, m)
		c.ok(err, "create")
	}
	deeper, next, err := c.st.List(c.ctx, session.Filter{Cwd: "/work/deeper"})
	c.ok(err, "list")
	if len(deeper) != 3 || next != "" || deeper[0].Cwd != "/work/deeper" {
		c.Fatalf("%d sessions and cursor %q for /work/deeper, want 3 and none", len(deeper), next)
	}
	first, next, err := c.st.List(c.ctx, session.Filter{Cwd: "/work"})
	c.ok(err, "list")
	rest, end, err2 := c.st.List(c.ctx, session.Filter{Cwd: "/work", Cursor: next})
	c.ok(err2, "list")
	if len(first) != 50 || len(rest) != 7 || end != "" {
		c.Fatalf("pages of %d and %d and cursor %q, want 50, 7 and none", len(first), len(rest), end)
	}
	// A page goes on behind its last session also when that one is gone and
	// a newer one has come.
	c.ok(c.st.Delete(c.ctx, first[49].ID), "delete")
	m := meta(newID())
	m.CreatedAt = base().Add(24 * time.Hour)
	_, err = c.st.Create(c.ctx, m)
	c.ok(err, "create")
	again, _, err := c.st.List(c.ctx, session.Filter{Cwd: "/work", Cursor: next})
	c.ok(err, "list")
	c.same(again, rest, "the second page")
}

func listCursors(c *suite) {
	c.create()
	for _, bad := range []string{"x", "%%%", strings.Repeat("A", 64), "eyJhdCI6MX0", "bnVsbA"} {
		_, _, err := c.st.List(c.ctx, session.Filter{Cursor: bad})
		c.want(err, session.ErrNotFound, "cursor "+bad)
	}
}

func deletes(c *suite) {
	l, other := c.create(), c.create()
	c.text(l, 0, "gone")
	c.text(other, 0, "stays")
	c.ok(c.st.PutAsk(c.ctx, l, ask("a", l.Session)), "put ask")
	c.ok(c.st.PutAsk(c.ctx, other, ask("b", other.Session)), "put ask")
	c.ok(c.st.PutGrant(c.ctx, "/work", grant("g")), "put grant")
	watch, err := c.st.WatchAsk(c.ctx, "a")
	c.ok(err, "watch")
	c.ok(c.st.Delete(c.ctx, l.Session), "delete")
	c.ok(c.st.Delete(c.ctx, l.Session), "delete again")
	c.ok(c.st.Delete(c.ctx, newID()), "delete an unknown session")
	c.closed(watch, "the watch of an ask that was deleted")
	_, err = c.st.Meta(c.ctx, l.Session)
	c.want(err, session.ErrNotFound, "meta of a deleted session")
	_, err = c.st.After(c.ctx, l.Session, 0, 0)
	c.want(err, session.ErrNotFound, "log of a deleted session")
	_, err = c.st.GetAsk(c.ctx, "a")
	c.want(err, session.ErrNotFound, "ask of a deleted session")
	_, err = c.st.Append(c.ctx, session.Batch{Lease: l, Expect: 1, Events: []session.Event{session.TitleChanged{}}})
	c.want(err, session.ErrLost, "append to a deleted session")
	page, _, err := c.st.List(c.ctx, session.Filter{})
	c.ok(err, "list")
	if len(page) != 1 || page[0].ID != other.Session || len(c.log(other.Session)) != 1 {
		c.Fatalf("after the deletion: %+v", page)
	}
	open, err := c.st.OpenAsks(c.ctx, "")
	c.ok(err, "open asks")
	gs, err := c.st.Grants(c.ctx, "/work")
	c.ok(err, "grants")
	if len(open) != 1 || open[0].Request.ID != "b" || len(gs) != 1 {
		c.Fatalf("%d asks and %d grants are left, want one each", len(open), len(gs))
	}
	l2, err := c.st.Create(c.ctx, meta(l.Session))
	c.ok(err, "create the id again")
	if n := len(c.log(l2.Session)); n != 0 {
		c.Fatalf("the session begins with %d records of its former life", n)
	}
}
