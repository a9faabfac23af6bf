package scripted

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const maxScript = 1 << 20

// Script is a parsed file. Immutable.
type Script struct {
	Name  string
	Turns []Turn
}

// Turn is what the model answers to one prompt.
type Turn struct{ Steps []Step }

// Step is one answer of the model.
type Step struct {
	Text      string
	Reasoning string
	Calls     []Call
	Finish    string        // stop, tool_calls, length, content_filter
	Delay     time.Duration // before the answer begins
	Pace      time.Duration // between its pieces
	Cut       bool          // the stream ends before the finish reason
	Error     *Error        // instead of the answer
	Usage     Usage
}

// Call is a tool call. A nil ID gets one that names its place.
type Call struct {
	Tool      string
	Arguments string // JSON, or what stands in for it in a test
	ID        *string
}

// Error is a failure of the provider. Times 0 means each time.
type Error struct {
	Status     int
	Message    string
	RetryAfter time.Duration
	Times      int
}

// Usage counts tokens.
type Usage struct{ Input, Output int }

// at returns a step; past the end of a turn the model says that it is done.
func (s *Script) at(turn, step int) (*Step, error) {
	if turn >= len(s.Turns) {
		return nil, fmt.Errorf("script %s has %d turns and this is turn %d: add a turn", s.Name, len(s.Turns), turn+1)
	}
	steps := s.Turns[turn].Steps
	if step >= len(steps) {
		return &Step{Text: "The script ends here.", Finish: "stop"}, nil
	}
	return &steps[step], nil
}

// Parse reads a script. An error names file, line and what is wrong.
func Parse(name string, text []byte) (*Script, error) {
	if len(text) > maxScript {
		return nil, fmt.Errorf("%s: the script is larger than 1 MiB: split it", name)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	p := &parser{name: name}
	s := &Script{Name: name}
	if len(root.Content) == 1 {
		p.fields(root.Content[0], "script", map[string]func(*yaml.Node){
			"turns": func(n *yaml.Node) { p.list(n, "turns", func(n *yaml.Node) { s.Turns = append(s.Turns, p.turn(n)) }) },
		})
	}
	if p.err == nil && len(s.Turns) == 0 {
		p.err = fmt.Errorf("%s:1: the script has no turns: begin it with the key turns", name)
	}
	if p.err != nil {
		return nil, p.err
	}
	return s, nil
}

// parser keeps the first mistake.
type parser struct {
	name string
	err  error
}

func (p *parser) fail(n *yaml.Node, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s:%d: %s", p.name, n.Line, fmt.Sprintf(format, args...))
	}
}

// fields calls the function of each key of a mapping.
func (p *parser) fields(n *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		p.fail(n, "%s must be a mapping", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		set, ok := known[key.Value]
		switch {
		case !ok:
			names := make([]string, 0, len(known))
			for k := range known {
				names = append(names, k)
			}
			slices.Sort(names)
			p.fail(key, "%s has no key %q: use one of %s", what, key.Value, strings.Join(names, ", "))
		case seen[key.Value]:
			p.fail(key, "%s has the key %q twice", what, key.Value)
		default:
			set(n.Content[i+1])
		}
		seen[key.Value] = true
	}
}

func (p *parser) list(n *yaml.Node, what string, each func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		p.fail(n, "%s must be a list", what)
		return
	}
	for _, item := range n.Content {
		each(item)
	}
}

// turn is a list of steps, or a mapping with the key steps.
func (p *parser) turn(n *yaml.Node) (t Turn) {
	steps := func(n *yaml.Node) {
		p.list(n, "steps", func(n *yaml.Node) { t.Steps = append(t.Steps, p.step(n)) })
	}
	if n.Kind == yaml.SequenceNode {
		steps(n)
	} else {
		p.fields(n, "turn", map[string]func(*yaml.Node){"steps": steps})
	}
	if len(t.Steps) == 0 {
		p.fail(n, "a turn needs at least one step")
	}
	return t
}

