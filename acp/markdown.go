package acp

import (
	"fmt"
	"strings"
	"unicode"
)

// Clients show text content as Markdown. Text that is not ours therefore
// goes into a code fence or span that it cannot leave.

// fence returns s as a code block.
func fence(s, lang string) string {
	mark := strings.Repeat("`", max(3, longestRun(s, '`')+1))
	end := "\n"
	if strings.HasSuffix(s, "\n") {
		end = ""
	}
	return mark + lang + "\n" + s + end + mark
}

// span returns s on one line as code.
func span(s string) string {
	s = visible(s)
	mark := strings.Repeat("`", longestRun(s, '`')+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") || s == "" {
		s = " " + s + " "
	}
	return mark + s + mark
}

func longestRun(s string, c byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] == c {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	return longest
}

// visible writes out the characters that could hide or reorder others.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			fmt.Fprintf(&b, `\u{%04x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// clip shortens s to n characters and says so.
func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}
