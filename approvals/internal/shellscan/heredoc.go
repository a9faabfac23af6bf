package shellscan

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// foldCat returns the output of `cat <<'X' … X`.
func (r *resolver) foldCat(c *syntax.CmdSubst) (string, bool) {
	if r.catShadow || len(c.Stmts) != 1 || c.TempFile || c.ReplyVar {
		return "", false
	}
	st := c.Stmts[0]
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || st.Background || st.Coprocess || len(call.Assigns) > 0 ||
		len(call.Args) != 1 || call.Args[0].Lit() != "cat" || len(st.Redirs) != 1 {
		return "", false
	}
	rd := st.Redirs[0]
	if (rd.Op != syntax.Hdoc && rd.Op != syntax.DashHdoc) || rd.N != nil || rd.Hdoc == nil {
		return "", false
	}
	body, ok := r.heredoc(rd)
	if !ok {
		return "", false
	}
	return strings.TrimRight(body, "\n"), true
}

// heredoc returns the body of a here-document if the text shows it.
func (r *resolver) heredoc(rd *syntax.Redirect) (string, bool) {
	if rd.Hdoc == nil {
		return "", true
	}
	b := wordBuilder{r: r}
	if quotedWord(rd.Word) {
		for _, p := range rd.Hdoc.Parts {
			l, ok := p.(*syntax.Lit)
			if !ok {
				return "", false
			}
			b.add(l.Value)
		}
	} else {
		for _, p := range rd.Hdoc.Parts {
			if l, ok := p.(*syntax.Lit); ok {
				b.escaped(l.Value, "$`\\")
				continue
			}
			b.double([]syntax.WordPart{p})
		}
	}
	s := string(b.text)
	if rd.Op == syntax.DashHdoc {
		s = dropTabs(s)
	}
	return s, b.flags&(fDynamic|fGlob|fTilde) == 0
}

// quotedWord reports whether any part of a here-document's delimiter is
// quoted, which makes its body literal.
func quotedWord(w *syntax.Word) bool {
	for _, p := range w.Parts {
		l, ok := p.(*syntax.Lit)
		if !ok || strings.IndexByte(l.Value, '\\') >= 0 {
			return true
		}
	}
	return false
}

func dropTabs(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimLeft(l, "\t")
	}
	return strings.Join(lines, "\n")
}
