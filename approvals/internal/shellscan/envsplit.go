package shellscan

import "strings"

// splitEnv splits a text into words as env -S does, which has quotes,
// escapes and ${NAME} of its own. ok is false for what env refuses, and for
// text that is not known.
func splitEnv(s value) (out []value, ok bool) {
	if !s.known() {
		return nil, false
	}
	e := envSplitter{text: s.text}
	for e.at < len(e.text) && !e.ended {
		if !e.step() {
			return nil, false
		}
	}
	e.end()
	for i := range e.words {
		e.words[i].node = s.node
	}
	return e.words, e.quote == 0
}

type envSplitter struct {
	text  string
	at    int
	words []value
	word  []byte
	flags flag
	open  bool // a word has begun
	quote byte // the quote that is open, or 0
	ended bool
}

func (e *envSplitter) end() {
	if e.open {
		e.words = append(e.words, value{text: string(e.word), flags: e.flags})
	}
	e.word, e.flags, e.open = nil, 0, false
}

func (e *envSplitter) add(c byte) { e.word, e.open = append(e.word, c), true }

// step reads one character or one escape. It reports false for an error.
func (e *envSplitter) step() bool {
	c := e.text[e.at]
	e.at++
	switch {
	case c == e.quote:
		e.quote = 0
	case e.quote == 0 && (c == '\'' || c == '"'):
		e.quote, e.open = c, true
	case e.quote == 0 && strings.IndexByte(" \t\n\v\f\r", c) >= 0:
		e.end()
	case e.quote == 0 && c == '#' && !e.open:
		e.ended = true
	case c == '\\':
		return e.escape()
	case c == '$' && e.quote != '\'':
		end := strings.IndexByte(e.text[e.at:], '}')
		if end < 0 || e.text[e.at] != '{' {
			return false
		}
		e.at += end + 1
		e.add('*')
		e.flags |= fParam
	default:
		e.add(c)
	}
	return true
}

func (e *envSplitter) escape() bool {
	if e.at == len(e.text) {
		return false
	}
	c := e.text[e.at]
	e.at++
	switch i := strings.IndexByte("fnrtv", c); {
	case e.quote == '\'' && c != '\\' && c != '\'':
		e.add('\\')
		e.add(c)
	case strings.IndexByte("#$\"'\\", c) >= 0:
		e.add(c)
	case i >= 0:
		e.add("\f\n\r\t\v"[i])
	case c == '_' && e.quote == '"':
		e.add(' ')
	case c == '_':
		e.end()
	case c == 'c' && e.quote == 0:
		e.ended = true
	default:
		return false
	}
	return true
}
