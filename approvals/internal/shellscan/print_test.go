package shellscan

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var testPrint = PrintOptions{
	Function: "_run", Redirect: "_to",
	Guard: func(program string) bool { return program == "named" },
}

func printOf(text string) (string, error) {
	return Parse(text, Env{Home: "/home/u"}).Print(testPrint)
}

func TestPrint(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"ls -la # comment\necho x", "ls -la\necho x"},
		{"\n# c\n\na; b\nc <<E; d\nE\n\nif e; then\nf; g; fi; h", "\n\na; b\nc <<E\nE\nd\nif e; then\n\tf\n\tg\nfi\nh"},
		{"a; b & c", "a; b &\nc"},
		// Programs that are not known, and known ones with words that are not.
		{"X=rm; $X -rf /", "X=rm; _run $X -rf /"},
		{`"${a[@]}"`, `_run "${a[@]}"`},
		{"FOO=1 $X >o 2>&1", `FOO=1 _run $X >"$(_to write o)" 2>&1`},
		{"rm -rf $X", "_run rm -rf $X"},
		{"rm -rf x/*", "_run rm -rf x/*"},
		{"rm -rf {a,b}", "_run rm -rf {a,b}"},
		{"rm -rf ~/x", "_run rm -rf ~/x"},
		{"rm -rf x {}", "rm -rf x {}"},
		{"named x", "named x"},
		{"named $x", "_run named $x"},
		{"dir/named $x", "_run dir/named $x"},
		{"echo $x", "echo $x"},
		{"unheardof $x", "_run unheardof $x"},
		{"env $X a", "_run env $X a"},
		{"command $X a", "_run command $X a"},
		{"exec $X", "_run exec $X"},
		{"$X &", "_run_x $X &"},
		{"kill -9 $$", "kill -9 $$"},
		{"kill $X", "_run kill $X"},
		{`$"rm" x`, `_run $"rm" x`},
		{"set -- $X", "set -- $X"},
		{"declare $X", "declare -- $X"},
		{"local -a \"$k=$v\"", "local -a -- \"$k=$v\""},
		{"export $X", "export $X"},
		// Everywhere.
		{"if $a; then $b; elif $c; then :; else $d; fi", "if _run $a; then _run $b; elif _run $c; then :; else _run $d; fi"},
		{"f() { $1; }", "f() { _run $1; }"},
		{`echo "$($x)" "${y:-$($x)}" <($x)`, `echo "$(_run $x)" "${y:-$(_run $x)}" <(_run $x)`},
		{"((a[$($x)]++))", "((a[$(_run $x)]++))"},
		{"case $x in a) $b ;; esac", "case $x in a) _run $b ;; esac"},
		{"cat <<E\n$($x)\nE", "cat <<E\n$(_run $x)\nE"},
		{"cat <<-E\n\t\ta\n\tE", "cat <<E\na\nE"},
		{"time $x | $y", "time _run $x | _run $y"},
		// Redirects.
		{"a >$F", `a >"$(_to write $F)"`},
		{`a >>"$F" <"$G" 2>/dev/null`, `a >>"$(_to write "$F")" <"$(_to read "$G")" 2>/dev/null`},
		{"a >&$F 3<&$G", `a >&"$(_to dup $F)" 3<&"$(_to dup $G)"`},
		{"a <<<$F", "a <<<$F"},
		{"a < <($b) >out", `a < <(_run $b) >"$(_to write out)"`},
		{"a >out", "a >out"},
		// Where the place is in doubt.
		{"cd a; rm x; rm /x; cat x", "cd a; _run rm x; rm /x; cat x"},
		{"cd a && echo x >f <g >/h 2>&1", `cd a && echo x >"$(_to write f)" <"$(_to read g)" >/h 2>&1`},
		{"ln -s / r; sudo rm -rf r/x", "_run ln -s / r; _run sudo rm -rf r/x"},
		{"f() { cd /; }; f; touch x", "f() { cd /; }; f; _run touch x"},
		{"docker exec c sh -c 'cd a; rm $X'", "docker exec c sh -c 'cd a; rm $X'"},
		{"dash -c 'cd a; rm x'", "dash -c 'cd a; rm x'"},
		{"a >~/x", `a >"$(_to write ~/x)"`},
		// Text that becomes code.
		{`eval "$X" y`, `eval "$(_run_q eval "$X" y)"`},
		{"eval '$X y'", "eval '_run $X y'"},
		{`eval "echo 'a b'"`, `eval 'echo '\''a b'\'`},
		{"trap '$X' EXIT", "trap '_run $X' EXIT"},
		{"trap - EXIT", "trap - EXIT"},
		{`trap "$X" EXIT`, `eval "$(_run_q trap "$X" EXIT)"`},
		{". ./x $Y", `eval "$(_run_q . ./x $Y)"`},
		{"source ./x", "source ./x"},
		{"source <(x)", "source <(x)"},
		{"bash -c 'a; b' x", "bash -c 'a; b' x"},
		{"timeout 5 bash -c '$X'", "timeout 5 bash -p -c \"$_run_p\"'{ _run $X\n}'"},
		{"sh -c 'echo $X'", "sh -c 'echo $X'"},
		{"sh -c '$X'", "bash -p -c \"$_run_p\"'{ _run $X\n}' sh"},
		{"find . -exec sh -c 'rm \"$1\"' _ {} +", "find . -exec bash -p -c \"$_run_p\"'{ _run rm \"$1\"\n}' _ {} +"},
		{"bash -c 'bash -c \"$1\"' _ $Y", "bash -p -c \"$_run_p\"'{ bash -p -c \"$_run_p\"'\\''{ '\\''\"$(_run_s \"$1\")\"'\\''\n}'\\''\n}' _ $Y"},
		{"sudo bash -c \"$X\"", "sudo bash -p -c \"$_run_p\"'{ '\"$(_run_s \"$X\")\"'\n}'"},
		{"bash -c $X", "_run bash -c $X"},
		{"foo bash -c \"$X\"", "_run foo bash -c \"$X\""},
	} {
		got, err := printOf(c.in)
		if err != nil || got != c.want {
			t.Errorf("%q:\n got %q %v\nwant %q", c.in, got, err, c.want)
		}
	}
}

