package shellscan

import "strings"

// options is the option grammar of one program, as far as it is needed to
// tell options, their values and operands apart.
type options struct {
	flags  string // short options without a value
	values string // short options with a value, attached or in the next word
	glued  string // short options with an optional value, attached only
	// long options, separated by spaces: "name" takes no value, "name=" a
	// value, "name?" a value only after an equals sign.
	long string
	// single tells that long options start with one dash (java, find, go).
	single bool
	// digits tells that -N is an option.
	digits bool
}

// option is one option as given. name is without dashes; a short one has
// one letter.
type option struct {
	name    string
	val     value
	has     bool // has a value
	unknown bool
}

// parsed is a command line split into options and operands.
type parsed struct {
	opts     []option
	operands []value
	// rest is the index of the first word that is no option, for commands
	// whose operands are another command.
	rest    int
	unknown bool // some option is not in the grammar
	dynamic bool // a word that may be an option is not known
}

func (p *parsed) has(names ...string) bool {
	_, ok := p.get(names...)
	return ok
}

func (p *parsed) get(names ...string) (value, bool) {
	for i := len(p.opts) - 1; i >= 0; i-- {
		for _, n := range names {
			if p.opts[i].name == n {
				return p.opts[i].val, true
			}
		}
	}
	return value{}, false
}

// parse splits args, which exclude the program word. With stop it ends at
// the first operand.
func (o *options) parse(args []value, stop bool) parsed {
	var p parsed
	i := 0
	for i < len(args) {
		a := args[i]
		switch {
		case a.flags&(fDynamic|fInput) != 0 && !strings.HasPrefix(a.text, "-"):
			// An unquoted or leading expansion may turn out to be an option.
			if strings.HasPrefix(a.text, "*") {
				p.dynamic = true
			}
			if stop {
				p.rest = i
				return p
			}
			p.operands = append(p.operands, a)
			i++
		case a.text == "--":
			p.operands = append(p.operands, args[i+1:]...)
			p.rest = i + 1
			return p
		case len(a.text) < 2 || a.text[0] != '-':
			if stop {
				p.rest = i
				return p
			}
			p.operands = append(p.operands, a)
			i++
		case a.text[1] == '-' || o.single:
			i += o.longOption(&p, args, i)
		default:
			i += o.cluster(&p, args, i)
		}
	}
	p.rest = i
	return p
}

// longOption reads the long option at args[i] and returns how many words
// it takes.
func (o *options) longOption(p *parsed, args []value, i int) int {
	a := args[i]
	text := strings.TrimPrefix(strings.TrimPrefix(a.text, "-"), "-")
	name, val, glued := strings.Cut(text, "=")
	full, kind, ok := o.lookup(name)
	if !ok {
		p.unknown = true
		p.opts = append(p.opts, option{name: name, val: suffix(a, val), has: glued, unknown: true})
		return 1
	}
	opt := option{name: full}
	used := 1
	switch {
	case glued:
		opt.val, opt.has = suffix(a, val), true
	case kind == '=' && i+1 < len(args):
		opt.val, opt.has = args[i+1], true
		used = 2
	}
	p.opts = append(p.opts, opt)
	return used
}

// lookup finds a long option by its name or an unambiguous start of it.
// kind is ' ', '=' or '?'.
func (o *options) lookup(name string) (full string, kind byte, ok bool) {
	found := 0
	for rest := o.long; rest != ""; {
		var w string
		w, rest, _ = strings.Cut(rest, " ")
		k := byte(' ')
		if n := len(w); n > 0 && (w[n-1] == '=' || w[n-1] == '?') {
			k, w = w[n-1], w[:n-1]
		}
		if w == name {
			return w, k, true
		}
		if name != "" && !o.single && strings.HasPrefix(w, name) {
			full, kind = w, k
			found++
		}
	}
	return full, kind, found == 1
}

// cluster reads the short options in args[i].
func (o *options) cluster(p *parsed, args []value, i int) int {
	a := args[i]
	text := a.text[1:]
	if o.digits && digitsOnly(text) {
		p.opts = append(p.opts, option{name: "#", val: suffix(a, text), has: true})
		return 1
	}
	for j := 0; j < len(text); j++ {
		c := text[j : j+1]
		switch {
		case strings.Contains(o.values, c):
			opt := option{name: c, has: true}
			if j+1 < len(text) {
				opt.val = suffix(a, text[j+1:])
				p.opts = append(p.opts, opt)
				return 1
			}
			if i+1 < len(args) {
				opt.val = args[i+1]
				p.opts = append(p.opts, opt)
				return 2
			}
			p.opts = append(p.opts, opt)
			return 1
		case strings.Contains(o.glued, c):
			rest := text[j+1:]
			p.opts = append(p.opts, option{name: c, val: suffix(a, rest), has: rest != ""})
			return 1
		case strings.Contains(o.flags, c):
			p.opts = append(p.opts, option{name: c})
		default:
			p.unknown = true
			p.opts = append(p.opts, option{name: c, unknown: true})
		}
	}
	return 1
}

// suffix is the value of the last part of a word.
func suffix(v value, text string) value {
	out := value{text: text, flags: v.flags, node: v.node}
	if v.written != "" {
		// The part before the value holds no home: cut the same length.
		if n := len(v.text) - len(text); n >= 0 && n <= len(v.written) {
			out.written = v.written[n:]
		}
	}
	return out
}
