package shellscan

import (
	"mvdan.cc/sh/v3/syntax"
)

type walker struct {
	s    *Scan
	text string
}

type simpleCmd struct {
	args []value
}

func newWalker(s *Scan, text string) *walker { return &walker{s: s, text: text} }
func (w *walker) prepare(f *syntax.File)     {}
func (w *walker) stmts(st []*syntax.Stmt)    {}
func (w *walker) simple(c *simpleCmd)        {}
func (w *walker) finish(f *syntax.File)      {}
