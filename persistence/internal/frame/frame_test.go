package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

func TestFrames(t *testing.T) {
	var stream bytes.Buffer
	values := []string{`{"a":"<&>"}`, `[]`, `"x"`}
	for _, v := range values {
		b, err := Encode(json.RawMessage(v))
		if err != nil {
			t.Fatal(err)
		}
		stream.Write(b)
	}
	whole := stream.Bytes()
	for _, want := range values {
		var got json.RawMessage
		if err := Decode(&stream, &got); err != nil || string(bytes.TrimSpace(got)) != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	var v any
	if err := Decode(&stream, &v); !errors.Is(err, io.EOF) {
		t.Fatalf("behind the last frame: %v", err)
	}
	if err := Decode(bytes.NewReader(whole[:7]), &v); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("a cut frame: %v", err)
	}
	if err := Decode(bytes.NewReader([]byte{255, 255, 255, 255}), &v); !errors.Is(err, ErrTooLong) {
		t.Fatalf("a long frame: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	b, err := Encode(map[string]int{"a": 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			var v any
			if err := Decode(r, &v); err != nil {
				return
			}
			if _, err := Encode(v); err != nil {
				t.Fatalf("%v was read and can not be sent: %v", v, err)
			}
		}
	})
}
