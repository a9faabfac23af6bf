package approvals

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

func TestCanonicalHost(t *testing.T) {
	for in, want := range map[string]string{
		"DOCS.Example.COM.": "docs.example.com",
		"dоcs.example.com":  "xn--dcs-sed.example.com",
		"BÜCHER.example":    "xn--bcher-kva.example",
		"0x7f.1":            "127.0.0.1",
		"017700000001":      "127.0.0.1",
		"2130706433":        "127.0.0.1",
		"127.1":             "127.0.0.1",
		"1.2.3.4.5":         "1.2.3.4.5",
		"256.1.1.1":         "256.1.1.1",
		"[::FFFF:1.2.3.4]":  "1.2.3.4",
		"[::1]":             "::1",
		"my_host":           "my_host",
		"":                  "",
		"a b":               "",
		"a/b":               "",
		"ü_host":            "",
	} {
		got, ok := canonicalHost(in)
		if got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %t, want %q", in, got, ok, want)
		}
	}
}

func TestConnectEntries(t *testing.T) {
	for _, tc := range []struct {
		matcher, pattern, host, port string
		deny, allow                  bool
	}{
		{"exact", "Example.com", "example.com", "", true, true},
		{"exact", "example.com", "example.com", "8443", true, false},
		{"exact", "example.com:8443", "example.com", "8443", true, true},
		{"exact", "example.com:8443", "example.com", "", false, false},
		{"exact", "example.com", "example.com.evil.example", "", false, false},
		{"glob", "*.example.com", "a.b.example.com", "", true, true},
		{"glob", "*.example.com", "example.com", "", false, false},
		{"exact", "[::1]:80", "::1", "80", true, true},
		{"exact", "::1", "::1", "", true, true},
		{"exact", "[::1]", "::1", "", true, true},
	} {
		h, err := parseHostPattern(tc.pattern, tc.matcher)
		if err != nil {
			t.Fatal(err)
		}
		if d, a := h.matches(tc.host, tc.port, false), h.matches(tc.host, tc.port, true); d != tc.deny || a != tc.allow {
			t.Errorf("%s on %s:%s: deny %t allow %t", tc.pattern, tc.host, tc.port, d, a)
		}
	}
	if host, port := splitPort("example.com:http"); host != "example.com:http" || port != "" {
		t.Errorf("a named port splits into %q and %q", host, port)
	}
}

func words(s ...string) (out []Word) {
	for _, w := range s {
		text, dynamic := strings.CutPrefix(w, "$")
		out = append(out, Word{Text: text, Static: !dynamic})
	}
	return out
}

func execOf(argv ...string) Effect { return Effect{Kind: effect.Exec, Argv: words(argv...)} }

func writeOf(p string) Effect {
	return Effect{Kind: effect.Write, Via: effect.ViaOperand, Path: p, Static: !strings.Contains(p, "*")}
}

func lexical(ts []target) (out []string) {
	for _, t := range ts {
		for _, s := range t.paths {
			out = append(out, s.lex)
		}
	}
	return out
}

func TestTargetsFollowDirectories(t *testing.T) {
	place := Place{Cwd: "/w", Home: "/home/dev"}
	for _, tc := range []struct {
		effects []Effect
		want    []string
		sure    bool
	}{
		{[]Effect{writeOf("a/../b")}, []string{"/w/b"}, true},
		{[]Effect{writeOf("~/x")}, []string{"/home/dev/x"}, true},
		{[]Effect{writeOf("~")}, []string{"/home/dev"}, true},
		{[]Effect{writeOf("/x/./y")}, []string{"/x/y"}, true},
		{[]Effect{execOf("cd", "sub"), writeOf("f")}, []string{"/w/f", "/w/sub/f"}, true},
		{[]Effect{execOf("cd"), writeOf("f")}, []string{"/w/f", "/home/dev/f"}, true},
		{[]Effect{execOf("cd", "-P", "/t"), writeOf("f")}, []string{"/w/f", "/t/f"}, true},
		{[]Effect{execOf("cd", "-"), writeOf("f")}, []string{"/w/f"}, false},
		{[]Effect{execOf("cd", "$x"), writeOf("f"), writeOf("/g")}, []string{"/w/f", "/g"}, false},
		{[]Effect{execOf("popd"), writeOf("f")}, []string{"/w/f", "/home/dev/f"}, false},
		{[]Effect{execOf("ls"), writeOf("a*")}, []string{"/w/a*"}, false},
		{[]Effect{{Kind: effect.Exec}, {Kind: effect.Read, Via: effect.ViaTool, Path: "~/k", Static: true}}, []string{"/home/dev/k", "/w/~/k"}, true},
		{[]Effect{{Kind: effect.Read, Via: effect.ViaTool, Path: "file:///etc/passwd", Static: true}}, []string{"/w/file:/etc/passwd", "/etc/passwd"}, true},
	} {
		ts := targetsOf(tc.effects, place)
		if diff := cmp.Diff(tc.want, lexical(ts)); diff != "" {
			t.Errorf("%+v: %s", tc.effects, diff)
		}
		if ts[0].sure != tc.sure {
			t.Errorf("%+v: sure is %t", tc.effects, ts[0].sure)
		}
	}
	var many []Effect
	for range 40 {
		many = append(many, execOf("cd", "d"))
	}
	if ts := targetsOf(append(many, writeOf("f")), place); len(ts[0].paths) != maxBases {
		t.Errorf("%d directories, want the bound %d", len(ts[0].paths), maxBases)
	}
}

