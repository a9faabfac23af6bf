package shellscan

import (
	"strings"
	"unicode/utf8"
)

// ansiC decodes the inside of $'…'. It reports false where bash would cut
// the text short (a NUL) or where the escape is not one it documents.
func ansiC(s string) (string, bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			i++
			continue
		}
		c := s[i+1]
		i += 2
		if k := strings.IndexByte(`abeEfnrtv\'"?`, c); k >= 0 {
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[k])
			continue
		}
		n, ok := ansiNumber(s, &i, c)
		switch {
		case !ok:
			b.WriteByte('\\')
			b.WriteByte(c)
		case n == 0:
			return "", false
		case c == 'u' || c == 'U':
			if n > utf8.MaxRune {
				return "", false
			}
			b.WriteRune(rune(n))
		default:
			b.WriteByte(byte(n))
		}
	}
	return b.String(), true
}

// ansiNumber reads the digits of a numeric escape of kind c at *i.
func ansiNumber(s string, i *int, c byte) (n uint32, ok bool) {
	switch {
	case c >= '0' && c <= '7':
		*i--
		return digits(s, i, 3, 8) & 0xff, true
	case c == 'x' && *i < len(s) && s[*i] == '{':
		*i++
		n = digits(s, i, 8, 16) & 0xff
		if *i < len(s) && s[*i] == '}' {
			*i++
		}
		return n, true
	case c == 'x' && more(s, *i):
		return digits(s, i, 2, 16), true
	case c == 'u' && more(s, *i):
		return digits(s, i, 4, 16), true
	case c == 'U' && more(s, *i):
		return digits(s, i, 8, 16), true
	case c == 'c' && *i < len(s):
		n = uint32(s[*i]) & 0x1f
		*i++
		return n, true
	}
	return 0, false
}

func more(s string, i int) bool { return i < len(s) && digit(s[i]) < 16 }

func digits(s string, i *int, count int, base uint32) (n uint32) {
	for ; count > 0 && *i < len(s); count-- {
		d := digit(s[*i])
		if d >= base {
			break
		}
		n = n*base + d
		*i++
	}
	return n
}

func digit(c byte) uint32 {
	switch {
	case c >= '0' && c <= '9':
		return uint32(c - '0')
	case c >= 'a' && c <= 'f':
		return uint32(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return uint32(c-'A') + 10
	}
	return 99
}
