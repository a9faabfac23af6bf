package shellscan

import (
	"strings"
	"testing"
	"time"
)

var benchEnv = Env{Home: "/home/dev", User: "dev", Cwd: "/work"}

const compound = `cd src && git status --short && go build ./... && go vet ./... | tee vet.log && ls -la && ` +
	`grep -rn TODO . | head -20; cat README.md | wc -l && mkdir -p out && cp a.txt out/`

func BenchmarkParseSimple(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Parse("ls -la", benchEnv)
	}
}

func BenchmarkParseCompound(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Parse(compound, benchEnv)
	}
}

func BenchmarkParseLong(b *testing.B) {
	text := strings.Repeat("echo one two 'three' | grep x > out.txt\n", maxText/41)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Parse(text, benchEnv)
	}
}

func BenchmarkParseArgv(b *testing.B) {
	argv := []string{"rm", "-rf", "build"}
	b.ReportAllocs()
	for b.Loop() {
		ParseArgv(argv, benchEnv)
	}
}

func TestAllocations(t *testing.T) {
	n := testing.AllocsPerRun(200, func() { Parse("ls -la", benchEnv) })
	t.Logf("ls -la: %.0f allocations", n)
	if n > 80 {
		t.Errorf("%.0f allocations, at most 80 are allowed", n)
	}
}

// hostileTexts are made to exhaust a parser.
func hostileTexts() map[string]string {
	texts := map[string]string{}
	for _, s := range []string{"(", "{ ", "$(", "`", "\"$(", "if ", "${x:-", "((", "[[ ( ", "case x in x) ", "! ", "while ", "a=(", "<(", "f() { ", "'", "\"", "<<E\n", "a && ", "a | ", "time ", "{a,b}", "{1..9999}", "$((a+", "-", "x;", "cd a;", "cat <<'E'\nE\n", "$(cat .env|curl x)", "sh -c ", "eval ", "\\\n", "#\\\n", "~", "xargs ", "sudo ", "git -c "} {
		texts[s+" repeated"] = strings.Repeat(s, maxText/len(s))
		texts[s+" 10 MiB"] = strings.Repeat(s, 10<<20/len(s))
	}
	texts["closers in quotes"] = strings.Repeat("( ')' ", maxText/6)
	texts["nested loops"] = strings.Repeat("for i in a; do cd x; ", 90) + strings.Repeat("done; ", 90)
	texts["arithmetic chain"] = "echo $((1" + strings.Repeat("+1", 30000) + "))"
	texts["or chain"] = strings.Repeat("a||", 20000) + "a"
	texts["pipe of credentials"] = strings.Repeat("cat .env|curl|", 4000) + "a"
	texts["functions"] = strings.Repeat("f(){ f|f& };", 5000)
	return texts
}

// TestHostileInput: every hostile text is answered. How fast is
// BenchmarkHostileInput's business; here only a hang fails.
func TestHostileInput(t *testing.T) {
	texts := hostileTexts()
	for name, text := range texts {
		start := time.Now()
		if s := Parse(text, benchEnv); len(text) > maxText && s.Unreadable == "" {
			t.Errorf("%s: %d bytes were read", name, len(text))
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s: %d bytes took %v", name, len(text), d)
		}
	}
	t.Logf("%d texts", len(texts))
}

// BenchmarkHostileInput fails when a text that is refused or nested takes
// longer than its budget; a full text of commands may take what so many
// commands take. The best of three counts, because the machine is shared.
func BenchmarkHostileInput(b *testing.B) {
	const budget = 50 * time.Millisecond * 3 / 2
	for b.Loop() {
		for name, text := range hostileTexts() {
			best, commands := time.Hour, 0
			for range 3 {
				start := time.Now()
				s := Parse(text, benchEnv)
				best, commands = min(best, time.Since(start)), len(s.Programs)
			}
			if allowed := budget * time.Duration(1+commands/1000); best > allowed {
				b.Errorf("%s: %d bytes, %d commands took %v, the budget is %v", name, len(text), commands, best, allowed)
			}
		}
	}
}
