package approvals

import (
	"regexp"
	"strings"

	"golang.org/x/text/unicode/norm"
)

var (
	ansiSequence = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(\x07|\x1b\\\\)?|\x1b.?")
	blankRun     = regexp.MustCompile(`[ \t\f\v\x{a0}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}]+`)
	breakRun     = regexp.MustCompile(`[ ]*\n[ \n]*`)
)

// normalForm is the lossy spelling in which deny and escalate rules see a
// text: it removes what people use to dress a command up. Different texts
// may share one, so it never allows anything. See docs/rules.md.
func normalForm(s string) string {
	if plainText(s) {
		return strings.TrimSpace(s)
	}
	s = ansiSequence.ReplaceAllString(s, "")
	s = strings.ReplaceAll(s, "\x00", "")
	s = norm.NFKC.String(s)
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	s = dropBackslashes(s)
	s = strings.ReplaceAll(strings.ReplaceAll(s, "''", ""), `""`, "")
	s = blankRun.ReplaceAllString(s, " ")
	s = breakRun.ReplaceAllString(s, "\n")
	return strings.TrimSpace(s)
}

// plainText reports whether s is its own normal form up to outer space: the
// usual case, worth skipping the work for.
func plainText(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c < ' ' || c >= 0x7f || c == '\\':
			return false
		case i > 0 && c == s[i-1] && (c == ' ' || c == '\'' || c == '"'):
			return false
		}
	}
	return true
}

func dropBackslashes(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && s[i+1] != '\n' {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
