package session_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// chainedLog plays turns with decisions and answers and returns their log.
func chainedLog(t testing.TB, turns int) []session.Record {
	t.Helper()
	kinds := []session.Event{}
	for _, ev := range sessiontest.Events() {
		switch ev.(type) {
		case session.Decided, session.CallAnnounced, session.CallExecuting, session.CallEnded, session.Text:
			kinds = append(kinds, ev)
		}
	}
	st := session.NewMemory()
	m := sessiontest.ManagerWith(t, session.Options{Store: st, NewRunner: sessiontest.NewRunner(sessiontest.Script{
		sessiontest.Emit(kinds...), sessiontest.Emit(session.Decided{ID: "bare"}, session.Decided{ID: "two in a batch", Tool: "bad \xff bytes"}), sessiontest.Ask(nil, offering("1"), request("2")),
	})})
	s, err := m.Create(t.Context(), session.Spec{Cwd: "/"})
	if err != nil {
		t.Fatal(err)
	}
	for range turns {
		if _, err := s.Start(t.Context(), prompt(session.AskDeny)); err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	recs, err := st.After(t.Context(), s.ID(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

func TestVerify(t *testing.T) {
	recs := chainedLog(t, 3)
	head, n, err := session.Verify(recs)
	if err != nil || n != 3*5 || head == "" {
		t.Fatalf("head %q, %d links, %v", head, n, err)
	}
	for _, end := range only[session.TurnEnded](recs[len(recs)-1:]) {
		if end.Head != head {
			t.Errorf("the turn ended with head %s, the chain with %s", end.Head, head)
		}
	}
	if head, n, err := session.Verify(nil); head != "" || n != 0 || err != nil {
		t.Errorf("an empty log: %q, %d, %v", head, n, err)
	}
}

// chained reports whether a record has a link.
func chained(r session.Record) bool {
	switch r.Event.(type) {
	case session.Decided, session.Answered:
		return true
	}
	return false
}

// reencode changes a record by its stored form.
func reencode(t rapid.TB, r session.Record, change func(record, event map[string]json.RawMessage)) session.Record {
	t.Helper()
	b, err := session.EncodeRecord(r)
	if err != nil {
		t.Fatal(err)
	}
	var rec, ev map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(b, &rec), json.Unmarshal(rec["event"], &ev)); err != nil {
		t.Fatal(err)
	}
	change(rec, ev)
	if rec["event"], err = json.Marshal(ev); err != nil {
		t.Fatal(err)
	}
	if b, err = json.Marshal(rec); err != nil {
		t.Fatal(err)
	}
	changed, err := session.DecodeRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestVerifyNamesTheFirstBrokenRecord(t *testing.T) {
	recs := chainedLog(t, 2)
	rapid.Check(t, func(rt *rapid.T) {
		var places []int
		for i, r := range recs {
			if chained(r) {
				places = append(places, i)
			}
		}
		i := rapid.SampledFrom(places).Draw(rt, "place")
		got := append([]session.Record{}, recs...)
		raw := func(s string) json.RawMessage { return json.RawMessage(s) }
		kinds := map[string]func(rec, ev map[string]json.RawMessage){
			"field":   func(_, ev map[string]json.RawMessage) { ev["callId"] = raw(`"another"`) },
			"added":   func(_, ev map[string]json.RawMessage) { ev["askId"] = raw(`"added"`) },
			"time":    func(rec, _ map[string]json.RawMessage) { rec["at"] = raw(`"2001-01-01T00:00:00Z"`) },
			"turn":    func(rec, _ map[string]json.RawMessage) { rec["turn"] = raw(`"t"`) },
			"no link": func(_, ev map[string]json.RawMessage) { delete(ev, "link") },
			"key": func(_, ev map[string]json.RawMessage) {
				ev["link"] = raw(strings.Replace(string(ev["link"]), `"key":"`, `"key":"AAAA`, 1))
			},
			"head": func(_, ev map[string]json.RawMessage) {
				ev["link"] = raw(strings.Replace(string(ev["link"]), `"head":"`, `"head":"0`, 1))
			},
			"no version": func(_, ev map[string]json.RawMessage) {
				ev["link"] = raw(strings.Replace(string(ev["link"]), `"v":1`, `"v":0`, 1))
			},
		}
		kind := rapid.SampledFrom([]string{"field", "added", "time", "turn", "no link", "key", "head", "no version", "removed", "swapped"}).Draw(rt, "kind")
		want := got[i].Seq
		switch kind {
		case "removed": // the next link, or the end of the turn, shows it
			want = nextWitness(got, i)
			got = append(got[:i:i], got[i+1:]...)
		case "swapped":
			if i+1 >= len(got) || !chained(got[i+1]) {
				return
			}
			got[i], got[i+1] = got[i+1], got[i]
			got[i].Seq, got[i+1].Seq = got[i+1].Seq, got[i].Seq
			want = got[i].Seq
		default:
			got[i] = reencode(rt, got[i], kinds[kind])
		}
		_, _, err := session.Verify(got)
		if !errors.Is(err, session.ErrBroken) || !strings.HasPrefix(err.Error(), "record "+itoa(want)+",") {
			rt.Fatalf("%s at record %d: %v, want record %d", kind, recs[i].Seq, err, want)
		}
	})
}

func itoa(s session.Seq) string { b, _ := json.Marshal(s); return string(b) }

func nextWitness(recs []session.Record, i int) session.Seq {
	for _, r := range recs[i+1:] {
		if _, end := r.Event.(session.TurnEnded); end || chained(r) {
			return r.Seq
		}
	}
	return 0
}

func TestVerifyRefusesNewer(t *testing.T) {
	recs := chainedLog(t, 1)
	for i, r := range recs {
		if d, ok := r.Event.(session.Decided); ok {
			link := *d.Link
			link.V = 99
			d.Link = &link
			recs[i].Event = d
			break
		}
	}
	if _, _, err := session.Verify(recs); !errors.Is(err, session.ErrNewer) || !strings.Contains(err.Error(), "update gth-server") {
		t.Errorf("a newer link: %v", err)
	}
}

func TestRedact(t *testing.T) {
	recs := chainedLog(t, 2)
	head, n, err := session.Verify(recs)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"tool", "subject.command", "subject.host", "verdict.message", "verdict.stages", "verdict.rule", "answer.reason", "answer.arguments", "decision.grant", "no such field"}
	redacted := 0
	rapid.Check(t, func(rt *rapid.T) {
		got := append([]session.Record{}, recs...)
		for i, r := range got {
			if !chained(r) {
				continue
			}
			for range rapid.IntRange(0, 2).Draw(rt, "times") {
				some := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(rt, "names")
				if got[i], err = session.Redact(got[i], some...); err != nil {
					rt.Fatal(err)
				}
				redacted++
				b, err := session.EncodeRecord(got[i])
				if err != nil {
					rt.Fatal(err)
				}
				if strings.Contains(strings.Join(some, " "), "subject.command") && strings.Contains(string(b), `"command":"ls `) {
					rt.Fatalf("the command is still in %s", b)
				}
				if got[i], err = session.DecodeRecord(b); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if h, m, err := session.Verify(got); err != nil || h != head || m != n {
			rt.Fatalf("head %s, %d links, %v", h, m, err)
		}
	})
	t.Logf("%d redactions", redacted)
}

func TestRedactionsAreChecked(t *testing.T) {
	recs := chainedLog(t, 1)
	for i, r := range recs {
		if !chained(r) {
			if _, err := session.Redact(r, "tool"); err == nil {
				t.Errorf("a %T was redacted", r.Event)
			}
			continue
		}
		d, ok := r.Event.(session.Decided)
		if !ok {
			continue
		}
		if _, err := session.Redact(r, "rung"); err == nil || !strings.Contains(err.Error(), `"rung" cannot be empty`) {
			t.Errorf("the rung was redacted: %v", err)
		}
		red, err := session.Redact(r, "tool")
		if err != nil {
			t.Fatal(err)
		}
		d = red.Event.(session.Decided)
		if d.Tool != "" || len(d.Link.Key) != 0 {
			t.Fatalf("redacted to tool %q with key %x", d.Tool, d.Link.Key)
		}
		d.Tool = "made up"
		with := append([]session.Record{}, recs...)
		with[i].Event = d
		if _, _, err := session.Verify(with); !errors.Is(err, session.ErrBroken) {
			t.Errorf("a text in a redacted field: %v", err)
		}
		return
	}
}

// TestChainOfVersion1 reads a log that was written once and for all.
func TestChainOfVersion1(t *testing.T) {
	const file = "testdata/chain-v1.jsonl"
	if os.Getenv("WRITE_CHAIN") != "" {
		var b strings.Builder
		for _, r := range chainedLog(t, 1) {
			line, err := session.EncodeRecord(r)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(line, '\n'))
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var recs []session.Record
	for line := range strings.Lines(string(text)) {
		r, err := session.DecodeRecord([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, r)
	}
	if head, n, err := session.Verify(recs); err != nil || n != 5 || head != only[session.TurnEnded](recs)[0].Head {
		t.Fatalf("head %s, %d links, %v: fields that are added to a decision, an answer or what they hold must be left out when empty", head, n, err)
	}
	t.Logf("%d records", len(recs))
}

func BenchmarkVerify(b *testing.B) {
	recs := chainedLog(b, 20)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := session.Verify(recs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/link")
}
