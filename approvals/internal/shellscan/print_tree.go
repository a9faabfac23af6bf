package shellscan

import (
	"reflect"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

var (
	posType      = reflect.TypeFor[syntax.Pos]()
	commentsType = reflect.TypeFor[[]syntax.Comment]()
	partsType    = reflect.TypeFor[[]syntax.WordPart]()
	iterType     = reflect.TypeFor[syntax.WordIter]()
)

// spelling names fields that say only how a construct was written; the
// printer picks one spelling.
var spelling = map[string]bool{
	"CmdSubst.Backquotes": true,
	"ArithmExp.Bracket":   true,
	"CaseClause.Braces":   true,
	"ForClause.Braces":    true,
}

// cloneFile returns a deep copy of f without comments: to a reader with
// other ideas of where a comment ends they would be code.
func cloneFile(f *syntax.File) *syntax.File {
	c := cloneValue(reflect.ValueOf(f)).Interface().(*syntax.File)
	syntax.Walk(c, func(n syntax.Node) bool {
		if r, ok := n.(*syntax.Redirect); ok && r.Op == syntax.DashHdoc {
			dropIndent(r)
		}
		return true
	})
	return c
}

// dropIndent takes the tabs away that bash drops from a here-document, so
// that the printer's own do not change it.
func dropIndent(r *syntax.Redirect) {
	r.Op = syntax.Hdoc
	if r.Hdoc == nil {
		return
	}
	start := true
	for _, p := range r.Hdoc.Parts {
		lit, ok := p.(*syntax.Lit)
		if !ok {
			start = false
			continue
		}
		var b strings.Builder
		for _, line := range strings.SplitAfter(lit.Value, "\n") {
			if start {
				line = strings.TrimLeft(line, "\t")
			}
			b.WriteString(line)
			start = strings.HasSuffix(line, "\n") || start && line == ""
		}
		lit.Value = b.String()
	}
}

func cloneValue(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		n := reflect.New(v.Type().Elem())
		n.Elem().Set(cloneValue(v.Elem()))
		return n
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		n := reflect.New(v.Type()).Elem()
		n.Set(cloneValue(v.Elem()))
		return n
	case reflect.Slice:
		if v.IsNil() || v.Type() == commentsType {
			return reflect.Zero(v.Type())
		}
		n := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			n.Index(i).Set(cloneValue(v.Index(i)))
		}
		return n
	case reflect.Struct:
		if v.Type() == posType {
			return v
		}
		n := reflect.New(v.Type()).Elem()
		n.Set(v)
		for i := range v.NumField() {
			n.Field(i).Set(cloneValue(v.Field(i)))
		}
		return n
	}
	return v
}

// treeDiff names the first place where two trees differ in meaning, or
// returns "". Positions, comments and spellings are passed over.
func treeDiff(a, b *syntax.File) string {
	return valueDiff(reflect.ValueOf(a), reflect.ValueOf(b), "script")
}

func valueDiff(a, b reflect.Value, at string) string {
	if a.Type() != b.Type() {
		return at
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return at
			}
			return ""
		}
		return valueDiff(a.Elem(), b.Elem(), at)
	case reflect.Slice:
		if a.Type() == partsType {
			a, b = joinedLits(a), joinedLits(b)
		}
		if a.Len() != b.Len() {
			return at
		}
		for i := range a.Len() {
			if d := valueDiff(a.Index(i), b.Index(i), at); d != "" {
				return d
			}
		}
	case reflect.Struct:
		return structDiff(a, b)
	default:
		if !a.Equal(b) {
			return at
		}
	}
	return ""
}

func structDiff(a, b reflect.Value) string {
	t := a.Type()
	if t == iterType {
		// "for x" takes the parameters, "for x in" nothing.
		x, y := a.FieldByName("InPos").Interface().(syntax.Pos), b.FieldByName("InPos").Interface().(syntax.Pos)
		if x.IsValid() != y.IsValid() {
			return "WordIter.InPos"
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name := t.Name() + "." + f.Name
		if f.Type == posType || f.Type == commentsType || spelling[name] {
			continue
		}
		if d := valueDiff(a.Field(i), b.Field(i), name); d != "" {
			return d
		}
	}
	return ""
}

// joinedLits merges neighbouring literals, which are one when read again.
func joinedLits(parts reflect.Value) reflect.Value {
	in := parts.Interface().([]syntax.WordPart)
	out := make([]syntax.WordPart, 0, len(in))
	for _, p := range in {
		lit, ok := p.(*syntax.Lit)
		if !ok {
			out = append(out, p)
			continue
		}
		if n := len(out); n > 0 {
			if last, ok := out[n-1].(*syntax.Lit); ok {
				out[n-1] = &syntax.Lit{Value: last.Value + lit.Value}
				continue
			}
		}
		out = append(out, lit)
	}
	return reflect.ValueOf(out)
}
