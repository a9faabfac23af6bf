package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cloudwego/eino/schema"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/tools/fsys"
	"github.com/gth-server/gth-server/session"
)

const shellTool = "run_shell_command"

// maxArguments bounds the arguments of one call in bytes.
const maxArguments = 1 << 20

// tool is one thing that the model can call.
type tool struct {
	name     string
	desc     string
	params   map[string]*schema.ParameterInfo
	kind     session.ToolKind
	readOnly bool // has no effect beside its result
	// prepare decodes arguments that have only known keys.
	prepare func(args json.RawMessage) (prepared, error)
}

// prepared is a call with decoded arguments. Run reads nothing else.
type prepared struct {
	title     string
	locations []session.Location
	run       func(ctx context.Context, j job) outcome
}

// job is what a running call gets beside its arguments.
type job struct {
	callID  string
	reading *approvals.Reading
	posture approvals.Posture
	show    func(session.Event)
}

// outcome is what became of a call that ran.
type outcome struct {
	state   session.CallState
	result  string
	display string
	diffs   []session.Diff
	exit    *int
}

func failed(text string) outcome { return outcome{state: session.CallFailed, result: text} }

// toolbox holds the tools of a runner in the order the model sees them.
type toolbox []*tool

func newToolbox(r *Runner) toolbox {
	var tools toolbox
	if r.engine != nil {
		tools = append(tools, r.shellTool())
	}
	return append(tools,
		fileTool(r, "read_file", "Read", session.KindRead, true,
			"Reads a text file of the workspace. At most 2000 lines and 50 KiB are returned; use offset and limit, head, or tail for the rest of a long file.",
			map[string]*schema.ParameterInfo{
				"path":   text("Path of the file, relative to the working directory or absolute."),
				"offset": optional(schema.Integer, "First line to return, from 1."),
				"limit":  optional(schema.Integer, "Number of lines to return."),
				"head":   optional(schema.Integer, "Return only the first lines. Not together with other windows."),
				"tail":   optional(schema.Integer, "Return only the last lines. Not together with other windows."),
			}, func(a fsys.ReadArgs) string { return a.Path }, r.files.ReadFile),
		fileTool(r, "write_file", "Write", session.KindEdit, false,
			"Creates a file of the workspace or replaces its whole content. Missing parent directories are made. Use edit_file to change a part of a file.",
			map[string]*schema.ParameterInfo{
				"path":    text("Path of the file."),
				"content": text("The whole new content."),
			}, func(a fsys.WriteArgs) string { return a.Path }, r.files.WriteFile),
		fileTool(r, "edit_file", "Edit", session.KindEdit, false,
			"Replaces passages of a text file: all of them or, if one does not fit, none. Each oldText must occur exactly once unless replaceAll is set; give enough of the surrounding lines.",
			map[string]*schema.ParameterInfo{
				"path": text("Path of the file."),
				"edits": {Type: schema.Array, Required: true, Desc: "The replacements, made in order.", ElemInfo: &schema.ParameterInfo{
					Type: schema.Object, SubParams: map[string]*schema.ParameterInfo{
						"oldText":    text("The passage to replace, exactly as it stands in the file."),
						"newText":    text("What stands there afterwards."),
						"replaceAll": optional(schema.Boolean, "Replace every occurrence."),
					},
				}},
				"dryRun": optional(schema.Boolean, "Only show what would change."),
			}, func(a fsys.EditArgs) string { return a.Path }, r.files.EditFile),
		fileTool(r, "list_directory", "List", session.KindSearch, true,
			"Lists the entries of a directory of the workspace, sorted by name.",
			map[string]*schema.ParameterInfo{"path": text("Path of the directory; . is the working directory.")},
			func(a fsys.ListArgs) string { return a.Path }, r.files.ListDirectory),
	)
}

func text(desc string) *schema.ParameterInfo {
	return &schema.ParameterInfo{Type: schema.String, Desc: desc, Required: true}
}

func optional(t schema.DataType, desc string) *schema.ParameterInfo {
	return &schema.ParameterInfo{Type: t, Desc: desc}
}

// fileTool makes a tool of a method of the file tools.
func fileTool[A any](r *Runner, name, verb string, kind session.ToolKind, readOnly bool, desc string,
	params map[string]*schema.ParameterInfo, path func(A) string, run func(context.Context, A) (fsys.Result, error),
) *tool {
	return &tool{name: name, desc: desc, params: params, kind: kind, readOnly: readOnly, prepare: func(args json.RawMessage) (prepared, error) {
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return prepared{}, err
		}
		p := prepared{title: verb + " " + path(a), locations: r.locate(path(a))}
		p.run = func(ctx context.Context, _ job) outcome {
			res, err := run(ctx, a)
			if err != nil {
				return failed(err.Error())
			}
			out := outcome{state: session.CallCompleted, result: res.Text}
			for _, d := range res.Diffs {
				out.diffs = append(out.diffs, session.Diff(d))
			}
			return out
		}
		return p, nil
	}}
}

// locate gives clients the absolute path of a file that a call names.
func (r *Runner) locate(path string) []session.Location {
	path = strings.TrimSpace(path)
	if path == "" || strings.ContainsRune(path, 0) {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.o.Place.Cwd, path)
	}
	return []session.Location{{Path: filepath.Clean(path)}}
}

func (t toolbox) find(name string) *tool {
	for _, k := range t {
		if k.name == name {
			return k
		}
	}
	return nil
}

func (t toolbox) names() string {
	names := make([]string, len(t))
	for i, k := range t {
		names[i] = k.name
	}
	return strings.Join(names, ", ")
}

// infos describes the tools to the model, with a notice on those that are
// gated at rung. It is made from the plain descriptions each time, so a
// notice never stays behind when the rung changes.
func (t toolbox) infos(rung approvals.Rung) []*schema.ToolInfo {
	out := make([]*schema.ToolInfo, len(t))
	for i, k := range t {
		desc := k.desc
		if approvals.Gated(k.name, rung) {
			desc += notice(rung)
		}
		out[i] = &schema.ToolInfo{Name: k.name, Desc: desc, ParamsOneOf: schema.NewParamsOneOfByParams(k.params)}
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

// check validates arguments as the model sent them and returns their
// canonical form. Its error is for the model. Keys are compared exactly:
// the decoder behind it would also take "Path" for "path", and the gate
// would have judged something else.
func (t *tool) check(raw string) (json.RawMessage, prepared, error) {
	if strings.TrimSpace(raw) == "" {
		raw = "{}"
	}
	if len(raw) > maxArguments {
		return nil, prepared{}, fmt.Errorf("they have %d bytes and the limit is %d: do it in several calls", len(raw), maxArguments)
	}
	args, err := approvals.CanonicalArguments(json.RawMessage(raw))
	if err != nil {
		return nil, prepared{}, err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(args, &keys); err != nil || keys == nil {
		return nil, prepared{}, fmt.Errorf("they are not one JSON object")
	}
	known := slices.Sorted(maps.Keys(t.params))
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if t.params[name] == nil {
			return nil, prepared{}, fmt.Errorf("%.40q is no argument of it; its arguments are %s", name, strings.Join(known, ", "))
		}
	}
	for _, name := range known {
		if v, ok := keys[name]; t.params[name].Required && (!ok || bytes.Equal(v, []byte("null"))) {
			return nil, prepared{}, fmt.Errorf("%q is missing", name)
		}
	}
	p, err := t.prepare(args)
	return args, p, err
}
