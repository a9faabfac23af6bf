package shellscan

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

type corpusRow struct {
	ID, Command, Shell, Class string
	Expect                    struct {
		Resolves *bool
		Programs []string
		Wrappers []string
		Opaque   bool
		Writes   []string
		Hosts    []string
		Floor    *string
	}
}

var testEnv = Env{Home: "/home/dev", User: "dev", Cwd: "/home/dev/project"}

func readLines(t testing.TB, file string, each func([]byte)) {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		each(sc.Bytes())
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
}

func corpus(t testing.TB) []corpusRow {
	t.Helper()
	var rows []corpusRow
	readLines(t, "commands.jsonl", func(b []byte) {
		var r corpusRow
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	})
	return rows
}

// TestCorpusFloor allows no refusal where the corpus has none; a missed
// family counts against a ratchet.
func TestCorpusFloor(t *testing.T) {
	set, hit := 0, 0
	rows := corpus(t)
	for _, r := range rows {
		s := Parse(r.Command, testEnv)
		got := ""
		if s.Floor != nil {
			got = s.Floor.Family
		}
		switch want := r.Expect.Floor; {
		case want == nil && got != "":
			t.Errorf("%s %q is refused as %s", r.ID, r.Command, got)
		case want == nil || r.Shell != "bash":
		default:
			set++
			if got == *want {
				hit++
			} else {
				t.Logf("missed: %s %q is %q, want %s", r.ID, r.Command, got, *want)
			}
		}
	}
	t.Logf("%d rows, %d of %d set floors hit", len(rows), hit, set)
	if hit < floorRatchet {
		t.Errorf("%d floors hit, there were %d before", hit, floorRatchet)
	}
}

// TestCorpusAgreement compares what the scan says with the corpus, field
// by field.
func TestCorpusAgreement(t *testing.T) {
	agree := map[string]int{}
	n := 0
	for _, r := range corpus(t) {
		if r.Shell != "bash" {
			continue
		}
		n++
		s := Parse(r.Command, testEnv)
		field := func(name string, same bool, got, want any) {
			if same {
				agree[name]++
				return
			}
			if testing.Verbose() {
				t.Logf("%s %s: %q has %v, want %v (unreadable %q)", r.ID, name, r.Command, got, want, s.Unreadable)
			}
		}
		e := r.Expect
		field("programs", slices.Equal(s.Programs, e.Programs), s.Programs, e.Programs)
		field("wrappers", slices.Equal(s.Wrappers, e.Wrappers), s.Wrappers, e.Wrappers)
		field("writes", slices.Equal(s.Writes, e.Writes), s.Writes, e.Writes)
		field("hosts", slices.Equal(s.Hosts, e.Hosts), s.Hosts, e.Hosts)
		field("resolves", e.Resolves != nil && s.Static == *e.Resolves, s.Static, *e.Resolves)
		field("opaque", s.Opaque == e.Opaque, s.Opaque, e.Opaque)
	}
	for name, least := range agreementRatchet {
		percent := float64(agree[name]) * 100 / float64(n)
		t.Logf("%s: %d of %d rows agree, %.1f %%", name, agree[name], n, percent)
		if percent < least {
			t.Errorf("%s agrees on %.1f %% of the rows, it was %.1f %% before", name, percent, least)
		}
	}
}

type gatingCase struct {
	ID, Kind  string
	Input     struct{ Command string }
	Expect    map[string]json.RawMessage
	AST       map[string]json.RawMessage `json:"expect_ast"`
	Recommend map[string]json.RawMessage `json:"expect_recommended"`
}

// want returns the strongest expectation for a key.
func (c gatingCase) want(t testing.TB, key string, v any) bool {
	for _, m := range []map[string]json.RawMessage{c.Recommend, c.AST, c.Expect} {
		if raw, ok := m[key]; ok {
			if err := json.Unmarshal(raw, v); err != nil {
				t.Fatal(err)
			}
			return true
		}
	}
	return false
}

func gating(t testing.TB, kind string) []gatingCase {
	t.Helper()
	var out []gatingCase
	readLines(t, "gating-cases.jsonl", func(b []byte) {
		var k struct{ Kind string }
		if err := json.Unmarshal(b, &k); err != nil || k.Kind != kind {
			return
		}
		var c gatingCase
		if err := json.Unmarshal(b, &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	})
	return out
}

func TestGatingFloor(t *testing.T) {
	cases := gating(t, "hardline")
	for _, c := range cases {
		var refused bool
		c.want(t, "refused", &refused)
		if s := Parse(c.Input.Command, testEnv); (s.Floor != nil) != refused {
			t.Errorf("%s %q: floor %v, want refused %v", c.ID, c.Input.Command, s.Floor, refused)
		}
	}
	t.Logf("%d cases", len(cases))
}

func TestGatingSingle(t *testing.T) {
	cases := gating(t, "classify")
	for _, c := range cases {
		var resolves bool
		c.want(t, "resolves", &resolves)
		if s := Parse(c.Input.Command, testEnv); s.Single != resolves {
			t.Errorf("%s %q: single %v, want %v", c.ID, c.Input.Command, s.Single, resolves)
		}
	}
	t.Logf("%d cases", len(cases))
}

func TestGatingOpenWorld(t *testing.T) {
	cases := gating(t, "openworld")
	for _, c := range cases {
		var hosts []string
		var kind *string
		c.want(t, "floor_hosts", &hosts)
		c.want(t, "floor_kind", &kind)
		s := Parse(c.Input.Command, testEnv)
		if strings.Join(s.OpenWorld, " ") != strings.Join(hosts, " ") {
			t.Errorf("%s %q: hosts %q, want %q", c.ID, c.Input.Command, s.OpenWorld, hosts)
		}
		if leak := kind != nil && *kind == "script-env-leak"; leak != (len(s.EnvLeak) > 0) {
			t.Errorf("%s %q: leaks %q, want a leak: %v", c.ID, c.Input.Command, s.EnvLeak, leak)
		}
	}
	t.Logf("%d cases", len(cases))
}
