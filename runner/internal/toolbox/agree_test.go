package toolbox

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/runner/internal/tools/fsys"
)

// TestGateAndToolsAgree: the path that the gate judges is the one that the
// tool works on, however a model dresses it up.
func TestGateAndToolsAgree(t *testing.T) {
	spellings := []string{
		"a.txt", " a.txt", "a.txt \t", "'a.txt'", `"a.txt"`, "`a.txt`", " 'a.txt' ", "' a.txt'", `"'a.txt'"`, "'a.txt", "'",
		"./sub/../a.txt", "sub//a.txt", "~", "~/a.txt", "$HOME/a.txt", "%41.txt", "a\u00a0", "\u2003a.txt", "file:a.txt", "-", "'.git/hooks/pre-commit'",
	}
	dir := t.TempDir()
	files, err := fsys.Open(fsys.Options{Roots: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	ran := 0
	for _, path := range spellings {
		args, err := json.Marshal(fsys.WriteArgs{Path: path, Content: path})
		if err != nil {
			t.Fatal(err)
		}
		args, err = approvals.CanonicalArguments(args)
		if err != nil {
			t.Fatal(err)
		}
		reading := approvals.Read(approvals.Call{Tool: "write_file", Arguments: args}, approvals.Place{Cwd: dir, Roots: []string{dir}})
		res, err := files.WriteFile(t.Context(), fsys.WriteArgs{Path: path, Content: path})
		if err != nil {
			continue // the tool took no path at all
		}
		ran++
		judged := map[string]bool{}
		for _, e := range reading.Effects() {
			if filepath.IsAbs(e.Path) {
				judged[filepath.Clean(e.Path)] = true
			} else {
				judged[filepath.Join(dir, e.Path)] = true
			}
		}
		if !judged[res.Diffs[0].Path] {
			t.Errorf("%q: the tool wrote %s, the gate judged %v", path, res.Diffs[0].Path, judged)
		}
	}
	if ran < 15 {
		t.Errorf("only %d spellings were written", ran)
	}
	t.Logf("%d cases", ran)
}
