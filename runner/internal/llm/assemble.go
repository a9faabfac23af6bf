package llm

import (
	"encoding/json"
	"strings"

	"github.com/cloudwego/eino/schema"
)

// calls joins the pieces of tool calls of one streamed answer. Servers
// differ: some number the calls, some send index 0 for all, some no index
// and no id at all. A piece that fits no call begins a new one, so that two
// calls are never merged into one that neither asked for.
type calls struct {
	list []*call
}

type call struct {
	index *int
	id    string
	name  string
	args  strings.Builder
	extra map[string]any
}

func (c *calls) add(p schema.ToolCall) {
	k := c.find(p)
	if k == nil {
		k = &call{index: p.Index}
		c.list = append(c.list, k)
	}
	if k.id == "" {
		k.id = p.ID
	}
	if p.Function.Name != k.name {
		k.name += p.Function.Name
	}
	k.args.WriteString(p.Function.Arguments)
	for key, v := range p.Extra {
		if k.extra == nil {
			k.extra = map[string]any{}
		}
		k.extra[key] = v
	}
}

// find returns the call that p continues.
func (c *calls) find(p schema.ToolCall) *call {
	for i := len(c.list) - 1; i >= 0; i-- {
		k := c.list[i]
		if !sameIndex(k.index, p.Index) {
			continue
		}
		if p.ID != "" && k.id != "" && p.ID != k.id {
			return nil
		}
		// A name after whole arguments begins the next call of a server
		// that does not number them.
		if p.Function.Name != "" && p.ID == "" && json.Valid([]byte(k.args.String())) {
			return nil
		}
		if p.Index == nil && p.Function.Name != "" && p.Function.Name != k.name {
			return nil
		}
		return k
	}
	return nil
}

func sameIndex(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func (c *calls) message() []schema.ToolCall {
	var out []schema.ToolCall
	for _, k := range c.list {
		out = append(out, schema.ToolCall{
			ID: k.id, Type: "function", Extra: k.extra,
			Function: schema.FunctionCall{Name: k.name, Arguments: k.args.String()},
		})
	}
	return out
}
