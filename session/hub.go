package session

import (
	"context"
	"sync"
)

// The bounds of what one subscriber may have waiting in live events.
const (
	maxLiveEvents = 1024
	maxLiveBytes  = 256 << 10
)

// hub holds the log of a live session and hands it to subscribers. Stored
// records are read from the log at the reader's own pace, so they need no
// queue and none is lost. Live events go into a bounded queue per
// subscriber, each with the number of the record that it followed.
//
// mu guards everything below it, the fields of subscriptions included. It
// is never held over I/O or a blocking channel operation.
type hub struct {
	mu    sync.Mutex
	log   []Record // append-only: a prefix may be read without the lock
	subs  map[*Subscription]struct{}
	began map[string]struct{} // streams that have shown something and not ended
	ended bool
}

func newHub() *hub {
	return &hub{subs: map[*Subscription]struct{}{}, began: map[string]struct{}{}}
}

// publish adds stored records and wakes the readers.
func (h *hub) publish(recs []Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, recs...)
	for _, r := range recs {
		h.over(r.Event)
	}
	for s := range h.subs {
		s.signal()
	}
}

// over forgets the streams that ev ends. A partial text ends none: pieces
// may follow until its turn ends.
func (h *hub) over(ev Event) {
	if _, ok := ev.(TurnEnded); ok {
		clear(h.began)
		for s := range h.subs {
			clear(s.torn)
		}
		return
	}
	key := streamOf(ev)
	if t, ok := ev.(Text); key == "" || ok && t.Partial {
		return
	}
	delete(h.began, key)
	for s := range h.subs {
		delete(s.torn, key)
	}
}

// show offers a live record to every subscriber. One that has no room loses
// it and the rest of the same stream, so that what a subscriber gets of a
// stream is always its beginning. must makes room whatever waits.
func (h *hub) show(r Record, must bool) {
	key, size := streamOf(r.Event), liveSize(r.Event)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	after := Seq(len(h.log))
	for s := range h.subs {
		_, torn := s.torn[key]
		if !must && (torn || len(s.live) >= maxLiveEvents || s.bytes+size > maxLiveBytes) {
			s.torn[key] = struct{}{}
			continue
		}
		s.live = append(s.live, liveRecord{Record: r, after: after, size: size})
		s.bytes += size
		s.signal()
	}
	if key != "" {
		h.began[key] = struct{}{}
	}
}

// end makes every subscription end once it has read the whole log.
func (h *hub) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for s := range h.subs {
		s.signal()
	}
}

func (h *hub) records() []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log[:len(h.log):len(h.log)]
}

func (h *hub) last() Seq {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Seq(len(h.log))
}

// subscribe returns a reader of what follows after; it gets again, as live
// records, behind the log of now.
func (h *hub) subscribe(after Seq, again []Record) *Subscription {
	s := &Subscription{hub: h, next: after, wake: make(chan struct{}, 1), torn: map[string]struct{}{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.began {
		s.torn[key] = struct{}{} // its beginning was missed
	}
	for _, r := range again {
		s.live = append(s.live, liveRecord{Record: r, after: Seq(len(h.log))})
	}
	h.subs[s] = struct{}{}
	return s
}

// Subscription reads a session's log as it grows. One goroutine reads it.
type Subscription struct {
	hub  *hub
	wake chan struct{} // holds one signal at most

	// Guarded by hub.mu.
	next   Seq // number of the last record that was handed out
	live   []liveRecord
	bytes  int
	torn   map[string]struct{} // streams that lost a piece
	closed bool
}

type liveRecord struct {
	Record
	after Seq
	size  int
}

// Next returns the next stored record or live event (Seq 0), in order. It
// blocks; ErrClosed after the session closed and everything was read.
// Of a message or a call's output the pieces that come are the first ones
// without a gap; the rest may be missing. The caller must not change what a
// record points to.
func (s *Subscription) Next(ctx context.Context) (Record, error) {
	for {
		if ctx.Err() != nil {
			return Record{}, context.Cause(ctx)
		}
		r, ok, err := s.take()
		if ok || err != nil {
			return r, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
		}
	}
}

func (s *Subscription) take() (Record, bool, error) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case s.closed:
		return Record{}, false, ErrClosed
	case len(s.live) > 0 && s.live[0].after <= s.next:
		head := s.live[0]
		s.live[0] = liveRecord{}
		s.live = s.live[1:]
		s.bytes -= head.size
		return head.Record, true, nil
	case s.next < Seq(len(h.log)):
		r := h.log[s.next]
		s.next++
		return r, true, nil
	case h.ended:
		return Record{}, false, ErrClosed
	}
	return Record{}, false, nil
}

// signal wakes the reader; a signal that is there already is enough.
func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close ends the subscription. It may be called from any goroutine and
// more than once.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subs, s)
	s.closed, s.live, s.torn = true, nil, nil
	s.signal()
}

// streamOf names the message or call that an event is a piece or the end
// of; empty for other events.
func streamOf(ev Event) string {
	switch e := ev.(type) {
	case TextDelta:
		return "text " + e.Message
	case Text:
		return "text " + e.Message
	case ReasoningDelta:
		return "reasoning " + e.Message
	case Reasoning:
		return "reasoning " + e.Message
	case CallOutput:
		return "output " + e.CallID
	case CallEnded:
		return "output " + e.CallID
	}
	return ""
}

func liveSize(ev Event) int {
	const overhead = 64
	switch e := ev.(type) {
	case TextDelta:
		return overhead + len(e.Text)
	case ReasoningDelta:
		return overhead + len(e.Text)
	case CallOutput:
		return overhead + len(e.Text)
	}
	return overhead
}
