package sessiontest

import (
	"context"
	"errors"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
)

// Resume is what a Resuming runner does with approved calls.
type Resume func(ctx context.Context, t *session.Turn, approved []session.Settled) error

// Resuming is a Scripted runner that can run calls outside turns.
type Resuming struct {
	*Scripted
	resume Resume
}

var _ session.Resumer = (*Resuming)(nil)

// NewResuming returns a constructor of runners that play scripts and resume.
func NewResuming(resume Resume, scripts ...Script) session.NewRunner {
	return func(context.Context, session.Spec) (session.Runner, error) {
		return &Resuming{Scripted: New(scripts...), resume: resume}, nil
	}
}

// Resume hands the calls to the function of NewResuming.
func (r *Resuming) Resume(ctx context.Context, t *session.Turn, approved []session.Settled) error {
	return r.resume(ctx, t, approved)
}

// RunSettled takes settled calls to their ends as a good runner does: it
// claims, marks, runs and ends those that were approved, and ends the
// others as refused. It is a Resume, and fits behind Ask.
func RunSettled(run func(callID string) (result string)) Resume {
	return func(ctx context.Context, t *session.Turn, settled []session.Settled) error {
		for _, s := range settled {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := runOne(ctx, t, s, run); err != nil {
				return err
			}
		}
		return nil
	}
}

func runOne(ctx context.Context, t *session.Turn, s session.Settled, run func(string) string) error {
	end := session.CallEnded{CallID: s.Request.CallID, State: session.CallRefused, Result: s.Decision.Message}
	stored := context.WithoutCancel(ctx)
	if s.Decision.Action != approvals.Approve {
		return t.Append(stored, end)
	}
	err := t.Claim(ctx, s.Request.ID, s.Request.Digest)
	if errors.Is(err, session.ErrConflict) {
		return t.Append(stored, end)
	}
	if err != nil {
		return err
	}
	if err := t.AppendSync(ctx, session.CallExecuting{CallID: s.Request.CallID, Digest: s.Request.Digest}); err != nil {
		return err
	}
	end.State, end.Result = session.CallCompleted, run(s.Request.CallID)
	return t.AppendSync(stored, end)
}
