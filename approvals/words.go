package approvals

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// splitWords splits the pattern of an exec entry as the shell splits words.
// Every word must be known as written: a pattern is no script.
func splitWords(pattern string) ([]string, error) {
	var words []string
	p := syntax.NewParser(syntax.Variant(syntax.LangBash))
	for w, err := range p.WordsSeq(strings.NewReader(pattern)) {
		if err != nil {
			return nil, fieldErr("pattern", "%q cannot be split into words: %v", pattern, err)
		}
		text, ok := literal(w.Parts, false)
		if !ok {
			return nil, fieldErr("pattern", "%q holds an expansion: write plain words", pattern)
		}
		words = append(words, text)
	}
	if len(words) == 0 {
		return nil, fieldErr("pattern", "%q holds no word: name a program", pattern)
	}
	return words, nil
}

func literal(parts []syntax.WordPart, quoted bool) (string, bool) {
	var b strings.Builder
	for _, part := range parts {
		switch x := part.(type) {
		case *syntax.Lit:
			b.WriteString(unescape(x.Value, quoted))
		case *syntax.SglQuoted:
			if x.Dollar {
				return "", false
			}
			b.WriteString(x.Value)
		case *syntax.DblQuoted:
			inner, ok := literal(x.Parts, true)
			if !ok || x.Dollar {
				return "", false
			}
			b.WriteString(inner)
		default:
			return "", false
		}
	}
	return b.String(), true
}

// unescape removes the backslashes that the shell would remove.
func unescape(s string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("\\\"$`", s[i+1]) >= 0) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