func TestPrintRefuses(t *testing.T) {
	for _, c := range []struct{ in, why string }{
		{"builtin() { :; }", "builtin"},
		{"_run() { :; }", "_run"},
		{"_to_x() { :; }", "_to_x"},
		{"set -T", "-T"},
		{"set -eT", "-T"},
		{"set -o functrace", "functrace"},
		{"set -e -o posix", "posix"},
		{"set -eo posix", "posix"},
		{"set $X", "set --"},
		{"set -$X", "set"},
		{"builtin set -T", "-T"},
		{"shopt -s extdebug", "extdebug"},
		{"shopt -s expand_aliases", "expand_aliases"},
		{"shopt $X", "shopt"},
		{"enable -n builtin", "builtin"},
		{"enable -f x.so y", "enable"},
		{"command enable $X", "enable"},
		{"hash -p /bin/rm ls", "hash"},
		{"mapfile -C x a", "mapfile"},
		{"declare -t f", "declare"},
		{"typeset -ft f", "typeset"},
		{"command eval \"$X\"", "eval"},
		{"builtin trap 'x' EXIT", "trap"},
		{"PS4='$(x)'", "PS4"},
		{"BASH_XTRACEFD=1 x", "BASH_XTRACEFD"},
		{`echo "${x:-'$(y)'}"`, "quotes"},
		{"cat <<E\n${x:-'$(y)'}\nE", "quotes"},
		{"echo $((1+'$(y)'))", "quotes"},
		{"echo ${x@P}", "@P"},
		{"time -- x", "time"},
		{"eval 'a ('", "eval"},
		{"eval 'set -T'", "-T"},
		{"dash -c '$X'", "dash"},
		{"sh <<'E'\n$X\nE", "sh"},
		{"foo bash -c '$X'", "bash"},
		{"bash --posix -c '$X'", "--posix"},
		{"bash -O extdebug -c '$X'", "-O"},
		{"bash -c 'alias ls=rm'", "alias"},
		{"a >x<(b)", "process substitution"},
		{"eval <(x)", "process substitution"},
	} {
		got, err := printOf(c.in)
		if err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%q: got %q, %v; want an error with %q", c.in, got, err, c.why)
		}
	}
	deep := "true"
	for range maxDepth + 1 {
		deep = "eval '" + strings.ReplaceAll(deep, "'", `'\''`) + "'"
	}
	if _, err := printOf(deep); err == nil {
		t.Error("scripts within scripts beyond the limit printed")
	}
	if _, err := Parse("$X", Env{}).Print(PrintOptions{}); err == nil {
		t.Error("a script that needs a guard printed without one")
	}
	if out, err := Parse("ls x", Env{}).Print(PrintOptions{}); err != nil || out != "ls x" {
		t.Errorf("a static script without guards: %q %v", out, err)
	}
	if _, err := Parse("a (", Env{}).Print(testPrint); err == nil {
		t.Error("an unreadable text printed")
	}
	if _, err := ParseArgv([]string{"ls"}, Env{}).Print(testPrint); err == nil {
		t.Error("words printed as a script")
	}
}

