package shellscan

import (
	"slices"
	"strings"
	"testing"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

func names(ms []effect.Mechanism) []string {
	var out []string
	for _, m := range ms {
		out = append(out, m.Name)
	}
	return out
}

func TestMechanisms(t *testing.T) {
	for text, want := range map[string]string{
		"ls -la": "", "echo $X": "", "echo \"${x:-y}\"": "", "for i in 1 2; do echo $((i+1)); done": "", "i=0; while ((i<3)); do i=$((i+1)); done": "",
		"[[ $# -eq 0 ]] && echo": "", "[[ ${#a[@]} -gt 0 ]] && echo": "", "printf -v x %s y": "", "[ \"$a\" -eq 1 ]": "", "read -r l": "", "time make | tee log": "",
		"export A=1": "", "echo \"${f%.txt}\"": "", "test -v HOME": "",
		"$X -rf y": "dynamic-program", "eval \"$X\"": "dynamic-eval", "bash -c \"$X\"": "dynamic-eval", "sh <<< $X": "dynamic-eval", "sudo --frob ls": "unknown-option",
		"timeout --what 5 ls": "unknown-option", "echo $((x))": "second-evaluation", "((x))": "second-evaluation", "let y=x": "second-evaluation", "[[ $x -eq 0 ]]": "second-evaluation",
		"test -v \"$x\"": "second-evaluation", "test -v 'a[$(id)]'": "second-evaluation", "printf -v \"$n\" x": "second-evaluation", "read \"$n\"": "second-evaluation", "declare \"$n\"=1": "second-evaluation",
		"echo ${x@P}": "second-evaluation", "mapfile -C \"$f\" a": "second-evaluation", "PS4=$x; set -x; ls": "second-evaluation", "echo ${!x}": "indirect-parameter", "unset \"$n\"": "second-evaluation",
		"source \"$x\"": "dynamic-source", "ssh host 'rm x'": "remote-command", "xargs sh -c 'rm \"$@\"' _": "xargs-shell", "zsh -c ls": "other-shell", "shopt -s expand_aliases; alias ls='rm x'; ls": "alias",
		"echo a\u00a0b": "control-char", "echo \u202e": "control-char", "git \"$sub\"": "dynamic-subcommand", "bash -c 'if'": "nested-syntax",
		"sh -c \"sh -c \\\"sh -c 'sh -c \\\\\\\"sh -c ls\\\\\\\"'\\\"\"": "nested-too-deep",
	} {
		s := Parse(text, testEnv)
		got := names(s.Unresolved)
		if s.Unreadable != "" || (want == "") != (len(got) == 0) || want != "" && !slices.Contains(got, want) {
			t.Errorf("%q: unresolved %v, want %q (unreadable %q)", text, got, want, s.Unreadable)
		}
	}
}

func TestHiding(t *testing.T) {
	for text, want := range map[string]string{
		"ls -la": "", "\r\nls\r\n": "", "echo 'a' \\\n b": "", "echo a && \\\n echo b": "", "time ls | wc": "", "echo hi #\\\nls": "", "echo \"${x:-$(echo 'a')}\"": "",
		"ls\rid": "carriage-return", "ls\r\nid": "carriage-return", "echo \"$\\\n(id)\"": "operator-continuation", "echo \"${x:-'$(id)'}\"": "quote-in-expansion", "cat <<E\n${x:-'$(id)'}\nE": "quote-in-expansion",
		"echo $((1+'$(id)'))": "quote-in-arithmetic", "time -- id": "time-dash", "a | time b": "time-in-pipeline", "coproc id": "coproc",
		strings.Repeat("nice ", 200) + "ls": "too-many-wrappers",
	} {
		s := Parse(text, testEnv)
		got := names(s.Hiding)
		if s.Unreadable != "" || (want == "") != (len(got) == 0) || want != "" && !slices.Contains(got, want) {
			t.Errorf("%q: hiding %v, want %q (unreadable %q)", text, got, want, s.Unreadable)
		}
		if len(got) > 0 && s.Single {
			t.Errorf("%q hides something and is single", text)
		}
	}
}

func TestUnreadable(t *testing.T) {
	for _, text := range []string{"", "echo (", "ls\x00", "a &&& b", "if true", strings.Repeat("(", 200), strings.Repeat("x", maxText+1), "echo $\\\n(id)"} {
		s := Parse(text, testEnv)
		if (s.Unreadable == "") != (text == "") || len(s.Effects) > 0 || s.Single || s.Floor != nil {
			t.Errorf("%.20q: %+v", text, s)
		}
	}
}

// effects renders what a scan found, one word per effect.
func effects(s *Scan) string {
	var out []string
	for _, e := range s.Effects {
		switch e.Kind {
		case effect.Exec:
			words := make([]string, len(e.Argv))
			for i, a := range e.Argv {
				words[i] = a.Text
				if !a.Static {
					words[i] = "<" + a.Text + ">"
				}
			}
			w := "x:" + strings.Join(append(slices.Clone(e.Wrappers), strings.Join(words, "_")), ">")
			if e.Elevated {
				w += "!"
			}
			if e.Code != effect.CodeNone {
				w += map[effect.Code]string{effect.CodeDeclared: "+", effect.CodeHidden: "#"}[e.Code]
			}
			out = append(out, w)
		case effect.Connect:
			out = append(out, "c:"+strings.TrimSuffix(e.Host+":"+e.Port, ":"))
		default:
			w := e.Kind.String()[:1] + ":" + e.Path
			if !e.Static {
				w += "?"
			}
			out = append(out, w)
		}
	}
	return strings.Join(out, " ")
}

func TestEffects(t *testing.T) {
	for text, want := range map[string]string{
		"rm -rf a":                           "x:rm_-rf_a w:a",
		"cat ~/.netrc > out":                 "x:cat_/home/dev/.netrc w:out r:/home/dev/.netrc",
		"cd sub && touch a":                  "x:cd_sub x:touch_a w:sub/a",
		"cd sub; touch a":                    "x:cd_sub x:touch_a w:a w:sub/a",
		"cd \"$d\" && touch a":               "x:cd_<\"$d\"> x:touch_a w:*/a?",
		"(cd sub); touch a":                  "x:cd_sub x:touch_a w:a",
		"for d in a b; do cd $d; rm x; done": "x:cd_<$d> x:rm_x w:*/x?",
		"f() { cd /; }; f; rm x":             "x:cd_/ x:f x:rm_x w:*/x?",
		"sudo -u root env A=1 make test":     "x:sudo>env>make_test!+",
		"python3 -c 'x'":                     "x:python3_-c_x#",
		"python3 s.py out":                   "x:python3_s.py_out+ r:s.py r:out w:out",
		"git -c core.pager=x log":            "x:git_-c_core.pager=x_log#",
		"git -c color.ui=false status":       "x:git_-c_color.ui=false_status",
		"GIT_SSH_COMMAND=x git fetch":        "x:git_fetch#",
		"export PATH=/x; ls":                 "x:export_PATH=/x x:ls#",
		"curl -o f https://A.Example:8443/x": "x:curl_-o_f_https://A.Example:8443/x w:f c:a.example:8443",
		"curl https://b\u00fccher.example/":  "x:curl_https://b\u00fccher.example/ c:xn--bcher-kva.example",
		"echo x > /dev/tcp/h/80":             "x:echo_x c:h:80",
		"frob a --out=b":                     "x:frob_a_--out=b r:a w:a r:b w:b",
		"xargs rm":                           "x:xargs>rm_<*> w:*?",
		"find src -exec chmod 644 {} +":      "x:find_src_-exec_chmod_644_{}_+ r:src x:chmod_644_<src> w:src?",
		"cp -t d a b":                        "x:cp_-t_d_a_b r:a r:b w:d",
		"mv a b":                             "x:mv_a_b w:a r:a w:b",
		"git config user.name x":             "x:git_config_user.name_x w:.git/config",
		"ls > \"$X\"":                        "x:ls w:*?",
		"HOME=/; rm -rf ~":                   "x:rm_-rf_<~> w:*?",
		"echo \"$(cat <<'E'\na b\nE\n)\"":    "x:echo_a b",
	} {
		if got := effects(Parse(text, testEnv)); got != want {
			t.Errorf("%q\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestCanonicalSpelling(t *testing.T) {
	for _, same := range [][]string{
		{"rm -rf a", "rm -fr a", "rm -r -f a", "rm --recursive --force a", "rm a -rf", "rm --rec --fo a", "/bin/rm -Rf a"},
		{"git push --force origin main", "git push -f origin main", "git push origin +main"},
		{"git reset --hard HEAD", "git reset --har HEAD", "git reset HEAD --hard", "/usr/lib/git-core/git-reset --hard HEAD"},
		{"git branch -D x", "git branch --delete --force x", "git branch -d -f x"},
		{"git push --delete origin x", "git push -d origin x", "git push origin :x"},
	} {
		var first string
		for i, text := range same {
			got := strings.Join(Parse(text, testEnv).Effects[0].Canonical, " ")
			if i == 0 {
				first = got
			}
			if got == "" || got != first {
				t.Errorf("%q is %q, %q is %q", text, got, same[0], first)
			}
		}
	}
}

func TestCanonicalTextKeepsApart(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{`rm a\ b`, `rm a b`, `echo \$HOME`, `echo $HOME`, `tool "" x`, `tool x`, `FOO=1 ls`, `'FOO=1' ls`, `ls`, `LS`, `echo '*'`, `echo "a  b"`, `echo a b`} {
		s := Parse(text, testEnv)
		if !s.Single {
			t.Errorf("%q is not single", text)
		}
		if other, ok := seen[s.Canonical]; ok {
			t.Errorf("%q and %q share the canonical text %q", text, other, s.Canonical)
		}
		seen[s.Canonical] = text
	}
}

func TestStaticWords(t *testing.T) {
	for word, want := range map[string]string{
		`a`: "a", `'a b'`: "a b", `"a\$b"`: "a$b", `a\ b`: "a b", `$'\x2f\t\u00e9\101\e'`: "/\t\u00e9A\x1b", `~`: "/home/dev", `~/x`: "/home/dev/x", `~dev/x`: "/home/dev/x", `"~"`: "~", `a~`: "a~",
		`$HOME/x`: "/home/dev/x", `"${HOME}"`: "/home/dev", `x=~/y`: "x=/home/dev/y", `[`: "[", `a'b'"c"`: "abc", `"a\b"`: `a\b`, `-f"$HOME"`: "-f/home/dev",
		"\"$(cat <<'E'\nx y\nE\n)\"": "x y",
	} {
		s := Parse("echo "+word, testEnv)
		if s.Unreadable != "" || len(s.Effects) == 0 {
			t.Fatalf("%q: %q", word, s.Unreadable)
		}
		if got := s.Effects[0].Argv[1]; got.Text != want || !got.Static {
			t.Errorf("%s is %+v, want %q", word, got, want)
		}
	}
	for _, word := range []string{`$X`, `"$X"`, `*.go`, `a?`, `[ab]`, `$(id)`, "`id`", `$((1))`, `<(id)`, `~+`, `~other`, `$'\0x'`, `{1..999}`, `!(a)`, `${HOME:-x}`, `${HOME%x}`} {
		s := Parse("shopt -s extglob\necho "+word, testEnv)
		for _, e := range s.Effects {
			if e.Kind == effect.Exec && e.Argv[0].Text == "echo" && e.Argv[1].Static {
				t.Errorf("%s counts as static: %+v", word, e.Argv[1])
			}
		}
	}
	if s := Parse("echo {a,b}{1..3}", testEnv); len(s.Effects[0].Argv) != 7 {
		t.Errorf("braces: %+v", s.Effects[0].Argv)
	}
}

// TestTimeWithoutACommand: words that time drops may leave nothing but
// redirects, which count.
func TestTimeWithoutACommand(t *testing.T) {
	for _, text := range []string{"time --", "time -- | m -rf build", "time -p -- | x", "time -- > out", "time -p -p"} {
		s := Parse(text, Env{Home: "/home/u"})
		if strings.HasPrefix(s.Unreadable, scannerFailed) {
			t.Errorf("%q: %s", text, s.Unreadable)
		}
		if strings.Contains(text, ">") && len(s.Writes) != 1 {
			t.Errorf("%q writes %q", text, s.Writes)
		}
	}
}

// TestFailClosed: a fault becomes a text that nobody can read.
func TestFailClosed(t *testing.T) {
	scan := func() (s *Scan) {
		defer failClosed(&s)
		panic("fault")
	}
	if s := scan(); s == nil || s.Unreadable == "" || s.file != nil {
		t.Errorf("a fault gave %+v", s)
	}
}
