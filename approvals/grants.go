package approvals

import "strings"

// Grants are the remembered answers of a session: its own grants and
// refusals and those of its workspace. Immutable, safe for concurrent use.
// The caller leaves out what has expired: this package has no clock.
type Grants struct {
	allow    ruleIndex
	refusals ruleIndex
}

// ruleIndex finds exact rules by what they hold, so that a hundred of them
// cost what one does, and keeps the others in a list.
type ruleIndex struct {
	exact map[string]*rule
	rest  []*rule
}

// The sources that verdicts name for remembered answers.
const (
	sourceSession   = "session"
	sourceWorkspace = "workspace"
)

// NewGrants compiles remembered answers. An entry that breaks the grammar
// grants nothing; a refusal that does refuses nothing.
func NewGrants(session, workspace, refusals []Grant) *Grants {
	g := &Grants{}
	g.allow.add(session, listAllow, sourceSession)
	g.allow.add(workspace, listAllow, sourceWorkspace)
	g.refusals.add(refusals, listDeny, sourceSession)
	return g
}

func (x *ruleIndex) add(grants []Grant, list, source string) {
	for _, g := range grants {
		r, err := compileRule(g.Entry, list, source)
		if err != nil {
			continue
		}
		keys := r.keys()
		if keys == nil {
			x.rest = append(x.rest, r)
			continue
		}
		if x.exact == nil {
			x.exact = map[string]*rule{}
		}
		for _, key := range keys {
			if _, taken := x.exact[key]; !taken {
				x.exact[key] = r
			}
		}
	}
}

// keys are what an exact entry holds: each call that it matches has one of
// them. Nil for entries that have to be compared one by one.
func (r *rule) keys() []string {
	e := &r.entry
	switch {
	case e.Matcher != matchExact, e.Server == anyServer:
		return nil
	case e.Type == typeShell && r.list == listAllow:
		keys := []string{textKey(e.Pattern)}
		if r.words != nil {
			keys = append(keys, wordsKey(r.words))
		}
		return keys
	case e.Type == typeTool, e.Type == typeMCP:
		host, _ := canonicalHost(e.Host)
		return []string{toolKey(e.Type, e.Server, e.Pattern, host)}
	}
	return nil
}

func textKey(text string) string { return "text\x00" + text }

func wordsKey(words []string) string { return "words\x00" + strings.Join(words, "\x00") }

func toolKey(typ, server, name, host string) string {
	return typ + "\x00" + server + "\x00" + name + "\x00" + host
}

// granted returns the grant that allows c, or nil.
func (g *Grants) granted(c *Reading) *rule {
	if g == nil {
		return nil
	}
	if c.subject.Kind == SubjectShell {
		if r := g.allow.shell(c); r != nil {
			return r
		}
	} else if r := g.allow.tool(c.subject); r != nil {
		return r
	}
	for _, r := range g.allow.rest {
		if r.permits(c) {
			return r
		}
	}
	return nil
}

func (x *ruleIndex) shell(c *Reading) *rule {
	if len(x.exact) == 0 {
		return nil
	}
	for _, key := range []string{textKey(c.scan.Canonical), wordsKey(c.scan.Words)} {
		if r := x.exact[key]; r != nil && r.permits(c) {
			return r
		}
	}
	return nil
}

// tool looks for an entry with the subject's host, then for one without.
func (x *ruleIndex) tool(s Subject) *rule {
	if len(x.exact) == 0 {
		return nil
	}
	for _, host := range []string{s.Host, ""} {
		if r := x.exact[toolKey(string(s.Kind), s.Server, s.Name, host)]; r != nil && r.names(s) {
			return r
		}
	}
	return nil
}

// refused returns the session refusal that a call falls under, or nil.
func (g *Grants) refused(c *Reading) *rule {
	if g == nil {
		return nil
	}
	if c.subject.Kind != SubjectShell {
		if r := g.refusals.tool(c.subject); r != nil {
			return r
		}
	}
	r, a := firstForbidding(g.refusals.rest, c)
	if a != answerYes {
		return nil
	}
	return r
}