func TestExtGlob(t *testing.T) {
	for in, want := range map[string]bool{"ls !(a|b)": true, "ls *": false, "case x in @(a)) ;; esac": true, "echo '!(a)'": false} {
		if got := Parse(in, Env{}).ExtGlob(); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
}

// corpusTexts returns the commands of the corpora below testdata that are
// present; nothing of them is ever executed.
func corpusTexts(t testing.TB) []string {
	t.Helper()
	var texts []string
	files, _ := filepath.Glob("testdata/*.jsonl")
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		s := bufio.NewScanner(f)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			var row struct{ Command string }
			if err := json.Unmarshal(s.Bytes(), &row); err == nil && row.Command != "" {
				texts = append(texts, row.Command)
			}
		}
		f.Close()
	}
	return texts
}

// TestPrintLeavesTheTree prints each text twice from one scan: the second
// print and the tree must be as at first.
func TestPrintLeavesTheTree(t *testing.T) {
	printed, refused := 0, 0
	for _, text := range append(corpusTexts(t), "X=rm; $X -rf / >$F; eval '$X'; declare $X; bash -c '$X'") {
		s := Parse(text, Env{})
		if s.file == nil {
			continue
		}
		before := cloneValue(reflect.ValueOf(s.file)).Interface()
		first, err := s.Print(testPrint)
		if !reflect.DeepEqual(cloneValue(reflect.ValueOf(s.file)).Interface(), before) {
			t.Errorf("%q: Print changed the tree", text)
		}
		if err != nil {
			refused++
			continue
		}
		printed++
		if again, err := s.Print(testPrint); err != nil || again != first {
			t.Errorf("%q: second print %q %v", text, again, err)
		}
	}
	t.Logf("%d texts printed, %d refused", printed, refused)
	if printed == 0 || refused > printed {
		t.Error("more refused than printed")
	}
}

func TestTreeDiff(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"a b", "a   b", true},
		{"echo `x`", "echo $(x)", true},
		{"a; b", "a\nb", true},
		{"a # c", "a", true},
		{"a b", "a 'b'", false},
		{"for x; do :; done", "for x in; do :; done", false},
		{"a && b", "a || b", false},
		{"a >b", "a >>b", false},
		{"a", "a; b", false},
		{"$a", "${a}", false},
	} {
		x, err := parseTree(c.a)
		if err != nil {
			t.Fatal(err)
		}
		y, err := parseTree(c.b)
		if err != nil {
			t.Fatal(err)
		}
		if d := treeDiff(x, y); (d == "") != c.same {
			t.Errorf("%q, %q: %q", c.a, c.b, d)
		}
	}
}

// FuzzPrint checks that printing a print again keeps its tree, and that
// nothing panics.
func FuzzPrint(f *testing.F) {
	for _, text := range corpusTexts(f) {
		f.Add(text)
	}
	for _, text := range []string{"X=rm; $X -rf /", "a >$F <<-E\n\tx $($y)\n\tE", "eval 'trap \"$X\" EXIT'", "bash -c 'f() { $1; }; f $X'", "echo $'a\\x00b' \"${x/a/'b'}\"", "[[ a =~ (b|$c) ]]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s := Parse(text, Env{Home: "/home/u"}); strings.HasPrefix(s.Unreadable, scannerFailed) {
			t.Fatalf("%q: %s", text, s.Unreadable)
		}
		out, err := printOf(text)
		if err != nil {
			return
		}
		plain := Parse(out, Env{Home: "/home/u"})
		if out != "" && plain.Unreadable != "" {
			if len(out) > maxText || strings.Contains(plain.Unreadable, "unclosed") {
				return // the guards made it too large to be read
			}
			t.Fatalf("%q: print %q is unreadable: %s", text, out, plain.Unreadable)
		}
		if plain.file == nil {
			return
		}
		again, err := printChecked(cloneFile(plain.file))
		if err != nil {
			t.Fatalf("%q: print %q: %v", text, out, err)
		}
		// The layout may settle only in the second print; the tree may not change.
		tree, err := parseTree(again)
		if err != nil {
			t.Fatalf("%q: print %q prints as %q: %v", text, out, again, err)
		}
		if d := treeDiff(plain.file, tree); d != "" {
			t.Fatalf("%q: print %q prints as %q: %s", text, out, again, d)
		}
	})
}
