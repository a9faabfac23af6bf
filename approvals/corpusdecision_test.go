package approvals

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type corpusDecision struct {
	Rung      Rung
	Approvals corpusLists
	Calls     []struct {
		Name    string
		Args    json.RawMessage
		SetRung *Rung `json:"set_rung"`
	}
	Rater   []string
	Human   json.RawMessage
	Banner  string
	Servers map[string]json.RawMessage `json:"mcpServers"`
	Gated   *struct {
		Rung      Rung
		Tool      string
		GateShell bool `json:"gate_shell"`
	}
}

type corpusHuman struct{ Type, Scope string }

// humans returns the answers in order; a single one answers every ask.
func (d corpusDecision) human(n int) *corpusHuman {
	if d.Human == nil {
		return nil
	}
	list := []corpusHuman{}
	if bytes.HasPrefix(d.Human, []byte("[")) {
		_ = json.Unmarshal(d.Human, &list)
	} else {
		var one corpusHuman
		_ = json.Unmarshal(d.Human, &one)
		for range n + 1 {
			list = append(list, one)
		}
	}
	return &list[min(n, len(list)-1)]
}

type corpusResult struct {
	Action string `json:"action"`
	Scope  string `json:"scope"`
	Stage  string `json:"stage"`
	Human  string `json:"human_answer"`
}

type corpusPrompt struct {
	Subject string  `json:"subject_kind"`
	Verdict *string `json:"verdict"`
	Grant   *string `json:"grant_preview"`
	Deny    *string `json:"deny_preview"`
}

// corpusSession plays the calls of a case as a session would.
type corpusSession struct {
	in                corpusDecision
	policy            *Policy
	rung              Rung
	grants, refusals  []Grant
	ratings, answered int
	results           []corpusResult
	prompts           []corpusPrompt
}

func TestCorpusDecision(t *testing.T) {
	runCorpus(t, "decision", func(t *testing.T, c corpusCase) string {
		var in corpusDecision
		c.input(t, &in)
		if in.Gated != nil {
			var want struct{ Gated bool }
			c.expect(t, &want)
			return cmp.Diff(want.Gated, Gated(in.Gated.Tool, in.Gated.Rung))
		}
		var want struct {
			Results []corpusResult
			Prompts []corpusPrompt
			Calls   *int `json:"rating_calls"`
		}
		c.expect(t, &want)
		s := &corpusSession{in: in, policy: in.Approvals.policy(t), rung: in.Rung}
		s.play()
		if c.Recommended != nil || c.ExpectAST != nil {
			// These expectations state only what differs.
			for i := range s.results {
				s.results[i].Human = want.Results[i].Human
			}
			return cmp.Diff(want.Results, s.results)
		}
		got := want
		got.Results, got.Prompts = s.results, append([]corpusPrompt{}, s.prompts...)
		*got.Calls, want.Calls = s.ratings, new(int)
		*want.Calls = *got.Calls
		return cmp.Diff(want, got)
	})
}

func (s *corpusSession) play() {
	keys := make([]string, 0, len(s.in.Servers))
	for k := range s.in.Servers {
		keys = append(keys, k)
	}
	for _, call := range s.in.Calls {
		if call.SetRung != nil {
			s.rung = *call.SetRung
			continue
		}
		c := Call{ID: "call", Tool: call.Name}
		c.Arguments, _ = CanonicalArguments(call.Args)
		if server, name, ok := ResolveMCP(call.Name, keys); ok && server != "" {
			c.Server, c.Name = server, name
		}
		s.decide(Read(c, testPlace))
	}
}

func (s *corpusSession) decide(r *Reading) {
	p := Posture{Rung: s.rung, Policy: s.policy, Grants: NewGrants(s.grants, nil, s.refusals)}
	v := Evaluate(r, p, nil)
	if v.Action == Rate {
		rating := &Rating{Reason: "because"}
		if word := s.in.Rater[s.ratings]; rating.Outcome.UnmarshalText([]byte(word)) != nil {
			rating.Failure = "threw"
		}
		s.ratings++
		v = Evaluate(r, p, rating)
	}
	out := corpusResult{Action: v.Action.String(), Stage: string(v.Stage)}
	switch v.Action {
	case Approve:
		out.Scope = corpusScope(v.Scope)
	case Ask:
		out = s.ask(v, out)
	case Halt:
		out = s.halt(v, out)
	}
	s.results = append(s.results, out)
}

func corpusScope(s Scope) string {
	if s == ScopeWorkspace {
		return "always"
	}
	return s.String()
}

func (s *corpusSession) ask(v Verdict, out corpusResult) corpusResult {
	h := s.in.human(s.answered)
	if h == nil {
		out.Action, out.Human = "escalation-stop", "no-human"
		return out
	}
	s.answered++
	p := corpusPrompt{Subject: string(v.Request.Subject.Kind), Grant: shown(v.Request.AllowSession), Deny: shown(v.Request.RejectSession)}
	if v.Request.Outcome != Unrated {
		o := v.Request.Outcome.String()
		p.Verdict = &o
	}
	s.prompts = append(s.prompts, p)
	choices := map[corpusHuman]Choice{
		{"approve", "once"}: AllowOnce, {"approve", "session"}: AllowSession, {"approve", "always"}: AllowWorkspace,
		{"reject", "session"}: RejectSession,
	}
	d := Settle(v.Request, Answer{Choice: choices[*h], At: time.Unix(1, 0)})
	out.Action, out.Human = d.Action.String(), h.Type
	if d.Action == Approve || d.Scope != ScopeOnce {
		out.Scope = corpusScope(d.Scope)
	}
	if d.Grant != nil {
		s.grants = append(s.grants, *d.Grant)
	}
	if d.Refusal != nil {
		s.refusals = append(s.refusals, *d.Refusal)
	}
	return out
}

func (s *corpusSession) halt(v Verdict, out corpusResult) corpusResult {
	out.Human = "no-human"
	if s.in.Banner == "" {
		return out
	}
	a := Answer{}
	if s.in.Banner == "run-anyway" {
		a = Answer{Choice: AllowOnce, Typed: " Run Anyway "}
	}
	d := Settle(v.Request, a)
	out.Action, out.Human = d.Action.String(), "reject"
	if d.Action == Approve {
		out.Human, out.Scope = "approve", corpusScope(d.Scope)
	}
	return out
}