func TestPathEntries(t *testing.T) {
	place := Place{Cwd: "/w", Home: "/home/dev", Roots: []string{"/w", "/r[1]"}, RealPath: func(p string) string {
		if rest, ok := strings.CutPrefix(p, "/w/link"); ok {
			return "/secret" + rest
		}
		return p
	}}
	dir := func(p string) Effect { e := writeOf(p); e.Dir = true; return e }
	for _, tc := range []struct {
		matcher, pattern string
		effect           Effect
		deny, allow      bool
	}{
		{"exact", "a.txt", writeOf("a.txt"), true, true},
		{"exact", "./a.txt", writeOf("/w/a.txt"), true, true},
		{"exact", "a.txt", writeOf("/r[1]/a.txt"), true, true},
		{"exact", "a.txt", writeOf("/x/a.txt"), false, false},
		{"exact", ".", writeOf("/w"), true, true},
		{"exact", "~/.netrc", writeOf("/home/dev/.netrc"), true, true},
		{"exact", "~", writeOf("/home/dev"), true, true},
		{"glob", "~/**", writeOf("/home/dev/a/b"), true, true},
		{"glob", "**/.env", writeOf(".env"), true, true},
		{"glob", "**/.env", writeOf("a/b/.env"), true, true},
		{"glob", "/**/.env", writeOf("/x/.env"), true, true},
		{"glob", "src/*", writeOf("src/a/b"), false, false},
		{"glob", "./src/**", writeOf("src/a/b"), true, true},
		{"glob", "**", writeOf("a*"), true, false},
		{"glob", "/secret/**", writeOf("link/x"), true, false},
		{"glob", "**", writeOf("link/x"), true, false},
		{"exact", "src/keep/f", dir("src"), true, false},
		{"glob", "/w/src/keep/**", dir("/w/src"), true, false},
		{"glob", "**/.env", dir("build"), false, false},
	} {
		p := compilePath(tc.matcher, tc.pattern)
		sur := surroundingsOf(place)
		target := targetsOf([]Effect{tc.effect}, place)[0]
		if d, a := p.matchTarget(&target, sur, false), p.matchTarget(&target, sur, true); d != tc.deny || a != tc.allow {
			t.Errorf("%s on %s: deny %t allow %t", tc.pattern, tc.effect.Path, d, a)
		}
	}
	if !inside("/a", "/") || inside("/a", "") || inside("/ab", "/a") {
		t.Error("inside compares strings and not components")
	}
	home := compilePath(matchGlob, "~/*")
	if !home.matchPath("/h[x]/a", false, &surroundings{home: "/h[x]"}) {
		t.Error("a home directory with special characters is read as a glob")
	}
}

func TestControlFiles(t *testing.T) {
	place := Place{Cwd: "/w", Home: "/home/dev"}
	dir := func(p string) Effect { e := writeOf(p); e.Dir = true; return e }
	for _, tc := range []struct {
		e    Effect
		want bool
	}{
		{writeOf(".git/hooks/pre-commit"), true},
		{writeOf("sub/.git/config"), true},
		{writeOf(".GIT/config"), true},
		{writeOf(".git./hooks/x"), true},
		{writeOf("AGENTS.md"), true},
		{writeOf("docs/agents.md"), true},
		{writeOf("~/.bashrc"), true},
		{writeOf(".github/workflows/ci.yml"), true},
		{writeOf("/etc/profile.d/x.sh"), true},
		{writeOf("etc/profile.d/x.sh"), false},
		{writeOf(".git/*"), true},
		{writeOf("*"), false},
		{writeOf("*/x"), false},
		{dir(".git"), true},
		{dir(".github"), true},
		{dir("build"), false},
		{dir("/"), false},
		{writeOf(".github/FUNDING.yml"), false},
		{writeOf(".gitignore"), false},
		{writeOf("src/main.go"), false},
		{Effect{Kind: effect.Read, Path: ".git/config", Static: true}, false},
		{Effect{Kind: effect.Write, Via: effect.ViaPossible, Path: ".vscode/tasks.json", Static: true}, true},
	} {
		if got := controlFile(targetsOf([]Effect{tc.e}, place)) != ""; got != tc.want {
			t.Errorf("%+v: %t", tc.e, got)
		}
	}
	place.RealPath = func(p string) string { return strings.Replace(p, "/w/notes", "/home/dev/.bashrc", 1) }
	if controlFile(targetsOf([]Effect{writeOf("notes")}, place)) != "notes" {
		t.Error("a link to a control file is no control file")
	}
}

