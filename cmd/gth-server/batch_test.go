package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gth-server/gth-server/approvals"
)

// batchOf answers lines in this process.
func batchOf(t *testing.T, in io.Reader) ([]map[string]any, error) {
	t.Helper()
	policy, err := approvals.Compile(approvals.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	b := &checker{
		place:   approvals.Place{Cwd: "/work/project", Roots: []string{"/work/project"}, Home: "/home/dev", User: "dev"},
		posture: approvals.Posture{Rung: approvals.Assisted, Policy: policy},
	}
	var out bytes.Buffer
	failed := b.batch(t.Context(), stdio{in: in, out: &out})
	var answers []map[string]any
	for line := range strings.Lines(out.String()) {
		var a map[string]any
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		answers = append(answers, a)
	}
	return answers, failed
}

// TestBatchLines: a line says exactly one thing to every reader, or gets an
// error that says what is wrong with it.
func TestBatchLines(t *testing.T) {
	tests := []struct{ line, id, say string }{ // say "" is an answer
		{`{"id":"a","command":"ls"}`, `a`, ""},
		{`{"id":7,"command":"ls"}`, `7`, ""},
		{`{"id":null,"command":"ls","rung":null,"cwd":null,"approvals":null,"tool":null,"arguments":null,"server":null}`, ``, ""},
		{`{"command":"ls"}`, ``, ""},
		{"\ufeff" + `{"id":"bom","command":"ls"}`, `bom`, ""},
		{`  {"id":"space","command":"ls"}` + "\t\r", `space`, ""},
		{`{"id":"t","tool":"read_file","arguments":{"path":"x"}}`, `t`, ""},
		{`{"id":"m","tool":"t","server":"s","arguments":{}}`, `m`, ""},
		{`{"id":"a","command":"ls","command":"rm x"}`, `a`, "repeated"},
		{`{"id":"a","tool":"t","arguments":{"p":1,"p":2}}`, `a`, "repeated"},
		{`{"id":"a","Command":"ls"}`, `a`, `"Command" is unknown`},
		{`{"ID":"a","command":"ls"}`, ``, `"ID" is unknown`},
		{`{"id":"a","comand":"ls"}`, `a`, `"comand" is unknown`},
		{`{"id":"a","command":null}`, `a`, "neither"},
		{`{"id":"a"}`, `a`, "neither"},
		{`{"id":"a","command":5}`, `a`, "command must be a string"},
		{`{"id":"a","command":["ls"]}`, `a`, "command must be a string"},
		{`{"id":"a","tool":"","arguments":{}}`, `a`, "tool is empty"},
		{`{"id":"a","tool":"t","server":"","arguments":{}}`, `a`, "server is empty"},
		{`{"id":"a","tool":"t"}`, `a`, "arguments"},
		{`{"id":"a","tool":"t","arguments":"{}"}`, `a`, "arguments"},
		{`{"id":"a","tool":"run_shell_command","arguments":{"command":{"x":1}}}`, `a`, "string"},
		{`{"id":"a","tool":"run_shell_command","arguments":{}}`, `a`, "string"},
		{`{"id":"a","command":"ls","tool":"t"}`, `a`, "use one"},
		{`{"id":"a","command":"ls","server":"s"}`, `a`, "belong to a tool"},
		{`{"id":"a","command":"ls","arguments":{}}`, `a`, "belong to a tool"},
		{`{"id":"a","command":"ls","rung":"BYPASS"}`, `a`, "manual, write"},
		{`{"id":"a","command":"ls","rung":""}`, `a`, "manual, write"},
		{`{"id":"a","command":"ls","cwd":"x"}`, `a`, "absolute"},
		{`{"id":"a","command":"ls","cwd":""}`, `a`, "absolute"},
		{`{"id":"a","command":"ls","approvals":{"alow":[]}}`, `a`, `"allow"`},
		{`{"id":"a","command":"ls","approvals":[]}`, `a`, "approvals"},
		{`{"id":"a","command":"\ud800"}`, `a`, "surrogate"},
		{"{\"id\":\"a\",\"command\":\"\xff\"}", `a`, "UTF-8"},
		{`{"id":["a"],"command":"ls"}`, ``, "id is neither"},
		{`{"id":"a","command":"ls"} {"id":"b","command":"ls"}`, ``, "one JSON object"},
		{`{"id":"a","command":"ls"`, ``, "one JSON object"},
		{`["ls"]`, ``, "not a JSON object"},
		{`ls`, ``, "not a JSON object"},
		{strings.Repeat("x", maxBatchLine+1), ``, "longer than"},
	}
	for _, tt := range tests {
		name := tt.line[:min(len(tt.line), 60)]
		answers, err := batchOf(t, strings.NewReader(tt.line+"\n"+`{"id":"next","command":"ls"}`))
		if len(answers) != 2 || answers[1]["id"] != "next" || answers[1]["error"] != nil {
			t.Errorf("%q: %v: the next line is not answered", name, answers)
			continue
		}
		if id := fmt.Sprint(answers[0]["id"]); id != tt.id {
			t.Errorf("%q: id %q, want %q", name, id, tt.id)
		}
		said, _ := answers[0]["error"].(string)
		if (said == "") != (tt.say == "") || !strings.Contains(said, tt.say) {
			t.Errorf("%q: error %q, want %q", name, said, tt.say)
		}
		if (err != nil) != (tt.say != "") {
			t.Errorf("%q: ended with %v", name, err)
		}
	}
	t.Logf("%d lines", len(tests))
}

// TestBatchAnswersAtOnce: whoever writes a line and waits gets its answer,
// also when the beginning of the next line is there already.
func TestBatchAnswersAtOnce(t *testing.T) {
	cmd := exec.Command(program(t), "check", "--batch")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	for i, part := range []string{"{\"id\":\"0\",\"command\":\"ls\"}\n", "{\"id\":\"1\",\"command\":\"ls\"}\n{\"id\":\"2\",", "\"command\":\"ls\"}\n"} {
		if _, err := io.WriteString(in, part); err != nil {
			t.Fatal(err)
		}
		line, err := answers.ReadString('\n')
		if want := fmt.Sprintf(`"id":"%d"`, i); err != nil || !strings.Contains(line, want) {
			t.Fatalf("answer %d: %q, %v", i, line, err)
		}
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestBatchCorpus: every text of the corpus is answered, in order, and the
// floor is the corpus's.
func TestBatchCorpus(t *testing.T) {
	raw, err := os.ReadFile("../../approvals/testdata/commands.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		ID, Command, Shell string
		Expect             struct{ Floor *string }
	}
	var rows []row
	var in bytes.Buffer
	for line := range bytes.Lines(raw) {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
		if err := writeJSON(&in, map[string]string{"id": r.ID, "command": r.Command}); err != nil {
			t.Fatal(err)
		}
	}
	answers, err := batchOf(t, &in)
	if err != nil || len(answers) != len(rows) {
		t.Fatalf("%d answers to %d lines, %v", len(answers), len(rows), err)
	}
	set, hit := 0, 0
	for i, r := range rows {
		floor, _ := answers[i]["floor"].(map[string]any)
		switch {
		case answers[i]["id"] != r.ID:
			t.Fatalf("answer %d is for %v, want %s", i, answers[i]["id"], r.ID)
		case r.Shell != "bash" && answers[i]["action"] == "approve":
			t.Errorf("%s: text of another shell is approved", r.ID)
		case r.Shell == "bash" && r.Expect.Floor == nil && floor != nil:
			t.Errorf("%s: %q is refused by the floor %v", r.ID, r.Command, floor["family"])
		case r.Shell == "bash" && r.Expect.Floor != nil:
			set++
			if floor["family"] == *r.Expect.Floor {
				hit++
			}
		}
	}
	if hit*10 < set*6 {
		t.Errorf("%d of %d floors hit", hit, set)
	}
	t.Logf("%d lines, %d of %d floors hit", len(rows), hit, set)
}

func BenchmarkBatch(b *testing.B) {
	policy, err := approvals.Compile(approvals.Rules{})
	if err != nil {
		b.Fatal(err)
	}
	c := &checker{place: approvals.Place{Cwd: "/w", Roots: []string{"/w"}}, posture: approvals.Posture{Rung: approvals.Assisted, Policy: policy}}
	lines := strings.Repeat(`{"id":"1","command":"ls -la"}`+"\n", 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.batch(b.Context(), stdio{in: strings.NewReader(lines), out: io.Discard}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "µs/line")
}
