package toolbox

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/cloudwego/eino/schema"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/tools/fsys"
	"github.com/gth-server/gth-server/session"
)

func (o Options) fileTools() []*Tool {
	return []*Tool{
		fileTool(o, "read_file", "Read", session.KindRead, true,
			"Reads a text file of the workspace. At most 2000 lines and 50 KiB are returned; use offset and limit, head, or tail for the rest of a long file.",
			map[string]*schema.ParameterInfo{
				"path":   text("Path of the file, relative to the working directory or absolute."),
				"offset": optional(schema.Integer, "First line to return, from 1."),
				"limit":  optional(schema.Integer, "Number of lines to return."),
				"head":   optional(schema.Integer, "Return only the first lines. Not together with other windows."),
				"tail":   optional(schema.Integer, "Return only the last lines. Not together with other windows."),
			}, func(a fsys.ReadArgs) string { return a.Path }, o.Files.ReadFile),
		fileTool(o, "write_file", "Write", session.KindEdit, false,
			"Creates a file of the workspace or replaces its whole content. Missing parent directories are made. Use edit_file to change a part of a file.",
			map[string]*schema.ParameterInfo{
				"path":    text("Path of the file."),
				"content": text("The whole new content."),
			}, func(a fsys.WriteArgs) string { return a.Path }, o.Files.WriteFile),
		fileTool(o, "edit_file", "Edit", session.KindEdit, false,
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
			}, func(a fsys.EditArgs) string { return a.Path }, o.Files.EditFile),
		fileTool(o, "list_directory", "List", session.KindSearch, true,
			"Lists the entries of a directory of the workspace, sorted by name.",
			map[string]*schema.ParameterInfo{"path": text("Path of the directory; . is the working directory.")},
			func(a fsys.ListArgs) string { return a.Path }, o.Files.ListDirectory),
	}
}

func text(desc string) *schema.ParameterInfo {
	return &schema.ParameterInfo{Type: schema.String, Desc: desc, Required: true}
}

func optional(t schema.DataType, desc string) *schema.ParameterInfo {
	return &schema.ParameterInfo{Type: t, Desc: desc}
}

// fileTool makes a tool of a method of the file tools.
func fileTool[A any](o Options, name, verb string, kind session.ToolKind, readOnly bool, desc string,
	params map[string]*schema.ParameterInfo, path func(A) string, run func(context.Context, A) (fsys.Result, error),
) *Tool {
	return &Tool{Name: name, desc: desc, params: params, Kind: kind, ReadOnly: readOnly, prepare: func(args json.RawMessage) (Prepared, error) {
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return Prepared{}, err
		}
		p := Prepared{Title: verb + " " + path(a), Locations: o.locate(path(a))}
		p.Run = func(ctx context.Context, _ Job) Outcome {
			res, err := run(ctx, a)
			if err != nil {
				return Failed(err.Error())
			}
			out := Outcome{State: session.CallCompleted, Result: res.Text}
			for _, d := range res.Diffs {
				out.Diffs = append(out.Diffs, session.Diff(d))
			}
			return out
		}
		return p, nil
	}}
}

// locate gives clients the absolute path of a file that a call names.
func (o Options) locate(path string) []session.Location {
	path = approvals.ToolPath(path)
	if path == "" || strings.ContainsRune(path, 0) {
		return nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.Cwd, path)
	}
	return []session.Location{{Path: filepath.Clean(path)}}
}