func TestSelfFloor(t *testing.T) {
	self := SelfPaths{
		Binary: "/opt/gth/gth", Protected: []string{"/home/dev/.config/gth-server", "/home/dev/.local/share/gth-server"},
		Secret: []string{"/home/dev/.local/share/gth-server/token"}, Addresses: []string{"127.0.0.1:7777", "/run/gth.sock", "[::]:443"},
	}
	conn := func(host, port string) Effect { return Effect{Kind: effect.Connect, Host: host, Port: port} }
	read := func(p string, dir bool) Effect { return Effect{Kind: effect.Read, Path: p, Static: true, Dir: dir} }
	possible := func(p string) Effect {
		return Effect{Kind: effect.Write, Via: effect.ViaPossible, Path: p, Static: true}
	}
	for _, tc := range []struct {
		e    Effect
		want bool
	}{
		{execOf("gth-server", "serve"), true},
		{execOf("/usr/bin/gth-server", "--config", "x", "acp"), true},
		{execOf("/opt/gth/gth", "run", "hi"), true},
		{execOf("gth", "exec", "--", "ls"), true},
		{execOf("gth-server", "asks", "answer", "1"), true},
		{execOf("gth-server", "asks", "$x"), true},
		{execOf("gth-server", "asks", "list"), false},
		{execOf("gth-server", "$x"), true},
		{execOf("gth-server", "check", "--", "serve"), false},
		{execOf("gth-server", "--version"), false},
		{execOf("gth-server"), false},
		{execOf("$x", "serve"), false},
		{execOf("npm", "run", "serve"), false},
		{Effect{Kind: effect.Exec}, false},
		{conn("127.0.0.1", "7777"), true},
		{conn("localhost", "7777"), true},
		{conn("::1", "7777"), true},
		{conn("app.localhost", ""), true},
		{conn("example.com", "7777"), false},
		{conn("127.0.0.1", "80"), false},
		{writeOf("~/.config/gth-server/config.jsonc"), true},
		{possible("~/.config/gth-server/config.jsonc"), false},
		{read("~/.config/gth-server/config.jsonc", false), false},
		{read("~/.local/share/gth-server/token", false), true},
		{read("~/.local", true), true},
		{read("~/.local", false), false},
		{read("/run/gth.sock", false), true},
		{writeOf("a.txt"), false},
	} {
		ts := targetsOf([]Effect{tc.e}, testPlace)
		f := selfFloor([]Effect{tc.e}, ts, self)
		if (f != nil) != tc.want {
			t.Errorf("%+v: %+v", tc.e, f)
		}
		if f != nil && f.Family != "self" {
			t.Errorf("family %q", f.Family)
		}
	}
	if p := possibleSelfWrite(targetsOf([]Effect{read("x", false), possible("~/.config/gth-server/x")}, testPlace), self); p == "" {
		t.Error("a possible write of the configuration is not noticed")
	}
	if p := possibleSelfWrite(targetsOf([]Effect{possible("x")}, testPlace), self); p != "" {
		t.Error("a write elsewhere is taken for one of the configuration")
	}
}

func TestCanonicalArguments(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 80) + "1" + strings.Repeat("}", 80)
	for in, want := range map[string]string{
		`{ "b" : 1.50, "a" : [ true, null, "x<y" ] }`: `{"a":[true,null,"x<y"],"b":1.50}`,
		`{}`:                                  `{}`,
		` {"a":{"d":1,"c":2},"e":[] } `:       `{"a":{"c":2,"d":1},"e":[]}`,
		`{"n":123456789012345678901234}`:      `{"n":123456789012345678901234}`,
		`{"a":1,"a":2}`:                       "",
		`{"a":{"b":1,"b":2}}`:                 "",
		`{"a":1} {}`:                          "",
		`{"a":1}x`:                            "",
		`[]`:                                  "",
		``:                                    "",
		`{`:                                   "",
		`{"a"`:                                "",
		`{"a":`:                               "",
		`{"a":[1`:                             "",
		`{"a":[1,`:                            "",
		`{"a":1`:                              "",
		`{"a":"\ud83d\ude00 \\ud800 \u0041"}`: `{"a":"😀 \\ud800 A"}`,
		`{"a":"\ud800.txt"}`:                  "",
		`{"a":"\ude00\ud83d"}`:                "",
		`{"a":"\ud83d\uzzzz"}`:                "",
		`{"a":"\ud83d`:                        "",
		`{1:2}`:                               "",
		"{\"a\":\"\xff\"}":                    "",
		deep:                                  "",
	} {
		got, err := CanonicalArguments(json.RawMessage(in))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %s, %v", in, got, err)
		}
	}
}

func FuzzCanonicalArguments(f *testing.F) {
	f.Add([]byte(`{"b":1,"a":[true,null,"x"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := CanonicalArguments(b)
		if err != nil {
			return
		}
		twice, err := CanonicalArguments(once)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%s is not its own canonical form: %s, %v", once, twice, err)
		}
	})
}
