package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gth-server/gth-server/approvals"
)

// maxOpenAsks bounds the questions of one session that wait.
const maxOpenAsks = 64

// Ask stores the requests (giving each its id, session and times), shows
// them, and carries them as the prompt's OnAsk says. AskWait returns the
// answers in the order of reqs once all are there; grants and refusals that
// they bring are stored by then. AskDeny returns refusals at once. AskFail
// and AskQueue return ErrPersonNeeded; AskFail leaves nothing open. A
// cancelled ctx settles the open ones as Unanswered and returns the
// context's cause; when the turn's owner is lost (see ErrOwnerLost) they
// stay open. More than 64 open asks are an error of kind limit.
func (t *Turn) Ask(ctx context.Context, reqs []approvals.Request) ([]Settled, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	asked, err := t.put(ctx, reqs)
	if err != nil {
		return nil, err
	}
	switch t.prompt.OnAsk {
	case AskWait:
		return t.await(ctx, asked)
	case AskDeny:
		for _, r := range asked {
			a := approvals.Answer{Choice: approvals.RejectOnce, By: t.prompt.By}
			if _, err := t.s.settle(context.WithoutCancel(ctx), r, a); err != nil && !errors.Is(err, ErrConflict) {
				t.note(err)
				return nil, err
			}
		}
		return t.collect(ctx, asked)
	case AskQueue:
		return nil, ErrPersonNeeded
	}
	return nil, t.drop(ctx, asked, ErrPersonNeeded)
}

// put stores the requests as open and shows them. The log has them first,
// since it must hold every question that can be answered; the store's asks
// come next, so that whoever sees one can answer it.
func (t *Turn) put(ctx context.Context, reqs []approvals.Request) ([]approvals.Request, error) {
	asked := make([]approvals.Request, 0, len(reqs))
	events := make([]Event, 0, len(reqs))
	for _, r := range reqs {
		r, err := t.stamp(r)
		if err != nil {
			return nil, err
		}
		asked = append(asked, r)
		events = append(events, Asked{Request: r})
	}
	err := t.writeThen(ctx, true, func(context.Context) ([]Event, error) {
		if open := len(t.s.state.asks); open+len(asked) > maxOpenAsks {
			return nil, &TurnError{Kind: KindLimit, Err: fmt.Errorf("%d asks are open in session %s and %d more do not fit into %d", open, t.s.spec.ID, len(asked), maxOpenAsks), Hint: "answer those first"}
		}
		return events, nil
	}, func(ctx context.Context) error { return t.s.putAsks(ctx, asked) })
	if err != nil {
		return nil, t.drop(ctx, asked, err)
	}
	return asked, nil
}

// putAsks stores asks that the log has.
func (s *Session) putAsks(ctx context.Context, asks []approvals.Request) error {
	for _, r := range asks {
		if err := s.m.o.Store.PutAsk(ctx, s.lease, r); err != nil {
			return s.storeFailed(err)
		}
	}
	return nil
}

func (t *Turn) stamp(r approvals.Request) (approvals.Request, error) {
	id, err := newID()
	if err != nil {
		return r, err
	}
	now := t.s.m.now()
	r.ID, r.Session, r.Created, r.Expires = id, string(t.s.spec.ID), now, time.Time{}
	if t.prompt.OnAsk == AskQueue {
		r.Expires = now.Add(t.s.m.o.AskExpiry)
	}
	return r, nil
}

// drop settles asks as Unanswered, those that are still open, and returns
// why, joined with what went wrong over it.
func (t *Turn) drop(ctx context.Context, asked []approvals.Request, why error) error {
	for _, r := range asked {
		if err := t.s.unanswered(context.WithoutCancel(ctx), r.ID, t.prompt.By); err != nil {
			t.note(err)
			why = errors.Join(why, err)
		}
	}
	return why
}

