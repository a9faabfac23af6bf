package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session/config"
)

// workdir returns dir, or the current directory, as an absolute, cleaned
// path of an existing directory.
func workdir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", usage(fmt.Errorf("working directory %q: %w", dir, err))
	}
	info, err := os.Stat(abs)
	if err != nil {
		return "", usage(fmt.Errorf("working directory %q cannot be used: %w: name an existing directory with --cwd", dir, err))
	}
	if !info.IsDir() {
		return "", usage(fmt.Errorf("working directory %q is no directory: name one with --cwd", dir))
	}
	return abs, nil
}

// placeOf gathers what the gate needs to know of this machine.
func placeOf(cwd string, roots []string, cfg *config.Effective) approvals.Place {
	p := approvals.Place{Cwd: cwd, Roots: append([]string{cwd}, roots...), RealPath: realPath}
	p.Home, _ = os.UserHomeDir()
	if u, err := user.Current(); err == nil {
		p.User = u.Username
	}
	if bin, err := os.Executable(); err == nil {
		p.Self.Binary = bin
	}
	for _, path := range []string{cfg.File, cfg.UserDir, cfg.DataDir} {
		if path != "" {
			p.Self.Protected = append(p.Self.Protected, path)
		}
	}
	return p
}

// realPath resolves the symlinks of path; of one that does not exist, those
// of its nearest existing ancestor. A dangling link counts as its target,
// because writing through it creates that. It gives up, and returns path,
// where the system says neither that it is there nor that it is not.
func realPath(path string) string {
	const maxLinks = 40
	cur, rest := filepath.Clean(path), ""
	for links := 0; links < maxLinks; {
		real, err := filepath.EvalSymlinks(cur)
		if err == nil {
			return filepath.Join(real, rest)
		}
		parent := filepath.Dir(cur)
		if !errors.Is(err, fs.ErrNotExist) || cur == parent {
			return path
		}
		if target, err := os.Readlink(cur); err == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(parent, target)
			}
			cur, links = target, links+1
			continue
		}
		cur, rest = parent, filepath.Join(filepath.Base(cur), rest)
	}
	return path
}
