// Package terminal shows calls and decisions to a person at a terminal and
// reads the answers.
//
// Guarantees: text that a model, a repository or a server wrote cannot
// move the cursor, change colours, hide part of itself or look like a line
// of ours: control, format and separator characters are spelled out, and
// every line of it stands behind a gutter. Any answer that is not one of
// the offered keys refuses.
//
// Not guaranteed: that a person reads what is shown.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape returns s on one line, with every character that a terminal acts
// on, or that does not show, spelled out.
func Escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
		i += n
	}
	return b.String()
}

// Text returns s, of as many lines as it has, without anything that moves
// the cursor, changes colours or reorders what is shown: such characters
// are spelled out. Unlike Escape it keeps tabs and what joins letters and
// emoji.
func Text(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch r {
		case '\n', '\t', '\u00a0', '\u200c', '\u200d':
			b.WriteRune(r)
		default:
			b.WriteString(Escape(s[i : i+n]))
		}
		i += n
	}
	return b.String()
}

// Block returns text behind our gutter, a line of text a line, wrapped to
// width columns (at least 20) and at most limit lines (0 is all); what is
// left out in the middle is counted.
func Block(text string, width, limit int) []string {
	width = max(width, 20)
	var lines []string
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		gutter := fmt.Sprintf("%4d | ", i+1)
		rest := Escape(strings.TrimSuffix(line, "\r"))
		if strings.HasSuffix(line, "\r") {
			rest += `\x0d`
		}
		for {
			part, tail := cut(rest, width-len(gutter))
			lines = append(lines, gutter+part)
			if tail == "" {
				break
			}
			rest, gutter = tail, "     : "
		}
	}
	if limit > 2 && len(lines) > limit {
		left := len(lines) - limit + 1
		head := (limit - 1) * 2 / 3
		tail := limit - 1 - head
		kept := append([]string{}, lines[:head]...)
		kept = append(kept, fmt.Sprintf("     ~ %d more lines", left))
		lines = append(kept, lines[len(lines)-tail:]...)
	}
	return lines
}

func cut(s string, columns int) (string, string) {
	used := 0
	for i, r := range s {
		w := 1
		if r >= 0x1100 {
			w = 2 // wide or of ambiguous width: count what can be too much
		}
		if used+w > columns && i > 0 {
			return s[:i], s[i:]
		}
		used += w
	}
	return s, ""
}

// Painter colours text where the output is a terminal. The zero value does
// not.
type Painter struct{ On bool }

func (p Painter) paint(code, s string) string {
	if !p.On {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Good paints approvals. Like all of these it takes text of ours, or escaped.
func (p Painter) Good(s string) string { return p.paint("32", s) }

// Bad paints refusals.
func (p Painter) Bad(s string) string { return p.paint("31", s) }

// Warn paints questions.
func (p Painter) Warn(s string) string { return p.paint("33", s) }

// Dim paints what matters least.
func (p Painter) Dim(s string) string { return p.paint("2", s) }

// Bold paints what matters most.
func (p Painter) Bold(s string) string { return p.paint("1", s) }
