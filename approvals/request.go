package approvals

import "slices"

// question is what a stage wants to know of a person.
type question struct {
	rule    *rule
	outcome Outcome
	reason  string
	unrated string
	why     string
	detail  string
	once    bool // no sticky approval
	typed   bool
}

func newRequest(e *evaluation, s Stage, q question) *Request {
	c := e.c
	req := &Request{
		CallID: c.call.ID, Tool: c.call.Tool, Arguments: c.call.Arguments, Digest: c.digest, Subject: c.subject,
		Rung: e.p.Rung, Stage: s, Outcome: q.outcome, Reason: q.reason, Unrated: q.unrated,
		Rule: e.v.Rule, Why: q.why, Notes: c.notes(), Typed: q.typed,
	}
	if q.typed {
		return req
	}
	req.RejectSession = offer(c.rejectEntry())
	if q.once || q.outcome == Catastrophic || e.p.Rung == Bypass {
		return req
	}
	if req.AllowSession = offer(c.allowEntry()); req.AllowSession != nil {
		same := *req.AllowSession
		req.AllowWorkspace = &same
	}
	return req
}

func offer(e Entry, ok bool) *Offer {
	if !ok {
		return nil
	}
	return &Offer{Entry: e, Preview: e.Preview(), Summary: e.Summary()}
}

// exactEntry names the subject of a call.
func (r *Reading) exactEntry() Entry {
	return Entry{Type: string(r.subject.Kind), Matcher: matchExact, Pattern: r.subject.Name, Server: r.subject.Server, Host: r.subject.Host}
}

// allowEntry is what a sticky approval would store. ok is false when no
// entry can be exact about the call, or would not match it again. A shell
// entry holds the canonical text, which matches by equality.
func (r *Reading) allowEntry() (e Entry, ok bool) {
	e = r.exactEntry()
	switch {
	case r.subject.Kind == SubjectShell:
		e.Pattern = r.scan.Canonical
		return e, r.scan.Single && e.Pattern != "" && r.allowable()
	case r.subject.Kind == SubjectTool && r.subject.Name == ShellTool, len(r.hosts) > 1:
		return e, false
	}
	return e, r.nameable()
}

// rejectEntry is what a sticky refusal would store.
func (r *Reading) rejectEntry() (e Entry, ok bool) {
	e = r.exactEntry()
	if r.subject.Kind == SubjectShell {
		e.Pattern = normalForm(r.subject.Command)
		return e, e.Pattern != ""
	}
	return e, r.nameable()
}

// nameable reports whether an entry can name the tool of a call: not one of
// a server that is not configured.
func (r *Reading) nameable() bool {
	return r.subject.Name != "" && (r.subject.Kind != SubjectMCP || r.subject.Server != "")
}

// GrantPreview returns the entry that a sticky approval of the call could
// store, or "" when none can.
func (r *Reading) GrantPreview() string { return preview(r.allowEntry()) }

// DenyPreview returns the entry that a sticky refusal of the call would
// store, or "" when none can.
func (r *Reading) DenyPreview() string { return preview(r.rejectEntry()) }

func preview(e Entry, ok bool) string {
	if !ok {
		return ""
	}
	return e.Preview()
}

// Analysis is what the gate read out of a call, for people and scripts.
// Lists are never null.
type Analysis struct {
	Parses     bool     `json:"parses"`
	Resolves   bool     `json:"resolves"` // every word of every command is known
	Single     bool     `json:"single"`   // and it is exactly one plain command
	Unresolved []string `json:"unresolved"`
	Programs   []string `json:"programs"`
	Wrappers   []string `json:"wrappers"`
	Writes     []string `json:"writes"`
	Reads      []string `json:"reads"`
	Hosts      []string `json:"hosts"`
	Opaque     bool     `json:"opaque"`
}

// Analysis returns what was read. A call of another tool than the shell
// parses and resolves, and has no programs.
func (r *Reading) Analysis() Analysis {
	a := Analysis{Parses: true, Resolves: true, Unresolved: []string{}, Programs: []string{}, Wrappers: []string{}, Writes: []string{}, Reads: []string{}, Hosts: []string{}}
	if s := r.scan; s != nil {
		a.Parses, a.Resolves, a.Single, a.Opaque = s.Unreadable == "", s.Static, s.Single, s.Opaque
		a.Programs, a.Wrappers = append(a.Programs, s.Programs...), append(a.Wrappers, s.Wrappers...)
		a.Writes, a.Reads, a.Hosts = append(a.Writes, s.Writes...), append(a.Reads, s.Reads...), append(a.Hosts, s.Hosts...)
		a.Unresolved = append(a.Unresolved, s.Dynamic...)
		for _, m := range slices.Concat(s.Unresolved, s.Hiding) {
			if !slices.Contains(a.Unresolved, m.Name) {
				a.Unresolved = append(a.Unresolved, m.Name)
			}
		}
		return a
	}
	a.addToolEffects(r.effects)
	return a
}
