package shellscan

import (
	"path"
	"strings"
)

// foreignCode reports whether a build tool is told to take code from
// somewhere else than the project: settings, plugins and scripts outside
// of the working directory, a script on its input, another shell.
func (w *walker) foreignCode(name string, args []value) bool {
	for i, a := range args {
		text := a.text
		if name == "make" || name == "gmake" {
			if strings.HasPrefix(text, "SHELL=") || strings.HasPrefix(text, ".SHELLFLAGS=") || strings.HasPrefix(text, "MAKEFLAGS=") {
				return true
			}
			if text == "-f-" || text == "-f" && i+1 < len(args) && args[i+1].text == "-" {
				return true
			}
		}
		if len(text) < 2 || text[0] != '-' {
			continue
		}
		opt, val, glued := strings.Cut(text, "=")
		if !glued && i+1 < len(args) {
			val = args[i+1].text
		}
		if namesCode(name, strings.TrimLeft(opt, "-")) && w.outside(val) {
			return true
		}
	}
	return false
}

// namesCode reports whether an option of a build tool names code or
// settings that choose code.
func namesCode(name, opt string) bool {
	switch opt {
	case "c", "p":
		return strings.HasPrefix(name, "py") || name == "tox" || name == "nox"
	case "f", "C", "I", "b", "P", "r", "require":
		return true
	}
	opt = strings.ToLower(opt)
	for _, part := range []string{"config", "setup", "rootdir", "plugin", "import", "loader", "script", "file", "settings", "prefix", "cwd", "dir", "reporter", "preset", "transform", "runner", "environment"} {
		if strings.Contains(opt, part) {
			return true
		}
	}
	return false
}

// outside reports whether a path lies outside of the working directory. A
// word that is no absolute path and does not climb is inside.
func (w *walker) outside(p string) bool {
	if strings.HasPrefix(p, "~") || p == ".." || strings.HasPrefix(p, "../") {
		return true
	}
	if !strings.HasPrefix(p, "/") {
		return false
	}
	cwd := w.r.env.Cwd
	p = path.Clean(p)
	return cwd == "" || p != cwd && !strings.HasPrefix(p, strings.TrimSuffix(cwd, "/")+"/")
}
