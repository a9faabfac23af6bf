package approvals

import (
	"regexp"
	"slices"
	"strings"
)

// textPattern is a compiled exact, glob or regexp pattern over a text.
type textPattern struct {
	exact string
	parts []string // of a glob, split at its stars
	re    *regexp.Regexp
}

func exactText(s string) textPattern { return textPattern{exact: s} }

func globText(s string) textPattern { return textPattern{parts: strings.Split(s, "*")} }

// compileText compiles a pattern that was validated before.
func compileText(matcher, pattern string, fold bool) textPattern {
	if matcher == matchRegexp {
		return textPattern{re: regexp.MustCompile(pattern)}
	}
	if fold {
		pattern = strings.ToLower(pattern)
	}
	if matcher == matchGlob {
		return globText(pattern)
	}
	return exactText(pattern)
}

// match compares the whole of s; a regexp searches in it.
func (t textPattern) match(s string) bool {
	switch {
	case t.re != nil:
		return t.re.MatchString(s)
	case t.parts != nil:
		return globMatch(t.parts, s)
	}
	return t.exact == s
}

// matchFold is match for a pattern compiled with fold. A regexp never folds.
func (t textPattern) matchFold(s, lower string) bool {
	if t.re != nil {
		return t.re.MatchString(s)
	}
	return t.match(lower)
}

// globMatch matches a glob whose only special character is the star, which
// stands for any run, line breaks included. It takes linear time: the first
// place where a part fits leaves most room for the others.
func globMatch(parts []string, s string) bool {
	if len(parts) == 1 {
		return parts[0] == s
	}
	last := len(parts) - 1
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	for _, p := range parts[1:last] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, parts[last])
}

// matchesAny reports whether one of texts matches.
func (t textPattern) matchesAny(texts []foldedText) bool {
	return slices.ContainsFunc(texts, func(x foldedText) bool { return t.matchFold(x.text, x.lower) })
}

// foldedText is a text with its lower-case form.
type foldedText struct{ text, lower string }

func fold(s string) foldedText { return foldedText{s, strings.ToLower(s)} }
