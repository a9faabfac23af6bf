package shellscan

import (
	"strings"
	"testing"
	"time"
)

// FuzzParse looks for panics, hangs and broken promises of the result.
func FuzzParse(f *testing.F) {
	for _, texts := range refusedTexts {
		for _, t := range texts {
			f.Add(t)
		}
	}
	for _, t := range plainTexts {
		f.Add(t)
	}
	for _, r := range corpus(f) {
		f.Add(r.Command)
	}
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		s := Parse(text, testEnv)
		if d := time.Since(start); d > 3*time.Second {
			t.Fatalf("%d bytes took %v", len(text), d)
		}
		if strings.HasPrefix(s.Unreadable, scannerFailed) {
			t.Fatalf("%q: %s", text, s.Unreadable)
		}
		if s.Unreadable != "" {
			if len(s.Effects) > 0 || s.Floor != nil || s.Static || s.Single {
				t.Fatalf("an unreadable text has findings: %+v", s)
			}
			return
		}
		if s.Single && s.Canonical == "" {
			t.Fatalf("%q is single without a canonical text", text)
		}
		for _, e := range s.Effects {
			if e.Pos < 0 || e.Pos > len(text) {
				t.Fatalf("%q: effect outside of the text: %+v", text, e)
			}
			if e.Kind == 0 {
				t.Fatalf("%q: effect without a kind: %+v", text, e)
			}
		}
		if s.Single {
			again := Parse(s.Canonical, testEnv)
			if !again.Single || again.Canonical != s.Canonical {
				t.Fatalf("%q has canonical text %q, which has %q (single %v)", text, s.Canonical, again.Canonical, again.Single)
			}
			if w := ParseArgv(s.Words, testEnv); len(s.Words) > 0 && (w.Floor == nil) != (s.Floor == nil) {
				t.Fatalf("%q: floor %v, of its words %v", text, s.Floor, w.Floor)
			}
		}
	})
}
