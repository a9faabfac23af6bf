package shellscan

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// PrintOptions say how the printed script reaches the checker.
type PrintOptions struct {
	// Function and Redirect name the guards of the prelude. The print calls
	// Function, Function_x for a background job, Function_q for a builtin
	// that must run in its own scope, and Redirect with write, read or dup;
	// the variable Function_p holds the prelude for a bash within.
	Function, Redirect string
	// Guard reports whether rules name a program; it is then guarded when
	// one of its words is not static. Nil means that none is named.
	Guard func(program string) bool
	// Nested tells that the text becomes code within a running script.
	Nested bool
}

// Print returns the tree as text for bash, without comments, with a guard
// before every command and redirect whose words are known only at run time
// as far as they matter. The scan is not changed. The error names what
// cannot be run as it was judged, or cannot be guarded.
func (s *Scan) Print(o PrintOptions) (string, error) {
	if s.file == nil {
		return "", errors.New("there is no tree to run: the text was not read as bash")
	}
	g := &guarder{opts: o, words: &s.words, read: new(int)}
	if o.Nested {
		g.depth, g.moves = 1, true
	}
	text, err := g.script(s.file)
	if err != nil {
		return "", fmt.Errorf("this script cannot be run: %w", err)
	}
	return text, nil
}

// ExtGlob reports whether bash must be started with extended globs to read
// the print as the tree was read.
func (s *Scan) ExtGlob() bool {
	found := false
	if s.file != nil {
		syntax.Walk(s.file, func(n syntax.Node) bool {
			if _, ok := n.(*syntax.ExtGlob); ok {
				found = true
			}
			return !found
		})
	}
	return found
}

// script rewrites a copy of file and prints it.
func (g *guarder) script(file *syntax.File) (string, error) {
	tree := cloneFile(file)
	if err := g.rewrite(tree); err != nil {
		return "", err
	}
	return printChecked(tree)
}

// printChecked prints a tree and makes sure that the text means that tree.
func printChecked(tree *syntax.File) (string, error) {
	text, err := printLines(tree)
	if err != nil {
		return "", fmt.Errorf("its tree does not print: %w", err)
	}
	again, err := parseTree(text)
	if err != nil {
		return "", fmt.Errorf("its print does not parse again (%w): write it more plainly", err)
	}
	if where := treeDiff(tree, again); where != "" {
		return "", fmt.Errorf("its print does not parse back to the same tree (%s): write it more plainly", where)
	}
	return text, nil
}

// printLines prints the statements of a tree on the lines where they stood,
// so that bash's messages and LINENO name the lines that were written. The
// printer itself gives each statement a line of its own.
func printLines(tree *syntax.File) (string, error) {
	var b strings.Builder
	line := uint(1)
	printer := syntax.NewPrinter()
	for i, st := range tree.Stmts {
		var one strings.Builder
		if err := printer.Print(&one, &syntax.File{Stmts: []*syntax.Stmt{st}}); err != nil {
			return "", err
		}
		text := strings.TrimRight(one.String(), "\n")
		if i > 0 {
			last := tree.Stmts[i-1]
			if st.Pos().Line() > line || last.Background || multiline(last) || multiline(st) {
				b.WriteByte('\n')
				line++
			} else {
				b.WriteString("; ")
			}
		}
		for ; line < st.Pos().Line() && line < maxLines; line++ {
			b.WriteByte('\n')
		}
		b.WriteString(text)
		line += uint(strings.Count(text, "\n"))
	}
	return b.String(), nil
}

// maxLines bounds the blank lines of a print.
const maxLines = 1000

// multiline reports whether a statement must stand on lines of its own,
// because of a here-document or because it was written on several.
func multiline(st *syntax.Stmt) bool {
	if st.Pos().Line() != st.End().Line() {
		return true
	}
	found := false
	syntax.Walk(st, func(n syntax.Node) bool {
		if r, ok := n.(*syntax.Redirect); ok && (r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc) {
			found = true
		}
		return !found
	})
	return found
}