// await waits until every ask has left open, whoever answered it.
func (t *Turn) await(ctx context.Context, asked []approvals.Request) ([]Settled, error) {
	for _, r := range asked {
		if err := t.s.left(ctx, r.ID); err != nil {
			t.note(err)
			if t.lost() {
				return nil, err
			}
			return nil, t.drop(ctx, asked, err)
		}
	}
	return t.collect(ctx, asked)
}

// collect returns what became of asks that have left open.
func (t *Turn) collect(ctx context.Context, asked []approvals.Request) ([]Settled, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	settled := make([]Settled, 0, len(asked))
	for _, r := range asked {
		if err := t.s.record(ctx, r.ID); err != nil {
			t.note(err)
			return nil, err
		}
		ask, err := t.s.m.o.Store.GetAsk(ctx, r.ID)
		if err != nil {
			err = t.s.storeFailed(err)
			t.note(err)
			return nil, err
		}
		a, d := became(ask)
		settled = append(settled, Settled{Request: ask.Request, Answer: a, Decision: d})
	}
	return settled, nil
}

// left blocks until the ask is not open any more. The store is watched
// rather than this session, because an answer may come by another process.
func (s *Session) left(ctx context.Context, id string) error {
	for {
		gone, err := s.m.o.Store.WatchAsk(ctx, id)
		if err != nil {
			return s.unlessEnded(ctx, err)
		}
		ask, err := s.m.o.Store.GetAsk(ctx, id)
		if err != nil {
			return s.unlessEnded(ctx, err)
		}
		if ask.State != AskOpen {
			return nil
		}
		select {
		case <-gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Session) unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.storeFailed(err)
}

// Answer settles an ask of this session. The first valid answer wins; a
// later one gets the stored result together with ErrConflict. When it
// returns without an error, answer, grant and refusal are stored.
func (s *Session) Answer(ctx context.Context, askID string, a approvals.Answer) (StoredAsk, error) {
	if s.isClosing() {
		return StoredAsk{}, s.errClosed()
	}
	ask, err := s.m.o.Store.GetAsk(ctx, askID)
	if err != nil {
		return StoredAsk{}, fmt.Errorf("answer an ask of session %s: %w", s.spec.ID, err)
	}
	if ask.Request.Session != string(s.spec.ID) {
		return StoredAsk{}, fmt.Errorf("session %s has no ask %.60q: %w", s.spec.ID, askID, ErrNotFound)
	}
	return s.settle(ctx, ask.Request, a)
}

// unanswered settles an ask as not answered, if it is still open.
func (s *Session) unanswered(ctx context.Context, id, by string) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	ask, err := s.m.o.Store.GetAsk(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return s.record(ctx, id)
	}
	if err != nil {
		return s.storeFailed(err)
	}
	if err := s.holds(ctx); err != nil {
		return err
	}
	_, err = s.settle(ctx, ask.Request, approvals.Answer{Choice: approvals.Unanswered, By: by})
	if errors.Is(err, ErrConflict) && !isStoreFailure(err) {
		return nil
	}
	return err
}

// holds asks the store whether the lease is still this session's: an ask is
// not this session's to end once another process has it. An empty batch
// changes nothing.
func (s *Session) holds(ctx context.Context) error {
	_, err := s.m.o.Store.Append(ctx, Batch{Lease: s.lease, Expect: s.hub.last(), At: s.m.now()})
	if err != nil && !errors.Is(err, ErrConflict) {
		return s.storeFailed(err)
	}
	return nil
}

// settle gives an ask its answer in the store, which decides who was first,
// and then brings the log to that. The second half runs for a late answer
// too: it repairs a log that missed the first one.
func (s *Session) settle(ctx context.Context, req approvals.Request, a approvals.Answer) (StoredAsk, error) {
	if a.At.IsZero() {
		a.At = s.m.now()
	}
	d, err := s.decide(&req, a)
	if err != nil {
		return StoredAsk{}, err
	}
	stored, err := s.m.o.Store.AnswerAsk(ctx, req.ID, a, d)
	if err != nil && !errors.Is(err, ErrConflict) {
		return StoredAsk{}, s.unlessEnded(ctx, err)
	}
	after, cancel := detached(ctx)
	defer cancel()
	err = errors.Join(err, s.record(after, req.ID))
	s.tend()
	return stored, err
}

