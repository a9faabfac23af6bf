// Package toolbox holds what a model can call: names, descriptions, schemas,
// the check of arguments, and the way from a checked call to its result.
//
// Guarantees: a call runs only what its [approvals.Reading] judged, which
// for the shell is the print of the judged tree; arguments are compared with
// the schema by the exact spelling of their keys; whatever a tool returns is
// a result, never an error of the turn. It does not decide whether a call
// may run: the caller asked the gate before, and checks again.
package toolbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cloudwego/eino/schema"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/tools/fsys"
	"github.com/gth-server/gth-server/runner/internal/tools/shell"
	"github.com/gth-server/gth-server/session"
)

// ShellName is the name of the shell tool.
const ShellName = "run_shell_command"

// MaxArguments bounds the arguments of one call in bytes.
const MaxArguments = 1 << 20

// Tool is one thing that the model can call.
type Tool struct {
	Name     string
	Kind     session.ToolKind
	ReadOnly bool // has no effect beside its result

	desc   string
	params map[string]*schema.ParameterInfo
	// prepare decodes arguments that have only known keys.
	prepare func(args json.RawMessage) (Prepared, error)
}

// Prepared is a call with decoded arguments.
type Prepared struct {
	Title     string
	Locations []session.Location
	Run       func(ctx context.Context, j Job) Outcome
}

// Job is what a running call gets beside its arguments.
type Job struct {
	CallID  string
	Reading *approvals.Reading
	Posture approvals.Posture
	Show    func(session.Event) // gets live events
}

// Outcome is what became of a call.
type Outcome struct {
	State  session.CallState
	Result string // for the model
	Diffs  []session.Diff
	Exit   *int // of commands
}

// Failed is the outcome of a call whose tool failed.
func Failed(text string) Outcome { return Outcome{State: session.CallFailed, Result: text} }

// Options say what the tools work with.
type Options struct {
	Cwd       string // where relative paths and commands start
	Files     *fsys.FS
	Engine    *shell.Engine // nil leaves the shell tool out
	Env       []string      // of commands
	Timeout   time.Duration // of a command, 0 is the engine's default
	MaxOutput int           // of a command in bytes, 0 is the engine's default
	SpillDir  string        // where long outputs are kept whole; empty keeps none
	Off       []string      // names of tools that are left out
}

// Box holds tools in the order in which the model sees them. Immutable.
type Box []*Tool

// New returns the tools that o has the means for.
func New(o Options) Box {
	var tools Box
	if o.Engine != nil {
		tools = append(tools, o.shell())
	}
	tools = append(tools, o.fileTools()...)
	return slices.DeleteFunc(tools, func(t *Tool) bool { return slices.Contains(o.Off, t.Name) })
}

// Find returns the tool of that name, or nil.
func (t Box) Find(name string) *Tool {
	for _, k := range t {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// Names lists the tools for a message.
func (t Box) Names() string {
	names := make([]string, len(t))
	for i, k := range t {
		names[i] = k.Name
	}
	return strings.Join(names, ", ")
}

// Infos describes the tools to the model, with a notice on those that are
// gated at rung. It is made from the plain descriptions each time, so a
// notice never stays behind when the rung changes.
func (t Box) Infos(rung approvals.Rung) []*schema.ToolInfo {
	out := make([]*schema.ToolInfo, len(t))
	for i, k := range t {
		desc := k.desc
		if approvals.Gated(k.Name, rung) {
			desc += notice(rung)
		}
		out[i] = &schema.ToolInfo{Name: k.Name, Desc: desc, ParamsOneOf: schema.NewParamsOneOfByParams(k.params)}
	}
	return out
}

// notice tells the model what calling a gated tool costs.
func notice(rung approvals.Rung) string {
	switch {
	case rung == approvals.Bypass:
		return ""
	case rung.Negotiating():
		return " A call may be refused by a reviewer; prefer tools without this remark where they do the job."
	case rung.Rated():
		return " A call that does not look safe needs the user's approval; prefer tools without this remark where they do the job."
	}
	return " A call needs the user's approval; prefer tools without this remark where they do the job."
}

// Check validates arguments as the model sent them and returns their
// canonical form. Its error is for the model. Keys are compared exactly:
// the decoder behind it would also take "Path" for "path", and the gate
// would have judged something else.
func (t *Tool) Check(raw string) (json.RawMessage, Prepared, error) {
	if strings.TrimSpace(raw) == "" {
		raw = "{}"
	}
	if len(raw) > MaxArguments {
		return nil, Prepared{}, fmt.Errorf("they have %d bytes and the limit is %d: do it in several calls", len(raw), MaxArguments)
	}
	args, err := approvals.CanonicalArguments(json.RawMessage(raw))
	if err != nil {
		return nil, Prepared{}, err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(args, &keys); err != nil || keys == nil {
		return nil, Prepared{}, fmt.Errorf("they are not one JSON object")
	}
	known := slices.Sorted(maps.Keys(t.params))
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if t.params[name] == nil {
			return nil, Prepared{}, fmt.Errorf("%.40q is no argument of it; its arguments are %s", name, strings.Join(known, ", "))
		}
	}
	for _, name := range known {
		if v, ok := keys[name]; t.params[name].Required && (!ok || bytes.Equal(v, []byte("null"))) {
			return nil, Prepared{}, fmt.Errorf("%q is missing", name)
		}
	}
	p, err := t.prepare(args)
	return args, p, err
}
