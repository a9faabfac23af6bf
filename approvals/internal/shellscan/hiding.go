package shellscan

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// rawHiding finds what the tree no longer shows: bytes at which bash and
// the parser part ways.
func (w *walker) rawHiding(text string) {
	if i := strings.IndexByte(text, '\r'); i >= 0 {
		w.hiding("carriage-return", around(text, i), w.offset(i))
	}
	for from := 0; ; {
		i := strings.Index(text[from:], "\\\n")
		if i < 0 {
			return
		}
		i += from
		if i > 0 && strings.IndexByte("$|&;<>(){}`", text[i-1]) >= 0 {
			w.flags |= fControl
			w.hiding("operator-continuation", around(text, i), w.offset(i))
			return
		}
		from = i + 2
	}
}

func (w *walker) offset(i int) int {
	if w.at >= 0 {
		return w.at
	}
	return i
}

// around returns the line that holds a position.
func around(text string, i int) string {
	from := strings.LastIndexByte(text[:i], '\n') + 1
	return text[from:min(len(text), i+20)]
}

// controls notes characters that a person reading the command does not
// see, or sees as something else.
func (w *walker) controls(text string) {
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if c < ' ' && c != '\t' && c != '\n' || c == 0x7f {
				w.control(text, i)
				return
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if unseen(r, n) {
			w.control(text, i)
			return
		}
		i += n
	}
}

func (w *walker) control(text string, i int) {
	w.unresolved("control-char", around(text, i), i)
	w.flags |= fControl
}

// fControl marks a text with characters that are not seen.
const fControl flag = 1 << 13

func unseen(r rune, n int) bool {
	if r == utf8.RuneError && n == 1 {
		return true
	}
	const joiner = '\u200d' // part of many emoji
	return r >= 0x80 && r < 0xa0 || r != ' ' && unicode.Is(unicode.Zs, r) || r == '\u2028' || r == '\u2029' ||
		unicode.Is(unicode.Cf, r) && r != joiner
}

// mendComments returns text with the backslash removed from comments that
// end in one before a line break: bash ends the comment there, the parser
// would join the lines. It reports whether it changed anything.
func mendComments(text string, f *syntax.File) (string, bool) {
	var cuts []int
	syntax.Walk(f, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.Comment); ok && strings.Contains(c.Text, "\\\n") {
			cuts = append(cuts, int(c.Hash.Offset()))
		}
		return true
	})
	if len(cuts) == 0 {
		return text, false
	}
	b := []byte(text)
	for _, c := range cuts {
		for i := c; i+1 < len(b) && b[i] != '\n'; i++ {
			if b[i] == '\\' && b[i+1] == '\n' {
				b[i] = ' '
			}
		}
	}
	return string(b), true
}