// decide completes what approvals.Settle makes of an answer with what only
// the session knows.
func (s *Session) decide(req *approvals.Request, a approvals.Answer) (approvals.Decision, error) {
	return settled(req, a, s.Rung())
}

// settled is what an answer becomes in a session that stands at rung now.
func settled(req *approvals.Request, a approvals.Answer, now approvals.Rung) (approvals.Decision, error) {
	d := approvals.Settle(req, a)
	for _, g := range []*approvals.Grant{d.Grant, d.Refusal} {
		if g == nil {
			continue
		}
		id, err := newID()
		if err != nil {
			return approvals.Decision{}, err
		}
		g.ID, g.At, g.By, g.Ask, g.Rung, g.Scope = id, a.At, a.By, req.ID, req.Rung, d.Scope
		if g.Cwd == "" {
			g.Cwd = "."
		}
	}
	if d.Grant != nil && !bearable(*d.Grant, now) {
		d.Grant, d.Scope = nil, approvals.ScopeOnce
	}
	return d, nil
}

// bearable reports whether a grant may begin at this rung: none is born in
// bypass, and a session grant from a looser rung would be dropped at once.
func bearable(g approvals.Grant, now approvals.Rung) bool {
	return g.Rung != approvals.Bypass && (g.Scope != approvals.ScopeSession || !looser(g.Rung, now))
}

// became returns how an ask ended; one that expired counts as unanswered.
func became(ask StoredAsk) (approvals.Answer, approvals.Decision) {
	if ask.Answer != nil && ask.Decision != nil {
		return *ask.Answer, *ask.Decision
	}
	a := approvals.Answer{Choice: approvals.Unanswered, At: ask.Request.Expires}
	return a, approvals.Settle(&ask.Request, a)
}

// record brings the log to what the store says of an ask: its answer, the
// grant or refusal that it brought, and when its turn is over the end of a
// call that will not run. It does so once, by whoever comes first.
func (s *Session) record(ctx context.Context, id string) error {
	return s.write(ctx, true, func(ctx context.Context) (string, []Event, error) {
		open, ok := s.state.asks[id]
		if !ok {
			return "", nil, nil
		}
		ask, err := s.m.o.Store.GetAsk(ctx, id)
		if errors.Is(err, ErrNotFound) {
			ask, err = StoredAsk{Request: open.req, State: AskExpired}, nil // nobody can answer it any more
		}
		if err != nil {
			return "", nil, s.storeFailed(err)
		}
		if ask.State == AskOpen {
			return "", nil, nil
		}
		a, d := became(ask)
		events := []Event{Answered{AskID: id, CallID: ask.Request.CallID, Answer: a, Decision: d}}
		if g := d.Grant; g != nil && g.Scope == approvals.ScopeWorkspace {
			if err := s.m.o.Store.PutGrant(ctx, s.workspace, *g); err != nil {
				return "", nil, s.storeFailed(err)
			}
		} else if g != nil && bearable(*g, s.state.rung) {
			events = append(events, Granted{Grant: *g})
		}
		if d.Refusal != nil {
			events = append(events, Granted{Grant: *d.Refusal, Refusal: true})
		}
		turn := s.openTurn()
		c, pending := s.state.calls[ask.Request.CallID]
		if pending && c.ask == id && !c.executing && c.turn != turn && d.Action != approvals.Approve {
			events = append(events, notRun(ask.Request.CallID, a, d))
		}
		return turn, events, nil
	})
}

// notRun ends a call whose ask was not approved.
func notRun(call string, a approvals.Answer, d approvals.Decision) CallEnded {
	if a.Choice == approvals.Unanswered {
		return CallEnded{CallID: call, State: CallCancelled, Result: msgUnanswered}
	}
	return CallEnded{CallID: call, State: CallRefused, Result: cmp.Or(d.Message, msgRefused)}
}
