package approvals

import (
	"fmt"
	"strings"
	"testing"
)

func benchPosture(b *testing.B, rules, grants int) Posture {
	b.Helper()
	var deny, allow []Entry
	for i := range rules / 2 {
		deny = append(deny, entry(typeShell, matchGlob, fmt.Sprintf("forbidden%d *", i)), entry(typeExec, matchPrefix, fmt.Sprintf("prog%d sub", i)))
		_ = allow
	}
	var own []Grant
	for i := range grants {
		own = append(own, grantOf(entry(typeShell, matchExact, fmt.Sprintf("npm run task%d", i))))
	}
	return Posture{Rung: Manual, Policy: compiled(b, listDeny, deny...), Grants: NewGrants(own, nil, nil)}
}

func benchmark(b *testing.B, command string, p Posture) {
	b.Helper()
	call := shellCall(command)
	b.ReportAllocs()
	for b.Loop() {
		if v := Evaluate(Read(call, testPlace), p, nil); v.Action == Approve {
			b.Fatal("approved")
		}
	}
}

func BenchmarkEvaluateSimple(b *testing.B) { benchmark(b, "ls -la", Posture{}) }

func BenchmarkEvaluateCompound(b *testing.B) {
	one := `git -C sub log --oneline -n 3 "src/a b" > out.txt`
	benchmark(b, strings.Join([]string{one, "npm test", one, "grep -rn TODO src", one, "cat a.txt | sort", one, "rm -f x", "echo done"}, " && "), Posture{})
}

func BenchmarkEvaluateManyRules(b *testing.B) {
	p, r := benchPosture(b, 200, 100), readCommand("npm install left-pad")
	b.ReportAllocs()
	for b.Loop() {
		Evaluate(r, p, nil)
	}
}

func BenchmarkEvaluateUngated(b *testing.B) {
	call := toolCall("read_file", map[string]any{"path": "src/main.go"})
	b.ReportAllocs()
	for b.Loop() {
		Evaluate(Read(call, testPlace), Posture{}, nil)
	}
}
