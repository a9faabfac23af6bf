package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/session/config"
)

// batchLine is one line of check --batch.
type batchLine struct {
	ID        json.RawMessage `json:"id"`
	Command   *string         `json:"command"`
	Tool      *string         `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Server    *string         `json:"server"`
	Rung      *string         `json:"rung"`
	Approvals json.RawMessage `json:"approvals"`
	Cwd       *string         `json:"cwd"`
}

var batchKeys = []string{"id", "command", "tool", "arguments", "server", "rung", "approvals", "cwd"}

// batchError answers a line that cannot be read.
type batchError struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
}

// maxBatchLine bounds one line; a longer one is an error for that line only.
const maxBatchLine = 16 << 20

// batch answers every line; a bad one gets an error line and the exit code
// of a usage error at the end. Answers are held back only while more whole
// lines are there to be answered.
func (b *checker) batch(ctx context.Context, std stdio) error {
	in, out := bufio.NewReaderSize(awaited{ctx, std.in}, 64<<10), bufio.NewWriterSize(std.out, 64<<10)
	bad := 0
	skipMark(in)
	for n := 1; ; n++ {
		line, err := readLine(in, maxBatchLine)
		if err == io.EOF {
			break
		}
		if cause := context.Cause(ctx); cause != nil {
			return errors.Join(out.Flush(), cause)
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		answer, err := b.answer(line, n, err)
		if err != nil {
			bad++
		}
		err = writeJSON(out, answer)
		if err == nil && !lineWaits(in) {
			err = out.Flush()
		}
		if err != nil {
			return fmt.Errorf("check --batch: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("check --batch: %w", err)
	}
	if bad > 0 {
		return usage(fmt.Errorf("check --batch: %d lines could not be read: see their error lines", bad))
	}
	return nil
}

// skipMark drops a byte order mark, which some programs write first.
func skipMark(in *bufio.Reader) {
	if b, _ := in.Peek(3); string(b) == "\ufeff" {
		_, _ = in.Discard(3)
	}
}

func lineWaits(in *bufio.Reader) bool {
	b, _ := in.Peek(in.Buffered())
	return bytes.IndexByte(b, '\n') >= 0
}

// answer returns what is printed for line n, and why it is an error.
func (b *checker) answer(line []byte, n int, err error) (any, error) {
	var res checkResult
	id := json.RawMessage(`""`)
	if err == nil {
		res, id, err = b.line(line)
	}
	if err != nil {
		return batchError{ID: id, Error: fmt.Sprintf("line %d: %v", n, err)}, err
	}
	return res, nil
}

// readLine returns the next line without its end, skipping what is over
// limit bytes. io.EOF means that there is none.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if !long && len(line)+len(part) > limit {
			long, line = true, nil
		}
		if !long {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && err != io.EOF:
			return nil, err
		case long:
			return nil, fmt.Errorf("longer than %d bytes", limit)
		case err == io.EOF && len(line) == 0:
			return nil, io.EOF
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// line judges one line. The id is returned also with an error, where it can
// be read.
func (b *checker) line(raw []byte) (checkResult, json.RawMessage, error) {
	l, err := readBatchLine(raw)
	if err != nil {
		return checkResult{}, l.ID, err
	}
	call, err := l.call()
	if err != nil {
		return checkResult{}, l.ID, err
	}
	posture, place, err := b.stand(l)
	if err != nil {
		return checkResult{}, l.ID, err
	}
	res := b.call(call, posture, place)
	res.ID = l.ID
	return res, l.ID, nil
}

// readBatchLine is strict, because a line that two readers read differently
// would be judged as one of them and run as the other: keys are exact and
// not repeated, and text is text.
func readBatchLine(raw []byte) (batchLine, error) {
	none := json.RawMessage(`""`)
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(raw, &keys) // for the id, whatever else is wrong
	l := batchLine{ID: none}
	if id := keys["id"]; isID(id) {
		l.ID = id
	}
	if !strings.HasPrefix(string(bytes.TrimSpace(raw)), "{") {
		return l, errors.New(`not a JSON object: write {"id": "1", "command": "ls"}`)
	}
	if _, err := approvals.CanonicalArguments(raw); err != nil {
		return l, fmt.Errorf("not one JSON object that every reader reads alike: %w", err)
	}
	for key := range keys {
		if !slices.Contains(batchKeys, key) {
			return l, fmt.Errorf("key %q is unknown: use %s", key, strings.Join(batchKeys, ", "))
		}
	}
	for key, value := range keys {
		if string(value) == "null" {
			delete(keys, key) // as if it were not there
		}
	}
	if id, ok := keys["id"]; ok && !isID(id) {
		return l, errors.New("id is neither a string nor a number")
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return l, fmt.Errorf("%s must be a string, not %s", wrong.Field, wrong.Value)
		}
		return l, err
	}
	l.Arguments, l.Approvals = keys["arguments"], keys["approvals"]
	if keys["id"] == nil {
		l.ID = none
	}
	return l, nil
}

// isID reports whether v can name a line: a string or a number.
func isID(v json.RawMessage) bool {
	return len(v) > 0 && (v[0] == '"' || v[0] == '-' || v[0] >= '0' && v[0] <= '9')
}

func (l batchLine) call() (approvals.Call, error) {
	var none approvals.Call
	switch {
	case l.Command != nil && l.Tool != nil:
		return none, errors.New("command and tool are both given: use one")
	case l.Command != nil && (l.Arguments != nil || l.Server != nil):
		return none, errors.New("arguments and server belong to a tool: name it, or leave them out")
	case l.Command != nil:
		return shellCall(*l.Command), nil
	case l.Tool == nil:
		return none, errors.New("neither command nor tool is given")
	case *l.Tool == "":
		return none, errors.New("tool is empty: name it")
	case l.Server != nil && *l.Server == "":
		return none, errors.New("server is empty: name it, or leave it out")
	}
	args, err := approvals.CanonicalArguments(l.Arguments)
	if err != nil {
		return none, err
	}
	if l.Server == nil && *l.Tool == shellTool && !hasCommand(args) {
		return none, errors.New("arguments of run_shell_command need a command that is a string")
	}
	call := approvals.Call{Tool: *l.Tool, Arguments: args}
	if l.Server != nil {
		call.Server, call.Name, call.Tool = *l.Server, *l.Tool, "mcp__"+*l.Server+"__"+*l.Tool
	}
	return call, nil
}

func hasCommand(args json.RawMessage) bool {
	var members map[string]any
	if json.Unmarshal(args, &members) != nil {
		return false
	}
	_, ok := members["command"].(string)
	return ok
}

// stand applies the line's rung, rules and working directory to those of
// the command line.
func (b *checker) stand(l batchLine) (approvals.Posture, approvals.Place, error) {
	posture, place := b.posture, b.place
	if l.Approvals != nil {
		a, err := config.ParseApprovals(l.Approvals)
		if err != nil {
			return posture, place, err
		}
		if posture.Policy, err = approvals.Compile(approvals.Rules{Deny: a.Deny, Escalate: a.Escalate, Allow: a.Allow}); err != nil {
			return posture, place, err
		}
		if a.Mode != nil {
			posture.Rung = *a.Mode
		}
	}
	if l.Rung != nil {
		var err error
		if posture.Rung, err = approvals.ParseRung(*l.Rung); err != nil {
			return posture, place, err
		}
	}
	if l.Cwd != nil {
		if !filepath.IsAbs(*l.Cwd) {
			return posture, place, fmt.Errorf("cwd %q is relative: give an absolute path", *l.Cwd)
		}
		place.Cwd = filepath.Clean(*l.Cwd)
		place.Roots = []string{place.Cwd}
	}
	return posture, place, nil
}
