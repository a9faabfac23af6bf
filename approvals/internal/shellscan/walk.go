package shellscan

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// walker reads one text, and the scripts within it, into a Scan.
type walker struct {
	s    *Scan
	r    *resolver
	text string // that positions refer to
	at   int    // for a script within the text: offset of the word that holds it, else -1

	depth  int // of scripts within scripts
	braces int // words that brace expansion may still make
	nested int // bytes of scripts that may still be read

	facts    facts
	dirs     []string // directories that relative paths may start from, nil when unknown
	cmds     int      // simple commands so far
	flow     flow     // the pipeline that is being read
	flows    int      // pipelines so far
	records  []record
	bombs    map[string]bool // functions that run themselves twice at once
	inBomb   bool
	tainted  bool // an earlier assignment makes later programs run other code
	flags    flag // of all words
	wraps    []wrap
	codeNext bool         // assignments before the command make it run other code
	host     *syntax.Word // word that holds the substitution being read
	input    bool         // words are appended from input (xargs, find -exec … +)
}

// flow places a command in a pipeline, for questions about what reaches
// what. Commands within a substitution have the place of their host.
type flow struct {
	id    int
	stage int
	held  bool // inside a pipeline, substitution or redirected block
}

// wrap is a wrapper being peeled.
type wrap struct {
	name     string
	elevated bool
}

// record is a simple command after peeling, kept for the floor.
type record struct {
	name   string // table name of the program, "" when not static
	args   []value
	redirs []redir
	dirs   []string
	flow   flow
	inBomb bool         // within such a function
	host   *syntax.Word // word of the outer command that it stands in
	pos    int
}

// redir is a redirection with its values.
type redir struct {
	op     syntax.RedirOperator
	fd     string
	target value
	body   string // here-document or here-string
	known  bool   // body is known
	pos    int
}

// simpleCmd is a simple command before peeling.
type simpleCmd struct {
	call   *syntax.CallExpr
	args   []value
	redirs []redir
	pos    int
}

func newWalker(s *Scan, text string) *walker {
	return &walker{
		s: s, r: &s.words, text: text, at: -1, braces: maxExpand, nested: maxNested,
		dirs: startDirs,
	}
}

var startDirs = []string{""}

func (w *walker) pos(n syntax.Node) int {
	if w.at >= 0 {
		return w.at
	}
	return int(n.Pos().Offset())
}

// source returns a node as written.
func (w *walker) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from < 0 || to > len(w.text) || from > to {
		return ""
	}
	return w.text[from:to]
}

func mechanism(name, text string, pos int) effect.Mechanism {
	if len(text) > maxSnippet {
		text = text[:maxSnippet]
	}
	return effect.Mechanism{Name: name, Text: text, Pos: pos}
}

func (w *walker) unresolved(name, text string, pos int) {
	for _, m := range w.s.Unresolved {
		if m.Name == name && m.Pos == pos {
			return
		}
	}
	w.s.Unresolved = append(w.s.Unresolved, mechanism(name, text, pos))
}

func (w *walker) hiding(name, text string, pos int) {
	for _, m := range w.s.Hiding {
		if m.Name == name {
			return
		}
	}
	w.s.Hiding = append(w.s.Hiding, mechanism(name, text, pos))
}

// stmts reads a list. A statement that changes directory may fail, so
// what follows it starts from either place.
func (w *walker) stmts(list []*syntax.Stmt) {
	for _, st := range list {
		before := w.dirs
		w.stmt(st)
		w.dirs = either(before, w.dirs)
	}
}

const maxDirs = 4