func (p *parser) step(n *yaml.Node) (s Step) {
	p.fields(n, "step", map[string]func(*yaml.Node){
		"text":      func(n *yaml.Node) { s.Text = p.text(n) },
		"reasoning": func(n *yaml.Node) { s.Reasoning = p.text(n) },
		"finish":    func(n *yaml.Node) { s.Finish = p.text(n) },
		"delay":     func(n *yaml.Node) { s.Delay = p.duration(n) },
		"pace":      func(n *yaml.Node) { s.Pace = p.duration(n) },
		"cut":       func(n *yaml.Node) { s.Cut = p.text(n) == "true" },
		"calls":     func(n *yaml.Node) { p.list(n, "calls", func(n *yaml.Node) { s.Calls = append(s.Calls, p.call(n)) }) },
		"error":     func(n *yaml.Node) { s.Error = p.failure(n) },
		"usage": func(n *yaml.Node) {
			p.fields(n, "usage", map[string]func(*yaml.Node){
				"input":  func(n *yaml.Node) { s.Usage.Input = p.number(n) },
				"output": func(n *yaml.Node) { s.Usage.Output = p.number(n) },
			})
		},
	})
	if s.Finish == "" {
		s.Finish = "stop"
		if len(s.Calls) > 0 {
			s.Finish = "tool_calls"
		}
	}
	if !slices.Contains([]string{"stop", "tool_calls", "length", "content_filter"}, s.Finish) {
		p.fail(n, "finish %q is unknown: use stop, tool_calls, length or content_filter", s.Finish)
	}
	return s
}

func (p *parser) call(n *yaml.Node) (c Call) {
	c.Arguments = "{}"
	p.fields(n, "call", map[string]func(*yaml.Node){
		"tool": func(n *yaml.Node) { c.Tool = p.text(n) },
		"args": func(n *yaml.Node) { c.Arguments = p.json(n) },
		"raw":  func(n *yaml.Node) { c.Arguments = p.text(n) },
		"id": func(n *yaml.Node) {
			id := p.text(n)
			c.ID = &id
		},
	})
	if c.Tool == "" {
		p.fail(n, "a call needs the name of its tool")
	}
	return c
}

func (p *parser) failure(n *yaml.Node) *Error {
	e := &Error{}
	p.fields(n, "error", map[string]func(*yaml.Node){
		"status":     func(n *yaml.Node) { e.Status = p.number(n) },
		"message":    func(n *yaml.Node) { e.Message = p.text(n) },
		"retryAfter": func(n *yaml.Node) { e.RetryAfter = p.duration(n) },
		"times":      func(n *yaml.Node) { e.Times = p.number(n) },
	})
	if e.Status < 400 || e.Status > 599 {
		p.fail(n, "error status %d is no failure: use 400 to 599", e.Status)
	}
	return e
}

func (p *parser) text(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		p.fail(n, "a single value is expected here")
	}
	return n.Value
}

func (p *parser) number(n *yaml.Node) int {
	v, err := strconv.Atoi(p.text(n))
	if err != nil || v < 0 {
		p.fail(n, "%q is no whole number", n.Value)
	}
	return v
}

func (p *parser) duration(n *yaml.Node) time.Duration {
	d, err := time.ParseDuration(p.text(n))
	if err != nil || d < 0 {
		p.fail(n, "%q is no duration: write one like 200ms", n.Value)
	}
	return d
}

// json turns a YAML value into the JSON that a model would send.
func (p *parser) json(n *yaml.Node) string {
	var v any
	if err := n.Decode(&v); err != nil {
		p.fail(n, "args: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return ""
	}
	if _, ok := v.(map[string]any); !ok {
		p.fail(n, "args must be a mapping with text keys: use raw for anything else")
		return ""
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		p.fail(n, "args: %s", err)
	}
	return strings.TrimSpace(b.String())
}
