package approvals

import "strings"

// confirmation is what a person types to run a call that was rated an
// attack.
const confirmation = "run anyway"

// Settle turns an answer into what happens and what is stored. An answer
// that req did not offer refuses once.
func Settle(req *Request, a Answer) Decision {
	if req.Typed {
		if a.Choice == AllowOnce && strings.EqualFold(strings.TrimSpace(a.Typed), confirmation) {
			return Decision{Action: Approve}
		}
		return Decision{Action: Halt}
	}
	switch a.Choice {
	case AllowOnce:
		return Decision{Action: Approve}
	case AllowSession:
		return allowSticky(req, a, req.AllowSession, ScopeSession)
	case AllowWorkspace:
		return allowSticky(req, a, req.AllowWorkspace, ScopeWorkspace)
	case RejectSession:
		d := Decision{Action: Reject, Message: refusalMessage(req, a)}
		if req.RejectSession != nil {
			d.Scope, d.Refusal = ScopeSession, remember(req, a, req.RejectSession, ScopeSession)
		}
		return d
	case Unanswered:
		return Decision{Action: Reject, Message: unansweredMessage(req)}
	}
	return Decision{Action: Reject, Message: refusalMessage(req, a)}
}

// allowSticky approves and remembers. Edited arguments are not what the
// offer showed, so they are approved once.
func allowSticky(req *Request, a Answer, o *Offer, scope Scope) Decision {
	switch {
	case o == nil:
		return Decision{Action: Reject, Message: refusalMessage(req, a)}
	case len(a.Arguments) > 0:
		return Decision{Action: Approve}
	}
	return Decision{Action: Approve, Scope: scope, Grant: remember(req, a, o, scope)}
}

func remember(req *Request, a Answer, o *Offer, scope Scope) *Grant {
	return &Grant{Entry: o.Entry, Scope: scope, At: a.At, By: a.By, Ask: req.ID, Rung: req.Rung}
}
