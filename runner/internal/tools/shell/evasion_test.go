//go:build linux || darwin

package shell

import (
	"context"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gth-server/gth-server/approvals"
)

// marker is the program that stands in for a dangerous one: it writes its
// words to a file and does nothing else.
const marker = "#!/bin/bash\nprintf '%s|' \"${0##*/}\" \"$@\" >> \"$MARKS\"; printf '\\n' >> \"$MARKS\"\n"

// policy refuses the dangerous programs wherever they stand in a command,
// and redirects below a directory named forbidden. It notes what it saw.
type policy struct {
	names approvals.GuardNames

	mu   sync.Mutex
	seen []string
}

func (p *policy) Command(dir string, argv []string) (bool, string) {
	p.note(strings.Join(argv, " "))
	for _, w := range strings.Fields(strings.Join(argv, " ")) {
		switch path.Base(w) {
		case "rm", "curl", "mkfs":
			return false, "no " + path.Base(w)
		}
	}
	return true, ""
}

func (p *policy) Redirect(dir, target string, write bool) (bool, string) {
	p.note("> " + target)
	return !strings.Contains(target, "forbidden"), "no redirect there"
}

func (p *policy) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, s)
}

// scriptPolicy also judges text that becomes code.
type scriptPolicy struct{ policy }

func (p *scriptPolicy) Script(dir, text string) (string, bool, string) {
	p.note("script " + text)
	for _, w := range strings.Fields(text) {
		if path.Base(w) == "rm" {
			return "", false, "no rm in scripts"
		}
	}
	print, _, err := printed(text, "/")
	if err != nil {
		return "", false, err.Error()
	}
	out, err := print(p.names)
	return out, err == nil, "not printed"
}

type stage struct {
	dir, marks string
	env        []string
}

