package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session"
	"github.com/gth-server/gth-server/session/sessiontest"
)

// sealed returns the names of the types in event.go that are events.
func sealed(t *testing.T) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "event" {
			names[f.Recv.List[0].Type.(*ast.Ident).Name] = true
		}
	}
	return names
}

func TestEveryEventIsKnown(t *testing.T) {
	missing := sealed(t)
	if len(missing) < 17 {
		t.Fatalf("event.go has %d events: the search for them is broken", len(missing))
	}
	all := len(missing)
	for _, ev := range sessiontest.Events() {
		delete(missing, reflect.TypeOf(ev).Name())
		if session.Live(ev) {
			t.Errorf("%T is live and among the stored ones", ev)
		}
		if field := unset(reflect.ValueOf(ev), fmt.Sprintf("%T", ev)); field != "" {
			t.Errorf("sessiontest.Events leaves %s unset, so its encoding is not tested", field)
		}
	}
	for _, ev := range sessiontest.LiveEvents() {
		delete(missing, reflect.TypeOf(ev).Name())
		if !session.Live(ev) {
			t.Errorf("%T is not live", ev)
		}
	}
	for name := range missing {
		t.Errorf("event %s is in neither sessiontest.Events nor sessiontest.LiveEvents", name)
	}
	t.Logf("%d kinds of events", all)
}

// unset names a field of v that is zero and would be encoded.
func unset(v reflect.Value, path string) string {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return unset(v.Elem(), path)
		}
	case reflect.Struct:
		if _, ok := v.Interface().(time.Time); ok {
			break
		}
		if v.Type() == reflect.TypeFor[approvals.Entry]() {
			return "" // which of its fields are set is for its own grammar
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || f.Tag.Get("json") == "-" || exempt[v.Type().Name()+"."+f.Name] {
				continue
			}
			if at := unset(v.Field(i), path+"."+f.Name); at != "" {
				return at
			}
		}
		return ""
	case reflect.Slice:
		if v.Len() > 0 && v.Index(0).Kind() == reflect.Struct {
			return unset(v.Index(0), path+"[0]")
		}
	}
	if v.IsZero() {
		return path
	}
	return ""
}

// exempt fields are nil where their sibling is set.
var exempt = map[string]bool{"Decision.Refusal": true}

func TestRecordRoundTrip(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("x", 3600))
	tags := map[string]bool{}
	for i, ev := range sessiontest.Events() {
		in := session.Record{Seq: session.Seq(i + 1), At: at, Turn: "t", Event: ev}
		b, err := session.EncodeRecord(in)
		if err != nil {
			t.Fatalf("%T: %v", ev, err)
		}
		out, err := session.DecodeRecord(b)
		if err != nil {
			t.Fatalf("%T: %v", ev, err)
		}
		if d := cmp.Diff(in, out); d != "" {
			t.Errorf("%T (-in +out):\n%s", ev, d)
		}
		var w struct {
			V    int
			Type string
		}
		if err := json.Unmarshal(b, &w); err != nil || w.V != 1 || w.Type == "" || tags[w.Type] {
			t.Errorf("%T: version %d, type %q, %v", ev, w.V, w.Type, err)
		}
		tags[w.Type] = true
		if bytes.ContainsRune(b, '\n') {
			t.Errorf("%T: the encoding is more than one line", ev)
		}
	}
	t.Logf("%d kinds of stored records", len(tags))
}

func TestRecordKeepsRawBytes(t *testing.T) {
	for _, raw := range []string{`{"command":"a && b <c> 'd'"}`, "{\"x\":\"\u2028\u2029é\"}", `{"n":1e400,"big":123456789012345678901234567890}`, `{"u":"\u0026"}`} {
		b, err := session.EncodeRecord(session.Record{Event: session.CallAnnounced{Call: approvals.Call{Arguments: []byte(raw)}}})
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		r, err := session.DecodeRecord(b)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if got := string(r.Event.(session.CallAnnounced).Call.Arguments); got != raw {
			t.Errorf("arguments %s came back as %s", raw, got)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, ev := range sessiontest.LiveEvents() {
		if _, err := session.EncodeRecord(session.Record{Event: ev}); !errors.Is(err, session.ErrLive) {
			t.Errorf("%T: %v, want ErrLive", ev, err)
		}
	}
	for _, ev := range []session.Event{nil, &session.Text{}, (*session.Text)(nil), session.Step{Message: []byte("{")}} {
		if b, err := session.EncodeRecord(session.Record{Event: ev}); err == nil {
			t.Errorf("%T was encoded: %s", ev, b)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	const at = `"at":"2026-01-01T00:00:00Z"`
	tests := []struct{ in, want string }{
		{``, "unexpected end"},
		{`[]`, "cannot unmarshal"},
		{`{}`, "no version"},
		{`{"v":0,"type":"text","event":{}}`, "no version"},
		{`{"v":-1,"type":"text","event":{}}`, "no version"},
		{`{"v":2,"seq":7,"type":"text","event":{}}`, "record 7: version 2"},
		{`{"v":2,"seq":7,"type":"from_the_future","event":[]}`, "update gth-server"},
		{`{"v":1,"seq":3,` + at + `,"type":"from_the_future","event":{}}`, `type "from_the_future" is unknown`},
		{`{"v":1,"seq":3,` + at + `,"type":"text_delta","event":{}}`, `type "text_delta" is unknown`},
		{`{"v":1,` + at + `,"type":"text"}`, "holds no event"},
		{`{"v":1,` + at + `,"type":"text","event":null}`, "holds no event"},
		{`{"v":1,` + at + `,"type":"text","event":[]}`, "holds no event"},
		{`{"v":1,` + at + `,"type":"text","event":{"text":1}}`, "cannot unmarshal"},
		{`{"v":1,` + at + `,"type":"rung_changed","event":{"to":"loosest"}}`, "loosest"},
		{`{"v":1,"at":"yesterday","type":"text","event":{}}`, "yesterday"},
		{`{"v":1,` + at + `,"type":"text","event":{}} {}`, "after top-level value"},
	}
	for _, tt := range tests {
		r, err := session.DecodeRecord([]byte(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.in, err, tt.want)
		}
		if (err != nil) != (r.Event == nil) {
			t.Errorf("%s: event %v with error %v", tt.in, r.Event, err)
		}
	}
	_, err := session.DecodeRecord([]byte(`{"v":99}`))
	if !errors.Is(err, session.ErrNewer) {
		t.Errorf("version 99: %v, want ErrNewer", err)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for i, ev := range sessiontest.Events() {
		b, err := session.EncodeRecord(session.Record{Seq: session.Seq(i), At: time.Unix(1, 2), Turn: "t", Event: ev})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add([]byte(`{"v":1,"type":"call_ended","event":{"diffs":[null],"exitCode":null}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := session.DecodeRecord(in)
		if err != nil {
			return
		}
		once, err := session.EncodeRecord(r)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v\n%s", err, in)
		}
		again, err := session.DecodeRecord(once)
		var field *approvals.FieldError
		if errors.As(err, &field) {
			return // an entry that was left out altogether is read as none, and none is no valid entry
		}
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, once)
		}
		twice, err := session.EncodeRecord(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("the encoding is not stable: %v\n%s\n%s", err, once, twice)
		}
	})
}
