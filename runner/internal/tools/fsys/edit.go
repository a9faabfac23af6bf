package fsys

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

const (
	maxEdits       = 200
	maxDiffText    = 50 << 10 // of the diff in a result
	diffContext    = 3        // unchanged lines around a change
	linesMentioned = 8        // line numbers that an error names
)

// EditFile replaces passages of a text file: all edits in their order, or
// none. The rest of the file keeps every byte, line ends included.
func (f *FS) EditFile(ctx context.Context, a EditArgs) (Result, error) {
	if len(a.Edits) == 0 || len(a.Edits) > maxEdits {
		return Result{}, fmt.Errorf("edit_file got %d edits: give between 1 and %d", len(a.Edits), maxEdits)
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	s, err := f.resolveForWrite(ctx, a.Path)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	old, err := f.readWhole(ctx, s, maxEditBytes)
	if err != nil {
		return Result{}, err
	}
	name := f.show(s.abs)
	if what := binary([]byte(old[:min(len(old), probe)])); what != "" {
		return Result{}, errBinary(name, what, s.info.Size())
	}
	text, count, err := applyEdits(ctx, name, old, a.Edits)
	if err != nil {
		return Result{}, err
	}
	diff, err := unifiedDiff(name, old, text)
	if err != nil {
		return Result{}, err
	}
	if a.DryRun {
		return Result{Text: fmt.Sprintf("Dry run, %s was not changed. It would get %s:\n%s", name, plural(count, "replacement"), diff)}, nil
	}
	if err := f.replace(ctx, s, text); err != nil {
		return Result{}, err
	}
	res := Result{Text: fmt.Sprintf("Changed %s, %s:\n%s", name, plural(count, "replacement"), diff)}
	if len(old) <= maxDiffBytes {
		res.Diffs = []Diff{{Path: s.abs, Old: &old, New: text}}
	}
	return res, nil
}

// applyEdits returns the new text and how many places were replaced.
func applyEdits(ctx context.Context, name, text string, edits []Edit) (string, int, error) {
	old, count := text, 0
	for i, e := range edits {
		if err := ctx.Err(); err != nil {
			return "", 0, err
		}
		next, n, err := applyEdit(text, e)
		if err != nil {
			return "", 0, fmt.Errorf("edit %d of %d in %s: %w (no edit was made)", i+1, len(edits), name, err)
		}
		if text, count = next, count+n; len(text) > maxEditBytes {
			return "", 0, errTooBig(name, int64(len(text)), maxEditBytes)
		}
	}
	if text == old {
		return "", 0, fmt.Errorf("the edits leave %s as it is: check oldText and newText", name)
	}
	return text, count, nil
}

func applyEdit(text string, e Edit) (string, int, error) {
	doc := newDocument(text)
	oldText, newText := unifyLineEnds(e.OldText), unifyLineEnds(e.NewText)
	switch oldText {
	case "":
		return "", 0, errors.New("oldText is empty: give the text to replace, or use write_file for the whole file")
	case newText:
		return "", 0, errors.New("oldText and newText are equal: give the text that should stand there afterwards")
	}
	found := doc.find(oldText, newText, e.ReplaceAll)
	if len(found) == 0 {
		found = doc.findTrimmed(oldText, newText, e.ReplaceAll)
	}
	switch {
	case len(found) == 0:
		return "", 0, fmt.Errorf("oldText was not found%s: read the file again and copy the passage exactly", doc.hint(oldText))
	case len(found) > 1 && !e.ReplaceAll:
		least := ""
		if len(found) == maxFound {
			least = "at least "
		}
		return "", 0, fmt.Errorf("oldText occurs %s%d times (%s): add lines around it until it is unique, or set replaceAll", least, len(found), doc.lines(found))
	}
	if len(found) > maxReplaced {
		return "", 0, fmt.Errorf("oldText occurs more than %d times: use a program for so many replacements", maxReplaced)
	}
	if e.ReplaceAll {
		found = withoutOverlap(found)
	}
	if size := int64(len(text)) + int64(len(found))*int64(len(newText)); size > 2*maxEditBytes {
		return "", 0, fmt.Errorf("the result would have about %d bytes: make the edit smaller", size)
	}
	return doc.replace(found), len(found), nil
}

// unifiedDiff shows the change with plain line ends, within bounds.
func unifiedDiff(name, before, after string) (string, error) {
	before, after = unifyLineEnds(before), unifyLineEnds(after)
	diff, err := udiff.ToUnified(name, name, before, udiff.Lines(before, after), diffContext)
	if err != nil {
		return "", fmt.Errorf("compare the versions of %s: %w", name, err)
	}
	diff = strings.ReplaceAll(strings.ToValidUTF8(diff, "\ufffd"), "\x00", "\ufffd")
	if len(diff) <= maxDiffText {
		return diff, nil
	}
	cut := cutText(diff, maxDiffText)
	return cut[:strings.LastIndexByte(cut, '\n')+1] + "[The diff goes on.]\n", nil
}
