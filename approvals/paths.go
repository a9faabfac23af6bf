package approvals

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// target is a path effect with every absolute path that it may mean. A
// relative path has one for each directory that the text may stand in.
type target struct {
	effect *Effect
	paths  []spot
	// sure is false when a part of the path, or the directory that it
	// starts from, is known only at run time: it allows nothing then.
	sure bool
}

// spot is one cleaned absolute path, as written and without symlinks.
type spot struct{ lex, real string }

// base is what is known of the current directory at a place in a text.
type base struct {
	dirs []string
	sure bool
}

// targetsOf resolves the path effects of a call.
func targetsOf(effects []Effect, place Place) []target {
	var out []target
	cur := base{dirs: []string{place.Cwd}, sure: true}
	for i := range effects {
		e := &effects[i]
		switch e.Kind {
		case effect.Exec:
			cur = cur.after(e, place)
		case effect.Read, effect.Write:
			out = append(out, cur.resolve(e, place))
		}
	}
	return out
}

// after returns the directories in which a command behind e may run. Whether
// a cd happened is often unknown, so the directories add up.
func (b base) after(e *Effect, place Place) base {
	if len(e.Argv) == 0 || (e.Argv[0].Text != "cd" && e.Argv[0].Text != "pushd" && e.Argv[0].Text != "popd") {
		return b
	}
	dest := place.Home
	for _, w := range e.Argv[1:] {
		switch {
		case !w.Static, w.Text == "-":
			return base{dirs: b.dirs}
		case strings.HasPrefix(w.Text, "-"):
			continue
		}
		dest = w.Text
	}
	next := base{dirs: slices.Clone(b.dirs), sure: b.sure && e.Argv[0].Text != "popd"}
	for _, d := range b.dirs {
		p := absolute(dest, d, place.Home)
		if !slices.Contains(next.dirs, p) && len(next.dirs) < maxBases {
			next.dirs = append(next.dirs, p)
		}
	}
	return next
}

const maxBases = 16

func (b base) resolve(e *Effect, place Place) target {
	t := target{effect: e, sure: e.Static}
	add := func(p string) {
		s := spot{lex: p, real: p}
		if place.RealPath != nil && e.Static {
			s.real = place.RealPath(p)
		}
		if !slices.Contains(t.paths, s) {
			t.paths = append(t.paths, s)
		}
	}
	if isAbsolute(e.Path) {
		add(absolute(e.Path, "/", place.Home))
	} else {
		t.sure = t.sure && b.sure
		for _, d := range b.dirs {
			add(absolute(e.Path, d, place.Home))
		}
	}
	if e.Via != effect.ViaTool && e.Via != effect.ViaPossible {
		return t
	}
	// A tool may read a leading tilde or a file URL literally or not.
	if strings.HasPrefix(e.Path, "~") {
		add(path.Join(place.Cwd, e.Path))
	}
	if u, err := url.Parse(e.Path); err == nil && u.Scheme == "file" {
		add(path.Clean("/" + u.Path))
	}
	return t
}

func isAbsolute(p string) bool {
	return strings.HasPrefix(p, "/") || p == "~" || strings.HasPrefix(p, "~/")
}

// absolute returns p as a cleaned absolute path, seen from dir.
func absolute(p, dir, home string) string {
	switch {
	case strings.HasPrefix(p, "/"):
		return path.Clean(p)
	case p == "~":
		return path.Clean("/" + home)
	case strings.HasPrefix(p, "~/"):
		return path.Join("/", home, p[2:])
	}
	return path.Join("/", dir, p)
}

// inside reports whether p is dir or lies below it.
func inside(p, dir string) bool {
	if dir == "" {
		return false
	}
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// pathPattern is the pattern of a read or write entry.
type pathPattern struct {
	pattern  string
	glob     bool
	relative bool // based at each workspace root
}

func compilePath(matcher, pattern string) pathPattern {
	p := pathPattern{pattern: pattern, glob: matcher == matchGlob, relative: !isAbsolute(pattern)}
	if !p.glob {
		p.pattern = cleanPattern(pattern)
	} else {
		p.pattern = strings.TrimPrefix(pattern, "./")
	}
	return p
}

func cleanPattern(p string) string {
	if isAbsolute(p) && p != "~" && p[0] == '~' {
		return "~/" + path.Clean(p[2:])
	}
	return path.Clean(p)
}

// matchTarget reports whether the pattern matches t. On the strict (allow)
// side every path that t may mean has to match, both spellings; otherwise
// one is enough.
func (p pathPattern) matchTarget(t *target, sur *surroundings, strict bool) bool {
	if strict {
		return t.sure && len(t.paths) > 0 && !slices.ContainsFunc(t.paths, func(s spot) bool {
			return !p.matchPath(s.lex, false, sur) || !p.matchPath(s.real, false, sur)
		})
	}
	return slices.ContainsFunc(t.paths, func(s spot) bool {
		return p.matchPath(s.lex, t.effect.Dir, sur) || (s.real != s.lex && p.matchPath(s.real, t.effect.Dir, sur))
	})
}

// matchPath matches one absolute path. below also matches a pattern whose
// fixed part lies below the path: who removes a directory removes what is
// in it.
func (p pathPattern) matchPath(abs string, below bool, sur *surroundings) bool {
	if !p.relative {
		pattern := p.pattern
		if pattern[0] == '~' {
			pattern = escapeGlob(path.Clean("/"+sur.home), p.glob) + pattern[1:]
		}
		return p.matchOne(pattern, abs) || (below && inside(p.fixedPart(pattern), abs))
	}
	for _, root := range sur.roots {
		if below && inside(path.Join(root, p.fixedPart(p.pattern)), abs) && p.fixedPart(p.pattern) != "." {
			return true
		}
		if inside(abs, root) && p.matchOne(p.pattern, relativeTo(abs, root)) {
			return true
		}
	}
	return false
}

func (p pathPattern) matchOne(pattern, name string) bool {
	if !p.glob {
		return pattern == name
	}
	return doublestar.MatchUnvalidated(pattern, name)
}

// fixedPart is the directory that every match of pattern lies in.
func (p pathPattern) fixedPart(pattern string) string {
	if !p.glob {
		return pattern
	}
	dir, _ := doublestar.SplitPattern(pattern)
	return dir
}

func relativeTo(abs, root string) string {
	if abs == root {
		return "."
	}
	return strings.TrimPrefix(strings.TrimPrefix(abs, root), "/")
}

func escapeGlob(s string, glob bool) string {
	if !glob {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`*?[]{}\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// surroundings are the facts of a place that path patterns need.
type surroundings struct {
	roots []string // workspace roots as given and without symlinks
	home  string
}

func surroundingsOf(p Place) *surroundings {
	s := &surroundings{home: p.Home}
	add := func(root string) {
		if root != "" && !slices.Contains(s.roots, root) {
			s.roots = append(s.roots, root)
		}
	}
	for _, root := range append([]string{p.Cwd}, p.Roots...) {
		add(root)
		if p.RealPath != nil && root != "" {
			add(p.RealPath(root))
		}
	}
	return s
}

// holds reports whether p lies in a workspace root.
func (s *surroundings) holds(p string) bool {
	return slices.ContainsFunc(s.roots, func(root string) bool { return inside(p, root) })
}