// newStage makes a working directory and puts markers first in PATH.
func newStage(t testing.TB) stage {
	t.Helper()
	s := stage{dir: t.TempDir()}
	s.marks = filepath.Join(s.dir, "marks")
	bin := filepath.Join(s.dir, "bin")
	for _, d := range []string{bin, filepath.Join(s.dir, "forbidden"), filepath.Join(s.dir, "work")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"rm", "curl", "mkfs", "ok"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(marker), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.env = []string{"PATH=" + bin + ":/usr/bin:/bin", "MARKS=" + s.marks, "HOME=" + s.dir, "F=" + filepath.Join(s.dir, "forbidden", "f")}
	return s
}

func (s stage) ran(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(s.marks)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// evasions try to run rm, curl or mkfs, or to write below forbidden, past a
// checker that refuses it. They use relative targets that do not exist, so
// that even the real programs would do no harm.
var evasions = []string{
	`X=rm; $X -rf ./victim`,
	`X='rm -rf ./victim'; $X`,
	`a=(rm -rf ./victim); "${a[@]}"`,
	`a=(rm -rf ./victim); ${a[*]}`,
	`$(echo rm) -rf ./victim`,
	"`echo rm` -rf ./victim",
	`r""$(echo m) -rf ./victim`,
	`ls() { "$@"; }; ls rm -rf ./victim`,
	`f() { $1 -rf ./victim; }; f rm`,
	`f() { local c=$1; shift; $c "$@"; }; f rm -rf ./victim`,
	`set -- rm -rf ./victim; "$@"`,
	`set -- rm -rf ./victim; $*`,
	`for c in rm; do $c -rf ./victim; done`,
	`while read -r c; do $c -rf ./victim; done <<< rm`,
	`echo rm | { read -r c; $c -rf ./victim; }`,
	`true | (X=rm; $X -rf ./victim) | cat`,
	`X=rm; echo "$($X -rf ./victim)"`,
	`X=rm; echo "${Y:-$($X -rf ./victim)}"`,
	`X=rm; cat <<EOF
$($X -rf ./victim)
EOF`,
	`X=rm; cat <($X -rf ./victim)`,
	`X=rm; echo x > >($X -rf ./victim); sleep 0.3`,
	`X=rm; $X -rf ./victim & wait`,
	`X=rm; { $X -rf ./victim; } & wait`,
	`X=rm; (( $($X -rf ./victim; echo 1) ))`,
	`X=rm; [[ -n $($X -rf ./victim) ]]`,
	`X=rm; a[$($X -rf ./victim; echo 0)]=1`,
	`X=rm; case $($X -rf ./victim) in *) ;; esac`,
	`X=rm; declare y=$($X -rf ./victim)`,
	`X=rm; time $X -rf ./victim`,
	`X=rm; ! $X -rf ./victim`,
	`X=rm; command $X -rf ./victim`,
	`X=rm; exec $X -rf ./victim`,
	`X=rm; builtin command $X -rf ./victim`,
	`X=command; $X rm -rf ./victim`,
	`X=exec; $X rm -rf ./victim`,
	`X=env; $X rm -rf ./victim`,
	`X=rm; env $X -rf ./victim`,
	`X=rm; nice -n 1 $X -rf ./victim`,
	`X=rm; timeout 5 "$X" -rf ./victim`,
	`X=rm; echo ./victim | xargs $X -rf`,
	`X=xargs; echo ./victim | $X rm -rf`,
	`X=rm; find . -maxdepth 0 -exec $X -rf {} \;`,
	`X=rm; FOO=1 $X -rf ./victim`,
	`X=rm; PATH=$PATH $X -rf ./victim`,
	`X=rm; $X -rf ./victim 2>/dev/null >&2`,
	`X='rm -rf ./victim'; eval "$X"`,
	`X='rm -rf ./victim'; eval $X`,
	`X=rm; eval '$X -rf ./victim'`,
	`X=rm; eval "eval '\$X -rf ./victim'"`,
	`X='Y=r; Z=m; $Y$Z -rf ./victim'; eval "$X"`,
	`X=eval; $X 'rm -rf ./victim'`,
	`X=eval; Y='Z=r; ${Z}m -rf ./victim'; $X "$Y"`,
	`X='builtin() { :; }'; eval "$X"; Y=rm; $Y -rf ./victim`,
	`trap 'X=rm; $X -rf ./victim' EXIT`,
	`X=rm; trap "$X -rf ./victim" EXIT`,
	`X='$Y -rf ./victim'; Y=rm; trap "$X" EXIT`,
	`trap 'X=rm; $X -rf ./victim' USR1; kill -USR1 $$; sleep 0.1`,
	`X=rm; bash -c '$0 -rf ./victim' $X`,
	`X=rm; bash -c "$X -rf ./victim"`,
	`bash -c 'X=rm; $X -rf ./victim'`,
	`timeout 5 bash -c 'X=rm; $X -rf ./victim'`,
	`sh -c 'X=rm; $X -rf ./victim'`,
	`bash -c 'bash -c "X=rm; \$X -rf ./victim"'`,
	`export X=rm; bash -c 'unset -f builtin; $X -rf ./victim'`,
	`bash <<'EOF'
X=rm; $X -rf ./victim
EOF`,
	`sh <<< 'X=rm; $X -rf ./victim'`,
	`X=$'\x72m'; $X -rf ./victim`,
	`X=mr; Y=${X:1:1}${X:0:1}; $Y -rf ./victim`,
	`printf -v X %s rm; $X -rf ./victim`,
	`IFS=+; X='rm+-rf+./victim'; $X`,
	`declare -n R=Y; Y=rm; $R -rf ./victim`,
	`Y=rm; Z=Y; ${!Z} -rf ./victim`,
	`cd ../bin; ./r* -rf ./victim`,
	`cd ../bin; ./{rm,x} -rf ./victim`,
	`D=../bin; $D/rm -rf ./victim`,
	`mapfile -t a <<< rm; "${a[0]}" -rf ./victim`,
	`mapfile -C 'X=rm; $X' -c 1 a <<< x`,
	`select c in rm; do $c -rf ./victim; break; done <<< 1`,
	`f() { "${FUNCNAME[1]:-rm}" -rf ./victim; }; f`,
	`coproc { X=rm; $X -rf ./victim; }; wait`,
	// Against the guards themselves.
	`builtin() { return 0; }; X=rm; $X -rf ./victim`,
	`function builtin { :; }; X=rm; $X -rf ./victim`,
	`local() { :; }; printf() { :; }; read() { :; }; kill() { :; }; X=rm; $X -rf ./victim`,
	`unset -f $(compgen -A function); X=rm; $X -rf ./victim`,
	`for f in $(compgen -A function); do unset -f "$f"; done; X=rm; $X -rf ./victim`,
	`enable -n builtin; X=rm; $X -rf ./victim`,
	`enable -n printf read kill local; X=rm; $X -rf ./victim`,
	`Y=enable; $Y -n builtin; X=rm; $X -rf ./victim`,
	`command enable -n builtin; X=rm; $X -rf ./victim`,
	`shopt -s expand_aliases; alias builtin=true; X=rm; $X -rf ./victim`,
	`shopt -s expand_aliases; alias ls=rm; eval 'ls -rf ./victim'`,
	`set -o posix; X=rm; $X -rf ./victim`,
	`POSIXLY_CORRECT=1; alias ls=rm; eval 'ls -rf ./victim'`,
	`read POSIXLY_CORRECT <<< 1; alias ls=rm; eval 'ls -rf ./victim'`,
	`hash -p ../bin/rm ls; ls -rf ./victim`,
	`BASH_CMDS[ls]=../bin/rm; ls -rf ./victim`,
	`BASH_ALIASES[ls]=rm; shopt -s expand_aliases; eval ls`,
	`shopt -s extdebug; set -T; trap false DEBUG; X=rm; $X -rf ./victim`,
	`set -o functrace; trap 'exec 8<<<ok' DEBUG; X=rm; $X -rf ./victim`,
	`O=-T; set $O; X=rm; $X -rf ./victim`,
	`O=extdebug; shopt -s $O; X=rm; $X -rf ./victim`,
	`declare -ft f; X=rm; $X -rf ./victim`,
	`O=-ft; declare $O f; X=rm; $X -rf ./victim`,
	`trap 'return 0' USR1; (while kill -USR1 $$; do :; done) & X=rm; $X -rf ./victim`,
	`trap 'set -- true; exec 8<<<ok' USR1; (while kill -USR1 $$; do :; done) & X=rm; $X -rf ./victim`,
	`trap 'break; continue; return' CHLD; (sleep 0.01) & (sleep 0.02) & X=rm; $X -rf ./victim`,
	`exec 8<<<ok 9<<<ok; X=rm; $X -rf ./victim`,
	`for i in 3 4 5 6 7 8 9; do eval "exec $i<<<ok"; done; X=rm; $X -rf ./victim`,
	`ulimit -n 3; X=rm; $X -rf ./victim`,
	`ulimit -u 1; X=rm; $X -rf ./victim`,
	`TMOUT=1; IFS=ok; set -f -u -e -x; X=rm; $X -rf ./victim`,
	`set -x; PS4='$(rm -rf ./victim)'; X=ok; $X`,
	`readonly v=1; for n in $(compgen -v); do readonly "$n" 2>/dev/null; done; X=rm; $X -rf ./victim`,
	`set -m; X=rm; $X -rf ./victim`,
	`exec 2>&- 1>&-; X=rm; $X -rf ./victim`,
	`exec >/dev/null 2>&1 </dev/null; (X=rm; $X -rf ./victim) & disown; wait`,
	`X=rm; $X -rf ./victim || rm_again=1; X=curl; $X done`,
	`trap 'curl done' EXIT; X=rm; $X -rf ./victim`,
	`trap 'curl done' ERR EXIT TERM; X=rm; $X -rf ./victim; curl after`,
	`(sleep 0.3; curl late) & X=rm; $X -rf ./victim`,
	`f() { export -f f; X=rm; $X -rf ./victim; }; export -f f; bash -c f`,
	`set -E; trap 'exit 0' ERR; ulimit -n 7; X=rm; $X -rf ./victim`,
	`set -E; trap 'exit 0' ERR; X=rm; false || $X -rf ./victim`,
	`set -eE; trap 'return 0; exit 0' ERR EXIT; X=rm; $X -rf ./victim`,
	`declare -n v=w; for n in $(compgen -A function); do declare -n "${n}_v=w"; done; w=(true); trap 'w=(rm)' USR1; X=rm; $X -rf ./victim`,
	`env 'BASH_FUNC_builtin%%=() { printf -v "${@: -1}" ok; }' bash -c 'X=rm; $X -rf ./victim'`,
	`SHELLOPTS=functrace BASHOPTS=extdebug bash -c 'X=rm; $X -rf ./victim'`,
	`env SHELLOPTS=functrace BASHOPTS=extdebug bash -c 'trap false DEBUG; X=rm; $X -rf ./victim'`,
	`POSIXLY_CORRECT=1 bash -c 'alias ls=rm; eval "ls -rf ./victim"; X=rm; $X -rf ./victim'`,
	`bash -O extdebug -T -c 'trap false DEBUG; X=rm; $X -rf ./victim'`,
	`bash -O expand_aliases -c 'alias ls=rm; eval "ls -rf ./victim"'`,
	`bash --posix -c 'alias ls=rm; eval "ls -rf ./victim"'`,
	`BASH_XTRACEFD=1; set -x; X='rm -rf ./victim'; eval "$X"`,
	`exec {BASH_XTRACEFD}>&1; set -x; X=$'\nrm -rf ./victim'; eval "$X"`,
	`shopt -s localvar_inherit; X=rm; $X -rf ./victim`,
	`command_not_found_handle() { X=rm; $X -rf ./victim; }; nosuchprogram`,
	// Redirects.
	`set -E; trap 'echo "$F"' ERR; A='a b'; echo x > $A`,
	`set -E; trap 'echo "$F"' ERR EXIT; echo x > "$UNSET"`,
	`set -uE; trap 'echo "$F"' ERR EXIT; echo x > "$UNSET"`,
	`BASH_XTRACEFD=1; set -x; echo x > $F`,
	`echo x > "$F"`,
	`echo x > $F`,
	`echo x >> $F`,
	`echo x >| $F`,
	`echo x &> $F`,
	`echo x &>> $F`,
	`echo x 1<> $F`,
	`echo x >& $F`,
	`echo x 2>&1 > ${F}x`,
	`{ echo x; } > $F`,
	`(echo x) > $F`,
	`while read -r l; do echo $l; done < $F`,
	`exec 3> $F; echo x >&3`,
	`exec {fd}> $F; echo x >&$fd`,
	`> $F`,
	`X=1 > $F`,
	`if true; then echo x; fi > $F`,
	`f() { echo x; } > $F; f`,
	`echo x > ../forbidde?/f`,
	`echo x > ~/forbidden/f`,
	`G=$F$'\n'; echo x > "$G"`,
	`echo x | tee /dev/null > $F`,
	`echo x > "$(echo $F)"`,
	`[[ a == a ]] > $F`,
	`(( 1 )) > $F`,
	`eval 'echo x > $F'`,
	`bash -c 'echo x > $F'`,
}

func TestEvasions(t *testing.T) {
	e := newEngine(t)
	counts := map[string]int{}
	for _, text := range evasions {
		for _, withScripts := range []bool{false, true} {
			how := evade(t, e, text, withScripts)
			counts[how]++
		}
	}
	t.Logf("%d texts, each with and without a checker for scripts: %v", len(evasions), counts)
}

func evade(t *testing.T, e *Engine, text string, withScripts bool) (how string) {
	s := newStage(t)
	print, ext, err := printed(text, filepath.Join(s.dir, "work"))
	if err != nil {
		return "not printed"
	}
	names := NewNames()
	script, err := print(names)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	p := &scriptPolicy{policy{names: names}}
	var check Checker = p
	if !withScripts {
		check = &p.policy
	}
	res, err := e.Run(t.Context(), Request{
		Script: script, Names: names, Check: check, ExtGlob: ext,
		Dir: filepath.Join(s.dir, "work"), Env: s.env, Timeout: 20 * time.Second,
	})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if ran := s.ran(t); ran != "" {
		t.Errorf("%q: ran %q\nchecker saw %q\nprint %s\nresult %+v", text, ran, p.seen, script, res)
	}
	if files, _ := filepath.Glob(filepath.Join(s.dir, "forbidden", "*")); len(files) > 0 {
		t.Errorf("%q: wrote %v\nchecker saw %q\nprint %s", text, files, p.seen, script)
	}
	if res.TimedOut {
		t.Errorf("%q: timed out: %+v", text, res)
	}
	switch {
	case res.Refused && res.ExitCode == ExitRefused:
		return "refused"
	case strings.Contains(script, names.Function) || res.ExitCode != 0:
		return "failed otherwise"
	}
	return "nothing to run"
}

// TestNothingRunsLate waits for what the refused scripts left running.
func TestNothingRunsLate(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	print, _, err := printed(`(sleep 0.2; ok late) & X=rm; $X -rf ./victim; ok after`, s.dir)
	if err != nil {
		t.Fatal(err)
	}
	names := NewNames()
	script, err := print(names)
	if err != nil {
		t.Fatal(err)
	}
	res, err := e.Run(t.Context(), Request{Script: script, Names: names, Check: &policy{}, Dir: s.dir, Env: s.env})
	if err != nil || !res.Refused {
		t.Fatalf("%+v %v", res, err)
	}
	time.Sleep(400 * time.Millisecond)
	if err := e.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if ran := s.ran(t); ran != "" {
		t.Errorf("ran %q after the refusal", ran)
	}
}

// TestGuardedCommandsRunRight checks that what the checker lets through is
// what bash alone would have run.
func TestGuardedCommandsRunRight(t *testing.T) {
	e := newEngine(t)
	asked := 0
	for _, c := range []struct{ text, ran, out string }{
		{`X=ok; $X "a  b" '' $'c\nd' *`, "ok|a  b||c\nd|*|\n", ""},
		{`X=ok; FOO=bar $X; echo "[$FOO]"`, "ok|\n", "[]\n"},
		{`X=printenv; FOO=bar $X FOO`, "", "bar\n"},
		{`X=echo; $X hi | tr a-z A-Z`, "", "HI\n"},
		{`X=false; $X || echo "rc=$?"`, "", "rc=1\n"},
		{`X=; $X; echo "rc=$?"`, "", "rc=0\n"},
		{`if $(false); then echo y; else echo n; fi`, "", "n\n"},
		{`set -e; X=false; $X; echo never`, "", ""},
		{`set -u; X=echo; $X "${Y:-d}"`, "", "d\n"},
		{`X=nosuch; $X 2>/dev/null; echo "rc=$?"`, "", "rc=127\n"},
		{`X=cat; $X <<< data; $X << E
$X body
E`, "", "data\ncat body\n"},
		{`X=echo; $X hi > out; cat out; F=out; cat < $F; cat < "$F"; echo more >> "$F"; wc -l < $F`, "", "hi\nhi\nhi\n2\n"},
		{`F='a b'; echo x > $F; echo "rc=$?"; echo y > "$F"; cat 'a b'`, "", "bash: ambiguous redirect\nbash: line 1: : No such file or directory\nrc=1\ny\n"},
		{`X=cd; $X /; pwd`, "", "/\n"},
		{`X=read; $X v <<< in; echo "$v"`, "", "in\n"},
		{`f() { echo "f:$1:$#"; return 3; }; X=f; $X a b; echo "rc=$?"`, "", "f:a:2\nrc=3\n"},
		{`X=sleep; $X 30 & P=$!; kill $P; wait $P; echo "rc=$?"`, "", "rc=143\n"},
		{`f() { echo "was $?"; }; X=f; (exit 3); $X a; true; $X b; set -e; (exit 0); $X c`, "", "was 3\nwas 0\nwas 0\n"},
		{`set -e; f() { return 5; }; X=f; trap 'echo "rc=$?"' EXIT; $X; echo never`, "", "rc=5\n"},
		{`X=exit; (exit 4); $X 5; echo never`, "", ""},
		{`C='x=5'; eval "$C"; echo $x`, "", "5\n"},
		{`f() { local y=1; C='y=2'; eval "$C"; echo $y; }; f; echo "[$y]"`, "", "2\n[]\n"},
		{`echo 'V=9' > s; S=s; . "./$S"; echo $V`, "", "9\n"},
		{`D=bye; trap "echo $D" EXIT; echo hi`, "", "hi\nbye\n"},
		{`exec 3>&1; fd=3; echo x >&$fd; exec {d}>o; echo y >&$d; exec {d}>&-; cat o`, "", "x\ny\n"},
		{`bash -c 'X=echo; $X "$0" "$1"' a 'b c'`, "", "a b c\n"},
		{`for i in 1 2 3; do (X=echo; $X $i) & done; wait`, "", ""},
		{`X=ok; $X 1 | $X 2 | $X 3; wait`, "", ""},
		{`set -m; X=echo; $X m; $X n & wait`, "", ""},
		{`trap 'echo usr' USR1; X=kill; $X -USR1 $$; echo end`, "", "usr\nend\n"},
	} {
		s := newStage(t)
		work := filepath.Join(s.dir, "work")
		print, ext, err := printed(c.text, work)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		names := NewNames()
		script, err := print(names)
		if err != nil {
			t.Fatal(err)
		}
		p := &scriptPolicy{policy{names: names}}
		res, err := e.Run(t.Context(), Request{Script: script, Names: names, Check: p, ExtGlob: ext, Dir: work, Env: s.env, Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if res.Refused || res.TimedOut {
			t.Errorf("%q: %+v", c.text, res)
		}
		if c.ran != "" && s.ran(t) != c.ran {
			t.Errorf("%q: ran %q, want %q", c.text, s.ran(t), c.ran)
		}
		if c.out != "" && res.Output != c.out {
			t.Errorf("%q: output %q, want %q\nprint %s", c.text, res.Output, c.out, script)
		}
		asked += len(p.seen)
	}
	if asked < 35 {
		t.Errorf("the checker was asked only %d times", asked)
	}
}

// realGate asks the gate's own last check, as a session does.
type realGate struct {
	reading *approvals.Reading
	posture approvals.Posture
}

func (g realGate) Command(dir string, argv []string) (bool, string) {
	return g.reading.CheckCommand(dir, argv, g.posture)
}

func (g realGate) Redirect(dir, target string, write bool) (bool, string) {
	return g.reading.CheckRedirect(dir, target, write, g.posture)
}

// TestFloorHoldsAtBypass runs texts whose danger no reader can see through
// the whole chain. rm and mkfs are markers.
func TestFloorHoldsAtBypass(t *testing.T) {
	e := newEngine(t)
	for text, refused := range map[string]bool{
		`X=rm; $X -rf /`:                             true,
		`a=(rm -rf); "${a[@]}" "/"`:                  true,
		`X=/; rm -rf "$X"`:                           true,
		`X=mkfs; $X.ext4 /dev/sda1 || $X /dev/sda1`:  true,
		`X='rm -rf /'; eval "$X"`:                    true,
		`X=rm; trap "$X -rf /" EXIT`:                 true,
		`X=rm; bash -c '$0 -rf /' "$X"`:              true,
		`D=/dev/sda; echo x > $D`:                    true,
		`X=rm; $X -rf ./build; D=out; echo x > "$D"`: false,
	} {
		s := newStage(t)
		args, err := json.Marshal(map[string]string{"command": text})
		if err != nil {
			t.Fatal(err)
		}
		work := filepath.Join(s.dir, "work")
		r := approvals.Read(approvals.Call{Tool: approvals.ShellTool, Arguments: args}, approvals.Place{Cwd: work, Home: s.dir, Roots: []string{work}})
		p := approvals.Posture{Rung: approvals.Bypass}
		names := NewNames()
		script, err := r.Script().Print(names, p)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		res, err := e.Run(t.Context(), Request{Script: script, Names: names, Check: realGate{r, p}, Dir: work, Env: s.env, Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if res.Refused != refused || refused && s.ran(t) != "" {
			t.Errorf("%q: ran %q, %+v", text, s.ran(t), res)
		}
	}
}
