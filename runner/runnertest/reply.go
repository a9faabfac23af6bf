package runnertest

import "encoding/json"

// Reply is one answer. The zero value is an empty answer that finishes with
// stop. All times are in milliseconds.
type Reply struct {
	Text      string   `json:"text,omitempty"`
	Chunks    []string `json:"chunks,omitempty"` // the text in pieces, instead of Text
	Reasoning string   `json:"reasoning,omitempty"`
	Calls     []Call   `json:"calls,omitempty"`
	Finish    string   `json:"finish,omitempty"` // default stop, or tool_calls with Calls; "none" sends none
	Usage     *Usage   `json:"usage,omitempty"`
	Delay     int      `json:"delay,omitempty"` // before the answer begins
	Pace      int      `json:"pace,omitempty"`  // between pieces

	// Status fails the request instead, Times times (0 is always), with
	// the Retry-After header when it is set.
	Status     int    `json:"status,omitempty"`
	Times      int    `json:"times,omitempty"`
	RetryAfter string `json:"retryAfter,omitempty"`
	Message    string `json:"message,omitempty"`

	// Cut drops the connection behind that many pieces of a stream, counted
	// over reasoning, text and halves of calls; -1 behind the last one,
	// before the finish reason. CutTimes bounds how often, 0 is always.
	Cut      int `json:"cut,omitempty"`
	CutTimes int `json:"cutTimes,omitempty"`
	// Hang keeps the connection open and silent behind the pieces, until
	// the client leaves or the server closes.
	Hang bool `json:"hang,omitempty"`
}

// Call is a tool call of an answer.
type Call struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"` // default {}
	Raw  string          `json:"raw,omitempty"`  // instead of Args, as it is: for malformed arguments
	// ID is the call's id; nil numbers the calls of all requests. Empty
	// and duplicate ids are sent as they are.
	ID *string `json:"id,omitempty"`
	// Index is the number in a stream; nil is the place in Calls.
	Index *int `json:"index,omitempty"`
}

// Usage is the count of tokens that an answer reports.
type Usage struct {
	Input     int `json:"input"`
	Output    int `json:"output"`
	Cached    int `json:"cached,omitempty"`
	Reasoning int `json:"reasoning,omitempty"`
}

// NewCall returns a call of tool with args as its arguments.
func NewCall(tool string, args any) Call {
	raw, err := json.Marshal(args)
	if err != nil {
		raw = json.RawMessage("{}")
	}
	return Call{Tool: tool, Args: raw}
}

// Shell returns a call of run_shell_command.
func Shell(command string) Call {
	return NewCall("run_shell_command", map[string]string{"command": command})
}

func (c Call) arguments() string {
	if c.Raw != "" {
		return c.Raw
	}
	if len(c.Args) == 0 {
		return "{}"
	}
	return string(c.Args)
}

func (r Reply) finish() string {
	switch {
	case r.Finish == "none":
		return ""
	case r.Finish != "":
		return r.Finish
	case len(r.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

// Message is a message of a request.
type Message struct {
	Role             string     `json:"role"`
	Content          string     `json:"-"`
	RawContent       any        `json:"content"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	ToolCallID       string     `json:"tool_call_id,omitempty"`
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
}

// ToolCall is a call as a request repeats it.
type ToolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Request is a request that the server got.
type Request struct {
	Model    string    `json:"model"`
	Stream   bool      `json:"stream"`
	Messages []Message `json:"messages"`
	Tools    []struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Key         string `json:"-"` // bearer token
	Traceparent string `json:"-"`
}

// Prompt returns the last user message and the number of assistant messages
// behind it.
func (r Request) Prompt() (prompt string, step int) {
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			prompt, step = m.Content, 0
		case "assistant":
			step++
		}
	}
	return prompt, step
}

// Results returns the contents of the tool messages behind the last user
// message, in order.
func (r Request) Results() []string {
	var out []string
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			out = nil
		case "tool":
			out = append(out, m.Content)
		}
	}
	return out
}