// either joins two sets of directories.
func either(a, b []string) []string {
	if len(a) > 0 && len(b) > 0 && &a[0] == &b[0] && len(a) == len(b) {
		return a
	}
	if a == nil || b == nil {
		return nil
	}
	out := slices.Clone(a)
	for _, d := range b {
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	if len(out) > maxDirs {
		return nil
	}
	return out
}

func (w *walker) stmt(st *syntax.Stmt) {
	if st == nil {
		return
	}
	outer := w.flow
	if !w.flow.held {
		w.flows++
		w.flow = flow{id: w.flows}
	}
	if call, ok := st.Cmd.(*syntax.CallExpr); ok {
		w.call(call, st)
	} else {
		w.compound(st)
	}
	w.flow = outer
}

// compound reads a statement that is no simple command: its redirections
// first, as they hold for all inside, then its parts.
func (w *walker) compound(st *syntax.Stmt) {
	redirs := w.redirects(st.Redirs)
	if len(redirs) > 0 {
		w.flow.held = true
		w.redirectEffects(redirs, w.cmds)
		w.record(record{redirs: redirs})
	}
	before := w.dirs
	switch c := st.Cmd.(type) {
	case nil:
	case *syntax.BinaryCmd:
		w.binary(c)
	case *syntax.Subshell:
		w.list(c.Stmts, len(redirs) > 0)
		w.dirs = before
	case *syntax.Block:
		w.list(c.Stmts, len(redirs) > 0)
	default:
		w.loops(c)
		w.dirs = either(before, w.dirs)
	}
	if st.Background {
		w.dirs = before
	}
	w.redirectInner(st.Redirs)
}

// list reads the statements of a block; unless the block is part of a
// pipeline each of them is one of its own.
func (w *walker) list(list []*syntax.Stmt, held bool) {
	keep := w.flow
	w.flow.held = keep.held || held
	w.stmts(list)
	w.flow = keep
}

func (w *walker) binary(b *syntax.BinaryCmd) {
	if b.Op == syntax.Pipe || b.Op == syntax.PipeAll {
		w.pipeline(b)
		return
	}
	before := w.dirs
	w.stmt(b.X)
	if b.Op == syntax.OrStmt {
		w.dirs = either(before, w.dirs)
		before = w.dirs
	}
	w.stmt(b.Y)
	if b.Op == syntax.OrStmt {
		w.dirs = either(before, w.dirs)
	}
}

// pipeline reads the stages of a pipe, each in a subshell of its own.
func (w *walker) pipeline(b *syntax.BinaryCmd) {
	var stages []*syntax.Stmt
	var flatten func(st *syntax.Stmt)
	flatten = func(st *syntax.Stmt) {
		if p, ok := st.Cmd.(*syntax.BinaryCmd); ok && (p.Op == syntax.Pipe || p.Op == syntax.PipeAll) && len(st.Redirs) == 0 {
			flatten(p.X)
			flatten(p.Y)
			return
		}
		stages = append(stages, st)
	}
	flatten(b.X)
	flatten(b.Y)
	before, keep := w.dirs, w.flow
	for i, st := range stages {
		w.flow = keep
		if !keep.held {
			w.flow.stage = i
		}
		w.flow.held = true
		if i > 0 {
			if _, ok := st.Cmd.(*syntax.TimeClause); ok {
				w.hiding("time-in-pipeline", w.source(st), w.pos(st))
			}
		}
		w.dirs = before
		w.stmt(st)
	}
	w.dirs, w.flow = before, keep
}

// loops reads the compound commands with words or conditions of their own.
func (w *walker) loops(c syntax.Command) {
	switch c := c.(type) {
	case *syntax.IfClause:
		w.ifClause(c)
	case *syntax.WhileClause:
		w.loopDirs(c)
		w.list(c.Cond, false)
		w.list(c.Do, false)
	case *syntax.ForClause:
		w.forClause(c)
	case *syntax.CaseClause:
		w.caseClause(c)
	case *syntax.FuncDecl:
		keep := w.inBomb
		if bomb(c) {
			if w.bombs == nil {
				w.bombs = map[string]bool{}
			}
			w.bombs[c.Name.Value] = true
			w.inBomb = true
		}
		w.stmt(c.Body)
		w.inBomb = keep
	case *syntax.ArithmCmd:
		w.arithm(c.X)
	case *syntax.TestClause:
		w.testClause(c)
	case *syntax.DeclClause:
		w.declClause(c)
	case *syntax.LetClause:
		w.letClause(c)
	case *syntax.TimeClause:
		w.timeClause(c)
	case *syntax.CoprocClause:
		w.hiding("coproc", w.source(c), w.pos(c))
		if c.Name != nil {
			w.plainWord(c.Name)
		}
		w.stmt(c.Stmt)
	default:
		w.unresolved("unknown-syntax", w.source(c), w.pos(c))
	}
}

// loopDirs forgets the directory when a loop's body changes it: a second
// round starts where the first one ended.
func (w *walker) loopDirs(n syntax.Node) {
	if w.facts.chdir && changesDir(n) {
		w.dirs = nil
	}
}

func (w *walker) ifClause(c *syntax.IfClause) {
	for ; c != nil; c = c.Else {
		before := w.dirs
		w.list(c.Cond, false)
		w.list(c.Then, false)
		w.dirs = either(before, w.dirs)
	}
}

func (w *walker) forClause(c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		for _, it := range l.Items {
			w.plainWord(it)
		}
	case *syntax.CStyleLoop:
		w.arithm(l.Init)
		w.arithm(l.Cond)
		w.arithm(l.Post)
	}
	w.loopDirs(c)
	w.list(c.Do, false)
}

