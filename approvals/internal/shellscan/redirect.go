package shellscan

import (
	"mvdan.cc/sh/v3/syntax"
)

// redirects values redirections.
func (w *walker) redirects(list []*syntax.Redirect) []redir {
	if len(list) == 0 {
		return nil
	}
	out := make([]redir, 0, len(list))
	for _, rd := range list {
		r := redir{op: rd.Op, pos: w.pos(rd)}
		if rd.N != nil {
			r.fd = rd.N.Value
		}
		switch rd.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			r.body, r.known = w.r.heredoc(rd)
			if rd.Hdoc != nil && !quotedWord(rd.Word) {
				w.flags |= w.docFlags(rd.Hdoc)
			}
		case syntax.WordHdoc:
			v := w.r.word(rd.Word)
			r.target, r.body = v, v.text
			r.known = v.known()
			w.flags |= v.flags &^ fGlob
		default:
			r.target = w.r.word(rd.Word)
			w.flags |= r.target.flags
		}
		out = append(out, r)
	}
	return out
}

// docFlags returns what keeps the body of a here-document from being known.
func (w *walker) docFlags(doc *syntax.Word) flag {
	b := wordBuilder{r: w.r}
	for _, p := range doc.Parts {
		if _, ok := p.(*syntax.Lit); !ok {
			b.double([]syntax.WordPart{p})
		}
	}
	return b.flags
}
