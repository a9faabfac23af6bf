package runnertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

type object = map[string]any

// whole is an answer that is not streamed.
func (s *Server) whole(req Request, reply Reply) object {
	msg := object{"role": "assistant", "content": reply.text()}
	if reply.Reasoning != "" {
		msg["reasoning_content"] = reply.Reasoning
	}
	var calls []object
	for _, c := range reply.Calls {
		calls = append(calls, object{"id": s.id(c), "type": "function", "function": object{"name": c.Tool, "arguments": c.arguments()}})
	}
	if calls != nil {
		msg["tool_calls"] = calls
	}
	out := object{
		"id": "chatcmpl-fake", "object": "chat.completion", "model": req.Model,
		"choices": []object{{"index": 0, "message": msg, "finish_reason": reply.finish()}},
	}
	if reply.Usage != nil {
		out["usage"] = reply.Usage.wire()
	}
	return out
}

func (r Reply) text() string {
	if r.Chunks != nil {
		return strings.Join(r.Chunks, "")
	}
	return r.Text
}

func (u Usage) wire() object {
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.Cached},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

// pieces are the deltas of an answer before its finish reason.
func (s *Server) pieces(reply Reply) []object {
	var out []object
	for _, w := range strings.SplitAfter(reply.Reasoning, " ") {
		if w != "" {
			out = append(out, object{"reasoning_content": w})
		}
	}
	chunks := reply.Chunks
	if chunks == nil {
		chunks = strings.SplitAfter(reply.Text, " ")
	}
	for _, w := range chunks {
		if w != "" {
			out = append(out, object{"content": w})
		}
	}
	for i, c := range reply.Calls {
		if c.Index != nil {
			i = *c.Index
		}
		args := c.arguments()
		half := len(args) / 2
		out = append(out,
			object{"tool_calls": []object{{"index": i, "id": s.id(c), "type": "function", "function": object{"name": c.Tool, "arguments": args[:half]}}}},
			object{"tool_calls": []object{{"index": i, "function": object{"arguments": args[half:]}}}})
	}
	return out
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, req Request, reply Reply, cut int) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	send := func(choices []object, extra object) {
		chunk := object{"id": "chatcmpl-fake", "object": "chat.completion.chunk", "model": req.Model, "choices": choices}
		for k, v := range extra {
			chunk[k] = v
		}
		raw, _ := json.Marshal(chunk)
		fmt.Fprintf(w, "data: %s\n\n", raw)
		_ = flush.Flush()
	}
	delta := func(d object, finish any) []object {
		return []object{{"index": 0, "delta": d, "finish_reason": finish}}
	}
	send(delta(object{"role": "assistant", "content": ""}, nil), nil)
	for i, p := range s.pieces(reply) {
		if cut > 0 && i == cut {
			panic(http.ErrAbortHandler)
		}
		if i > 0 && !s.sleep(r, reply.Pace) {
			return
		}
		send(delta(p, nil), nil)
	}
	if reply.Hang {
		select {
		case <-r.Context().Done():
		case <-s.closing:
		}
		return
	}
	if cut != 0 {
		panic(http.ErrAbortHandler)
	}
	if finish := reply.finish(); finish != "" {
		send(delta(object{}, finish), nil)
	}
	if reply.Usage != nil {
		send([]object{}, object{"usage": reply.Usage.wire()})
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
	_ = flush.Flush()
}
