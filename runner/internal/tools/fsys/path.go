package fsys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxPath = 4096 // bytes of a path argument

var urlScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+://`)

// target is a path argument after the textual rules: trimmed, one pair of
// quotes removed, absolute and cleaned. Nothing was looked up yet.
type target struct {
	abs      string
	wantsDir bool // the text ends in a slash
}

// parsePath applies the textual rules to a path argument. A tilde, a percent
// sign and a dollar sign are ordinary characters.
func (f *FS) parsePath(raw string) (target, error) {
	p := unquote(strings.TrimSpace(raw))
	switch {
	case p == "":
		return target{}, errors.New("the path is empty: name a file or directory; \".\" is the workspace")
	case len(p) > maxPath:
		return target{}, fmt.Errorf("the path is %d bytes long and may have %d: give a shorter one", len(p), maxPath)
	case !utf8.ValidString(p):
		return target{}, errors.New("the path is not valid UTF-8: give the name as text")
	case strings.ContainsFunc(p, unicode.IsControl):
		return target{}, fmt.Errorf("the path %s has a control character: give a plain path", quote(p))
	case urlScheme.MatchString(p):
		return target{}, fmt.Errorf("%s is a URL: give a plain path", quote(p))
	}
	t := target{abs: filepath.Clean(p), wantsDir: os.IsPathSeparator(p[len(p)-1])}
	if !filepath.IsAbs(p) {
		t.abs = filepath.Join(f.roots[0].path, p)
	}
	return t, nil
}

// unquote removes one pair of equal quotes round the whole text.
func unquote(s string) string {
	if n := len(s); n >= 2 && s[0] == s[n-1] && strings.IndexByte("\"'`", s[0]) >= 0 {
		return s[1 : n-1]
	}
	return s
}

// components splits an absolute path. On Windows the volume is the first one.
func components(abs string) []string {
	vol := filepath.VolumeName(abs)
	parts := strings.FieldsFunc(abs[len(vol):], func(r rune) bool { return r < utf8.RuneSelf && os.IsPathSeparator(byte(r)) })
	if vol == "" {
		return parts
	}
	return append([]string{vol}, parts...)
}

// below returns what follows dir in parts, comparing whole components.
func below(dir string, parts []string) ([]string, bool) {
	prefix := components(dir)
	if len(parts) < len(prefix) {
		return nil, false
	}
	for i, p := range prefix {
		if parts[i] != p {
			return nil, false
		}
	}
	return parts[len(prefix):], true
}

// locate returns the innermost root that contains the path and the
// components below it, or nil. A ".." among the components of the prefix
// never matches.
func (f *FS) locate(parts []string) (*root, []string) {
	var best *root
	var rest []string
	for _, r := range f.roots {
		for _, dir := range [...]string{r.path, r.real} {
			got, ok := below(dir, parts)
			if ok && (best == nil || len(got) < len(rest)) {
				best, rest = r, got
			}
		}
	}
	return best, rest
}

// show renders a path for texts: relative to the first root where it is
// inside, and quoted when a reader could misread it.
func (f *FS) show(abs string) string {
	if rest, ok := below(f.roots[0].path, components(abs)); ok {
		if len(rest) == 0 {
			return "."
		}
		return plain(filepath.Join(rest...))
	}
	return plain(abs)
}

// plain returns s as it is unless it holds characters that do not show.
func plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return quote(s)
	}
	return s
}

// quote returns s in double quotes with everything escaped that does not
// show, cut to a readable length.
func quote(s string) string {
	const most = 300
	if len(s) > most {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(s[:most], ""))
	}
	return fmt.Sprintf("%q", s)
}

func (f *FS) errOutside(abs string) error {
	dirs := make([]string, 0, len(f.roots))
	for _, r := range f.roots {
		if !r.readOnly {
			dirs = append(dirs, plain(r.path))
		}
	}
	is := "is"
	if r, _ := f.locate(components(abs)); r != nil {
		is = "leads through a symbolic link to a place"
	}
	return fmt.Errorf("%s %s outside the workspace (%s): file tools work inside it only; use a path in it or ask the user to add the directory",
		quote(abs), is, strings.Join(dirs, ", "))
}
