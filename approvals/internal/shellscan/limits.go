package shellscan

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of what is read. Beyond them a text is refused or a part of it is
// unresolved; nothing is cut silently.
const (
	maxText       = 64 << 10 // bytes of a text
	maxOpen       = 100      // openers without their closers
	maxDepth      = 4        // scripts within scripts
	maxBraces     = 256      // words from one brace expansion
	maxBraceParts = 24       // opening braces in one word
	maxExpand     = 4096     // words from all brace expansions of a text
	maxWrappers   = 128      // wrappers around one command
	maxNested     = 256 << 10
	maxSnippet    = 80 // bytes of a mechanism's text
)

// refuseText says why a text must not reach the parser, or "". The count
// of openers knows nothing of quotes: it may refuse an odd text, but never
// lets one through that would exhaust the parser's stack.
func refuseText(text string) string {
	if len(text) > maxText {
		return fmt.Sprintf("the command has %d bytes and at most %d are read; put the script into a file", len(text), maxText)
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return fmt.Sprintf("the command holds a NUL byte at offset %d; remove it", i)
	}
	if deepest(text) > maxOpen {
		return fmt.Sprintf("the command has more than %d unclosed brackets or blocks; flatten it", maxOpen)
	}
	return ""
}

// deepest returns the largest number of openers without closers at any
// point of text: brackets, and the words that open and close blocks.
func deepest(text string) int {
	open, most := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '(' || c == '{':
			open++
		case c == ')' || c == '}':
			open--
		case c >= 'a' && c <= 'z' && (i == 0 || !wordByte(text[i-1])):
			j := i
			for j < len(text) && wordByte(text[j]) {
				j++
			}
			switch text[i:j] {
			case "if", "while", "until", "for", "case", "select":
				open++
			case "fi", "done", "esac":
				open--
			}
			i = j - 1
		}
		open = max(open, 0)
		most = max(most, open)
	}
	return most
}

func wordByte(c byte) bool {
	return c == '_' || c == '-' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// trimBreaks drops line breaks around the text, which never change what
// bash runs. A break after a backslash belongs to the word and stays.
func trimBreaks(text string) string {
	text = strings.TrimLeft(text, "\r\n")
	t := strings.TrimRight(text, "\r\n")
	if strings.HasSuffix(t, `\`) {
		return text
	}
	return t
}

var parsers = sync.Pool{New: func() any {
	return syntax.NewParser(syntax.Variant(syntax.LangBash))
}}

// maxMend bounds how often a text is parsed again to mend its comments.
const maxMend = 8

// parseTree parses a text as bash.
func parseTree(text string) (*syntax.File, error) {
	f, _, err := parseText(text)
	return f, err
}

// parseText parses a text as bash. It returns the text that the tree's
// positions refer to, which differs from text only within comments.
func parseText(text string) (*syntax.File, string, error) {
	for range maxMend {
		if strings.IndexByte(text, '#') < 0 || !strings.Contains(text, "\\\n") {
			break
		}
		p := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true))
		f, err := p.Parse(strings.NewReader(text), "")
		if err != nil {
			return nil, text, err
		}
		mended, changed := mendComments(text, f)
		if !changed {
			break
		}
		text = mended
	}
	p := parsers.Get().(*syntax.Parser)
	defer parsers.Put(p)
	f, err := p.Parse(strings.NewReader(text), "")
	return f, text, err
}

func syntaxReason(err error) string {
	var pe syntax.ParseError
	if errors.As(err, &pe) {
		return fmt.Sprintf("the command is not valid bash: line %d, column %d: %s", pe.Pos.Line(), pe.Pos.Col(), pe.Text)
	}
	var le syntax.LangError
	if errors.As(err, &le) {
		return fmt.Sprintf("the command is not valid bash: line %d, column %d: %s", le.Pos.Line(), le.Pos.Col(), le.Feature)
	}
	return "the command is not valid bash: " + err.Error()
}
