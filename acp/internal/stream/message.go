package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/sourcegraph/jsonrpc2"
)

// message is what a line holds. Exactly one of method and response is set.
type message struct {
	id       json.RawMessage // nil for a notification
	method   string
	params   json.RawMessage // nil when absent or null
	response []byte          // an answer to a call of ours, for jsonrpc2
}

// fault is a line that is no message, and the id to answer it with.
type fault struct {
	id  json.RawMessage
	err *jsonrpc2.Error
}

var nullID = json.RawMessage("null")

func parseFault(text string) *fault {
	return &fault{nullID, &jsonrpc2.Error{Code: jsonrpc2.CodeParseError, Message: text}}
}

func shapeFault(id json.RawMessage, text string) *fault {
	if id == nil {
		id = nullID
	}
	return &fault{id, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidRequest, Message: text}}
}

// parse reads one line. A message without method and response is to be
// ignored.
func parse(line []byte) (message, *fault) {
	switch {
	case !utf8.Valid(line):
		return message{}, parseFault("parse error: the line is not UTF-8")
	case !json.Valid(line):
		return message{}, parseFault("parse error: the line is not JSON; send one JSON-RPC message a line")
	case line[0] == '[':
		return message{}, shapeFault(nil, "invalid request: batches are not served; send one message a line")
	case line[0] != '{':
		return message{}, shapeFault(nil, "invalid request: a message must be a JSON object")
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(line, &m); err != nil {
		return message{}, parseFault("parse error: the line is not JSON; send one JSON-RPC message a line")
	}
	id, ok := readID(m)
	if !ok {
		return message{}, shapeFault(nil, "invalid request: id must be a string or a whole number")
	}
	if string(m["jsonrpc"]) != `"2.0"` {
		return message{}, shapeFault(id, `invalid request: jsonrpc must be "2.0"`)
	}
	_, isResult := m["result"]
	_, isError := m["error"]
	rawMethod, isMethod := m["method"]
	switch {
	case isMethod && (isResult || isError):
		return message{}, shapeFault(id, "invalid request: a message has a method or a result, not both")
	case isMethod:
		return parseRequest(id, rawMethod, m["params"])
	case isResult || isError:
		return parseResponse(id, m), nil
	}
	return message{}, shapeFault(id, "invalid request: method is missing")
}

// readID returns the id as it was written, nil when there is none.
func readID(m map[string]json.RawMessage) (json.RawMessage, bool) {
	id, has := m["id"]
	switch {
	case !has:
		return nil, true
	case string(id) == "null", id[0] == '"':
		return id, true
	case id[0] == '-' || '0' <= id[0] && id[0] <= '9':
		return id, !bytes.ContainsAny(id, ".eE")
	}
	return nil, false
}

func parseRequest(id, rawMethod, params json.RawMessage) (message, *fault) {
	msg := message{id: id}
	if json.Unmarshal(rawMethod, &msg.method) != nil || msg.method == "" {
		return message{}, shapeFault(id, "invalid request: method must be a name")
	}
	switch {
	case params == nil, string(params) == "null":
	case params[0] == '{', params[0] == '[':
		msg.params = params
	default:
		return message{}, shapeFault(id, "invalid request: params must be an object")
	}
	return msg, nil
}

// parseResponse passes an answer on in a form that jsonrpc2 can read. An
// answer to an id that was never given out is ignored: answering answers
// would have no end.
func parseResponse(id json.RawMessage, m map[string]json.RawMessage) message {
	if _, err := strconv.ParseUint(string(id), 10, 64); err != nil {
		return message{}
	}
	out := map[string]any{"jsonrpc": "2.0", "id": id}
	if raw, isError := m["error"]; isError && string(raw) != "null" {
		e := jsonrpc2.Error{Code: jsonrpc2.CodeInternalError, Message: "the other side failed without a readable error"}
		var read jsonrpc2.Error
		if json.Unmarshal(raw, &read) == nil && read.Code != 0 {
			e = read
		}
		out["error"] = e
	} else if res, has := m["result"]; has {
		out["result"] = res
	} else {
		out["result"] = nil
	}
	b, err := json.Marshal(out)
	if err != nil {
		return message{}
	}
	return message{response: b}
}

// envelope is a request or notification in the form that jsonrpc2 reads.
// The id travels as a string that holds the raw id, so that it comes back
// unchanged; params stay outside because jsonrpc2 would encode them anew.
func (m message) envelope() ([]byte, error) {
	e := struct {
		Version string  `json:"jsonrpc"`
		ID      *string `json:"id,omitempty"`
		Method  string  `json:"method"`
	}{Version: "2.0", Method: m.method}
	if m.id != nil {
		id := string(m.id)
		e.ID = &id
	}
	return json.Marshal(e)
}

// encode returns the line for a message of jsonrpc2. Requests and
// notifications keep their numeric id; an answer's id is turned back into
// the raw id that envelope hid.
func encode(obj any) ([]byte, error) {
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	if m.Method == nil {
		var raw string
		if err := json.Unmarshal(m.ID, &raw); err != nil {
			return nil, fmt.Errorf("encode an answer: %w", err)
		}
		m.ID = json.RawMessage(raw)
	}
	out := make([]byte, 0, len(b)+16)
	out = append(out, `{"jsonrpc":"2.0"`...)
	for _, f := range []struct {
		name  string
		value json.RawMessage
	}{{"id", m.ID}, {"method", m.Method}, {"params", m.Params}, {"result", m.Result}, {"error", m.Error}} {
		if f.value == nil {
			continue
		}
		out = append(out, `,"`...)
		out = append(out, f.name...)
		out = append(out, `":`...)
		if f.name == "id" {
			out = append(out, f.value...)
		} else {
			out = appendPlain(out, f.value)
		}
	}
	return append(out, "}\n"...), nil
}

// appendPlain appends JSON without the escapes that encoding/json writes
// for the sake of HTML.
func appendPlain(dst, src []byte) []byte {
	for {
		i := bytes.IndexByte(src, '\\')
		if i < 0 || i+1 >= len(src) {
			return append(dst, src...)
		}
		dst = append(dst, src[:i]...)
		src = src[i:]
		if len(src) >= 6 {
			switch string(src[:6]) {
			case `\u003c`:
				dst, src = append(dst, '<'), src[6:]
				continue
			case `\u003e`:
				dst, src = append(dst, '>'), src[6:]
				continue
			case `\u0026`:
				dst, src = append(dst, '&'), src[6:]
				continue
			}
		}
		dst, src = append(dst, src[:2]...), src[2:]
	}
}
