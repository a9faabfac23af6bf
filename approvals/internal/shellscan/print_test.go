package shellscan

import (
	"testing"
)

func printOf(t *testing.T, text string) (string, error) {
	t.Helper()
	return Parse(text, Env{Home: "/home/u"}).Print(PrintOptions{Function: "_run", Redirect: "_to"})
}

func TestPrintX(t *testing.T) {
	for _, in := range []string{
		"X=rm; $X -rf /", "FOO=1 $X a >$F 2>&1 | cat & wait", "eval \"$X\" b", "eval 'X=rm; $X -rf /'", "trap 'rm \"$tmp\"' EXIT",
		"declare $X", "local -a \"$k=$v\"", "bash -c 'X=rm; $X /'", "cat <<EOF > $F\nx $(rm $Y)\nEOF", "for x in a b; do rm $x; done", "$X &",
		"xargs -I{} sh -c 'rm -r {}'", "rm {}", "touch {}/f", "kill $$", "set -T", "set $X", "set -- $X", "builtin() { :; }", `echo "${x:-'$(id)'}"`, "f() { $1; }; f rm", "exec 3>&$fd {a}<$b", "echo a # b\\\necho c",
		"if a; then $b; elif c; then d; else e; fi", "case $x in a) $b;; esac", "cat < <(foo) > >(bar $x)", "",
	} {
		out, err := printOf(t, in)
		t.Logf("%q\n\t%q %v", in, out, err)
	}
}