func (w *walker) caseClause(c *syntax.CaseClause) {
	w.plainWord(c.Word)
	before := w.dirs
	after := before
	for _, it := range c.Items {
		for _, p := range it.Patterns {
			// A pattern's own *, ? and [ are no expansion.
			w.flags |= w.r.word(p).flags &^ fGlob
			w.inner(p)
		}
		w.dirs = before
		w.list(it.Stmts, false)
		after = either(after, w.dirs)
	}
	w.dirs = after
}

// timeClause reads `time …`. Bash and the parser disagree about a dash
// after it.
func (w *walker) timeClause(c *syntax.TimeClause) {
	w.wrapped("time")
	if c.Stmt == nil {
		w.programs("time")
		return
	}
	if call, ok := c.Stmt.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 {
		if v := w.r.word(call.Args[0]); len(v.text) > 0 && v.text[0] == '-' {
			w.hiding("time-dash", w.source(c), w.pos(c))
		}
	}
	n := len(w.wraps)
	w.wraps = append(w.wraps, wrap{name: "time"})
	keep := w.flow
	w.stmt(c.Stmt)
	w.flow = keep
	w.wraps = w.wraps[:n]
}

// plainWord reads a word that is no argument of a simple command.
func (w *walker) plainWord(wd *syntax.Word) {
	if wd == nil {
		return
	}
	w.flags |= w.r.word(wd).flags
	w.inner(wd)
}

// record keeps a command for the floor, with the place where it stands.
func (w *walker) record(r record) {
	r.dirs, r.flow, r.host, r.inBomb = w.dirs, w.flow, w.host, w.inBomb
	w.records = append(w.records, r)
}

func (w *walker) wrapped(name string)  { w.s.Wrappers = append(w.s.Wrappers, name) }
func (w *walker) programs(name string) { w.s.Programs = append(w.s.Programs, name) }

// call reads a simple command, then the commands within its words.
func (w *walker) call(call *syntax.CallExpr, st *syntax.Stmt) {
	c := &simpleCmd{call: call, pos: w.pos(call), redirs: w.redirects(st.Redirs)}
	if n := len(call.Args); n > 0 {
		c.args = make([]value, 0, n)
		for _, a := range call.Args {
			c.args = w.r.fields(c.args, a, &w.braces)
		}
		for i := range c.args {
			w.flags |= c.args[i].flags
		}
	}
	w.assigns(call.Assigns, len(call.Args) > 0)
	before := w.dirs
	w.simple(c)
	if st.Background {
		w.dirs = before
	}
	held := w.flow.held
	w.flow.held = true
	w.assignsInner(call.Assigns)
	host := w.host
	for _, a := range call.Args {
		if host == nil {
			w.host = a
		}
		w.inner(a)
	}
	w.host = host
	w.redirectInner(st.Redirs)
	w.flow.held = held
}
