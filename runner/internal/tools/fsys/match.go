package fsys

import (
	"fmt"
	"strings"
)

const (
	maxFound    = 1000    // ambiguous places that are counted
	maxReplaced = 200_000 // places that one edit replaces
	maxCompared = 4 << 20 // lines compared by findTrimmed
)

// document is a text with plain line ends that remembers where a CR stood,
// so that a passage can be replaced without touching the rest.
type document struct {
	original string
	text     string // with "\r\n" as "\n"
	cr       []int  // offsets in text of the "\n" that had a CR, ascending
	ending   string // that most lines have
}

// change replaces text[start:end] of a document.
type change struct {
	start, end int
	with       string
}

func unifyLineEnds(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

func newDocument(original string) *document {
	d := &document{original: original, text: original, ending: "\n"}
	if !strings.Contains(original, "\r\n") {
		return d
	}
	d.text = unifyLineEnds(original)
	for from := 0; ; {
		i := strings.Index(original[from:], "\r\n")
		if i < 0 {
			break
		}
		d.cr = append(d.cr, from+i-len(d.cr))
		from += i + 2
	}
	if 2*len(d.cr) > strings.Count(d.text, "\n") {
		d.ending = "\r\n"
	}
	return d
}

// bound is how many places are looked for.
func bound(all bool) int {
	if all {
		return maxReplaced + 1
	}
	return maxFound
}

// find returns the places where old stands. For all it returns those that a
// replacement from left to right meets; otherwise also overlapping ones,
// because they are ambiguous.
func (d *document) find(old, with string, all bool) []change {
	var found []change
	for from := 0; len(found) < bound(all); {
		i := strings.Index(d.text[from:], old)
		if i < 0 {
			break
		}
		at := from + i
		found = append(found, change{at, at + len(old), with})
		if from = at + 1; all {
			from = at + len(old)
		}
	}
	return found
}

// findTrimmed compares whole lines without the blanks around them, and gives
// the replacement the indentation that the file has. A text that takes too
// much work matches nowhere, because half a search proves no unique match.
func (d *document) findTrimmed(old, with string, all bool) []change {
	want := strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	first := -1
	for i, line := range want {
		if want[i] = strings.TrimSpace(line); want[i] != "" && first < 0 {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	wasIndent := indent(strings.Split(old, "\n")[first])
	lines := d.lineStarts()
	var found []change
	work := 0
	for at := 0; at+len(want) < len(lines) && len(found) < bound(all); at++ {
		same := d.matching(lines, at, want)
		if work += same + 1; work > maxCompared {
			return nil
		}
		if same < len(want) {
			continue
		}
		end := lines[at+len(want)]
		text := reindent(with, wasIndent, indent(d.text[lines[at+first]:end]))
		if !strings.HasSuffix(old, "\n") && end > lines[at] && d.text[end-1] == '\n' {
			end--
		}
		found = append(found, change{lines[at], end, text})
	}
	return found
}

// lineStarts returns the offset of each line and, last, the length.
func (d *document) lineStarts() []int {
	starts := []int{0}
	for i := range len(d.text) {
		if d.text[i] == '\n' && i+1 < len(d.text) {
			starts = append(starts, i+1)
		}
	}
	return append(starts, len(d.text))
}

// matching counts how many lines of want stand at line at, one after another.
func (d *document) matching(starts []int, at int, want []string) int {
	for i, w := range want {
		if strings.TrimSpace(d.text[starts[at+i]:starts[at+i+1]]) != w {
			return i
		}
	}
	return len(want)
}

func indent(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// reindent moves lines that are indented by was to is.
func reindent(text, was, is string) string {
	if was == is {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if rest, ok := strings.CutPrefix(line, was); ok && strings.TrimSpace(line) != "" {
			lines[i] = is + rest
		}
	}
	return strings.Join(lines, "")
}

func withoutOverlap(found []change) []change {
	kept := found[:0:0]
	end := 0
	for _, c := range found {
		if c.start >= end {
			kept, end = append(kept, c), c.end
		}
	}
	return kept
}

// replace applies changes, which are in order and do not overlap, to the
// original. New text gets the line end of the passage it replaces.
func (d *document) replace(found []change) string {
	var b strings.Builder
	cr, done := 0, 0 // CRs passed, bytes of the original copied
	skip := func(offset int) int {
		for cr < len(d.cr) && d.cr[cr] < offset {
			cr++
		}
		return offset + cr
	}
	for _, c := range found {
		b.WriteString(d.original[done:skip(c.start)])
		ending, before := d.ending, cr
		done = skip(c.end)
		if strings.Contains(d.text[c.start:c.end], "\n") {
			if ending = "\n"; cr > before {
				ending = "\r\n"
			}
		}
		with := c.with
		if ending != "\n" {
			with = strings.ReplaceAll(with, "\n", ending)
		}
		b.WriteString(with)
	}
	b.WriteString(d.original[done:])
	return b.String()
}

func (d *document) lineOf(offset int) int { return 1 + strings.Count(d.text[:offset], "\n") }

// lines names the lines where changes begin.
func (d *document) lines(found []change) string {
	var b strings.Builder
	b.WriteString("lines ")
	for i, c := range found {
		if i == linesMentioned {
			b.WriteString(", …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", d.lineOf(c.start))
	}
	return b.String()
}

// hint says where the first line of a passage that was not found does occur.
func (d *document) hint(old string) string {
	for line := range strings.Lines(old) {
		line = strings.TrimSpace(line)
		if len(line) < 4 {
			continue
		}
		if at := strings.Index(d.text, line); at >= 0 {
			return fmt.Sprintf(", although a line of it occurs at line %d", d.lineOf(at))
		}
		return ""
	}
	return ""
}
