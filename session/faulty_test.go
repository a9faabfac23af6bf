package session_test

import (
	"context"
	"errors"
	"sync"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

var errDisk = errors.New("no space left on the test's disk")

// faulty is a store that fails where a test says so. A lossy append stores
// the batch and fails afterwards, like a disk that answers too late.
type faulty struct {
	session.Store

	mu      sync.Mutex // guards what follows
	refuse  func(session.Batch) bool
	lossy   bool
	answers error
	reads   error
	appends int
}

func (f *faulty) set(change func(*faulty)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faulty) Append(ctx context.Context, b session.Batch) ([]session.Record, error) {
	f.mu.Lock()
	f.appends++
	refuse, lossy := f.refuse != nil && f.refuse(b), f.lossy
	f.mu.Unlock()
	if refuse && !lossy {
		return nil, errDisk
	}
	recs, err := f.Store.Append(ctx, b)
	if refuse && err == nil {
		return nil, errDisk
	}
	return recs, err
}

func (f *faulty) AnswerAsk(ctx context.Context, id string, a approvals.Answer, d approvals.Decision) (session.StoredAsk, error) {
	f.mu.Lock()
	err := f.answers
	f.mu.Unlock()
	if err != nil {
		return session.StoredAsk{}, err
	}
	return f.Store.AnswerAsk(ctx, id, a, d)
}

func (f *faulty) Grants(ctx context.Context, workspace string) ([]approvals.Grant, error) {
	f.mu.Lock()
	err := f.reads
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return f.Store.Grants(ctx, workspace)
}

// holds tells a batch that has an event of type T.
func holds[T session.Event](b session.Batch) bool {
	for _, ev := range b.Events {
		if _, ok := ev.(T); ok {
			return true
		}
	}
	return false
}
