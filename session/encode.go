package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// recordVersion is the version of the encoding that this build writes and
// the newest that it reads.
const recordVersion = 1

// Errors of the encoding, wrapped.
var (
	// ErrNewer is a record that a newer version of the program wrote.
	ErrNewer = errors.New("written by a newer version")
	// ErrLive is a live event where only stored ones may stand.
	ErrLive = errors.New("live events are not stored")
)

// kind is what the encoding knows of one member of the sealed set.
type kind struct {
	tag    string
	decode func(json.RawMessage) (Event, error)
}

// storedKinds is the table of every event that may be stored; liveKinds
// that of the others. Neither is ever written to.
var (
	storedKinds = map[reflect.Type]kind{
		reflect.TypeFor[TurnStarted]():   kindOf[TurnStarted]("turn_started"),
		reflect.TypeFor[TurnEnded]():     kindOf[TurnEnded]("turn_ended"),
		reflect.TypeFor[RungChanged]():   kindOf[RungChanged]("rung_changed"),
		reflect.TypeFor[TitleChanged]():  kindOf[TitleChanged]("title_changed"),
		reflect.TypeFor[Text]():          kindOf[Text]("text"),
		reflect.TypeFor[Reasoning]():     kindOf[Reasoning]("reasoning"),
		reflect.TypeFor[Step]():          kindOf[Step]("step"),
		reflect.TypeFor[CallAnnounced](): kindOf[CallAnnounced]("call_announced"),
		reflect.TypeFor[Decided]():       kindOf[Decided]("decided"),
		reflect.TypeFor[Asked]():         kindOf[Asked]("asked"),
		reflect.TypeFor[Answered]():      kindOf[Answered]("answered"),
		reflect.TypeFor[Granted]():       kindOf[Granted]("granted"),
		reflect.TypeFor[CallExecuting](): kindOf[CallExecuting]("call_executing"),
		reflect.TypeFor[CallEnded]():     kindOf[CallEnded]("call_ended"),
	}
	liveKinds = map[reflect.Type]string{
		reflect.TypeFor[TextDelta]():      "text_delta",
		reflect.TypeFor[ReasoningDelta](): "reasoning_delta",
		reflect.TypeFor[CallOutput]():     "call_output",
	}
	decoders = byTag(storedKinds)
)

func kindOf[T Event](tag string) kind {
	return kind{tag: tag, decode: func(b json.RawMessage) (Event, error) {
		var e T
		err := json.Unmarshal(b, &e)
		return e, err
	}}
}

func byTag(kinds map[reflect.Type]kind) map[string]kind {
	m := make(map[string]kind, len(kinds))
	for _, k := range kinds {
		m[k.tag] = k
	}
	return m
}

// Live reports whether ev is shown to subscribers but never stored.
func Live(ev Event) bool {
	_, ok := liveKinds[reflect.TypeOf(ev)]
	return ok
}

// storable says why ev may not be stored, if it may not.
func storable(ev Event) error {
	if _, ok := storedKinds[reflect.TypeOf(ev)]; ok {
		return nil
	}
	if Live(ev) {
		return fmt.Errorf("event %T: %w: pass it to Show", ev, ErrLive)
	}
	return fmt.Errorf("event %T is not one of the session's events: pass one of them by value", ev)
}

// wireRecord is the stored form of a record.
type wireRecord struct {
	V     int             `json:"v"`
	Seq   Seq             `json:"seq"`
	At    time.Time       `json:"at"`
	Turn  string          `json:"turn,omitempty"`
	Type  string          `json:"type"`
	Event json.RawMessage `json:"event"`
}

// EncodeRecord returns r as one JSON object with version and type tag. The
// bytes of raw JSON in it, such as a call's arguments, keep their spelling.
// A live event is ErrLive.
func EncodeRecord(r Record) ([]byte, error) {
	if err := storable(r.Event); err != nil {
		return nil, fmt.Errorf("encode record %d: %w", r.Seq, err)
	}
	tag := storedKinds[reflect.TypeOf(r.Event)].tag
	body, err := marshal(r.Event)
	if err != nil {
		return nil, fmt.Errorf("encode record %d, %s: %w", r.Seq, tag, err)
	}
	b, err := marshal(wireRecord{V: recordVersion, Seq: r.Seq, At: r.At, Turn: r.Turn, Type: tag, Event: body})
	if err != nil {
		return nil, fmt.Errorf("encode record %d, %s: %w", r.Seq, tag, err)
	}
	return b, nil
}

// DecodeRecord reads what EncodeRecord wrote. A newer version is ErrNewer;
// an unknown type, a missing part and anything after the object are errors.
func DecodeRecord(b []byte) (Record, error) {
	var w wireRecord
	if err := json.Unmarshal(b, &w); err != nil {
		return Record{}, fmt.Errorf("decode record: %w", err)
	}
	switch {
	case w.V > recordVersion:
		return Record{}, fmt.Errorf("decode record %d: version %d, and this build reads up to %d: %w: update gth-server", w.Seq, w.V, recordVersion, ErrNewer)
	case w.V < 1:
		return Record{}, fmt.Errorf("decode record %d: it has no version: it was not written by gth-server", w.Seq)
	}
	k, ok := decoders[w.Type]
	if !ok {
		return Record{}, fmt.Errorf("decode record %d: type %q is unknown: it is damaged or not from gth-server", w.Seq, w.Type)
	}
	if len(w.Event) == 0 || w.Event[0] != '{' {
		return Record{}, fmt.Errorf("decode record %d, %s: it holds no event: it is damaged", w.Seq, w.Type)
	}
	ev, err := k.decode(w.Event)
	if err != nil {
		return Record{}, fmt.Errorf("decode record %d, %s: %w", w.Seq, w.Type, err)
	}
	return Record{Seq: w.Seq, At: w.At, Turn: w.Turn, Event: ev}, nil
}

// marshal is json.Marshal without the escapes for HTML: they would change
// the bytes of arguments, and with them what was judged.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
