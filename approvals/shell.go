package approvals

import (
	"github.com/gth-server/gth-server/approvals/internal/effect"
	"github.com/gth-server/gth-server/approvals/internal/shellscan"
)

// shellScan is what the scanner read out of a text.
type shellScan = shellscan.Scan

func envOf(p Place) shellscan.Env {
	return shellscan.Env{Home: p.Home, User: p.User, Cwd: p.Cwd, RealPath: p.RealPath}
}

// singleWords returns the argv of a pattern that is one plain command, nil
// for every other text.
func singleWords(pattern string) []string {
	s := shellscan.Parse(pattern, shellscan.Env{})
	if s.Unreadable != "" || !s.Single {
		return nil
	}
	return s.Words
}

// canonicalWords returns words in the spelling of the option table, nil for
// a program that is not in it.
func canonicalWords(words []string) []string {
	for _, e := range shellscan.ParseArgv(words, shellscan.Env{}).Effects {
		if e.Kind == effect.Exec && len(e.Wrappers) == 0 {
			return e.Canonical
		}
	}
	return nil
}
