package shellscan

import (
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// uploads adds the files whose contents curl and wget send.
func (w *walker) uploads(x *execution, args []value) {
	p := x.prog.opts.parse(args, false)
	for _, o := range p.opts {
		if f, ok := uploadFile(x.name, o); ok {
			w.pathEffect(effect.Read, viaOperand, f, true, false, x.c.pos, x.cmd)
		}
	}
}

// uploadFile returns the file that an option sends, if it names one.
func uploadFile(name string, o option) (value, bool) {
	if !o.has {
		return value{}, false
	}
	switch o.name {
	case "T", "upload-file", "post-file", "body-file":
		if name == "wget" && o.name == "T" {
			return value{}, false
		}
		return o.val, o.val.text != "-" && o.val.text != "."
	case "d", "data", "data-ascii", "data-binary", "json", "H", "header", "variable", "expand-data":
		return cutFile(o.val, "@")
	case "data-urlencode", "url-query":
		if i := strings.IndexByte(o.val.text, '@'); i >= 0 && !strings.Contains(o.val.text[:i], "=") {
			return suffix(o.val, o.val.text[i+1:]), true
		}
	case "F", "form":
		_, v, _ := strings.Cut(o.val.text, "=")
		f := suffix(o.val, v)
		if g, ok := cutFile(f, "@"); ok {
			return beforeSemicolon(g), true
		}
		if g, ok := cutFile(f, "<"); ok {
			return beforeSemicolon(g), true
		}
	}
	return value{}, false
}

func cutFile(v value, mark string) (value, bool) {
	if !strings.HasPrefix(v.text, mark) || v.text == mark+"-" {
		return value{}, false
	}
	return suffix(v, v.text[len(mark):]), true
}

func beforeSemicolon(v value) value {
	if i := strings.IndexByte(v.text, ';'); i >= 0 {
		v.text, v.written = v.text[:i], ""
	}
	return v
}

// subcommand notes whether the subcommand of a tool runs project code.
func (w *walker) subcommand(x *execution, args []value) {
	list := runCommands[strings.TrimRight(x.name, "0123456789.-")]
	if list == "" {
		list = runCommands[x.name]
	}
	for _, a := range args {
		if a.text == "" || a.text[0] == '+' || a.text[0] == '-' && !inList(list, a.text) {
			continue
		}
		if inList(list, a.text) {
			w.s.Opaque = true
			x.code = max(x.code, effect.CodeDeclared)
		}
		return
	}
}

var dockerRun = options{
	flags: "dtiPq", values: "aeuvwplchm", long: "rm privileged= detach interactive tty volume= mount= env= env-file= user= workdir= publish= name= network= pid= entrypoint= platform= pull= label= memory= cpus= gpus= ipc= cap-add= cap-drop= security-opt= device= hostname= add-host= dns= restart= init read-only tmpfs= ulimit= volumes-from= quiet",
}

// docker reads the container tools: images name registries, and running
// or building one runs code that the text does not show.
func (w *walker) docker(x *execution, args []value) {
	i := 0
	for i < len(args) && strings.HasPrefix(args[i].text, "-") {
		switch args[i].text {
		case "-H", "--host", "-c", "--context", "--config", "-l", "--log-level":
			i++
		}
		i++
	}
	if i >= len(args) {
		return
	}
	sub, rest := args[i].text, args[i+1:]
	if sub == "container" || sub == "image" {
		if len(rest) == 0 {
			return
		}
		sub, rest = rest[0].text, rest[1:]
	}
	if inList(runCommands["docker"], sub) {
		w.s.Opaque = true
		x.code = effect.CodeHidden
		if sub == "build" || sub == "compose" || sub == "buildx" {
			x.code = effect.CodeDeclared
		}
	}
	switch sub {
	case "pull", "push":
		for _, v := range rest {
			w.imageHost(x, v)
		}
	case "run", "create":
		p := dockerRun.parse(rest, true)
		if p.rest < len(rest) {
			w.imageHost(x, rest[p.rest])
		}
		for _, o := range p.opts {
			if f, _, ok := strings.Cut(o.val.text, ":"); ok && (o.name == "v" || o.name == "volume") && strings.ContainsAny(f, "/.~") {
				w.pathEffect(effect.Write, effect.ViaPossible, value{text: f, flags: o.val.flags}, false, true, x.c.pos, x.cmd)
				w.pathEffect(effect.Read, effect.ViaPossible, value{text: f, flags: o.val.flags}, false, true, x.c.pos, x.cmd)
			}
			if o.name == "env-file" {
				w.pathEffect(effect.Read, viaOperand, o.val, true, false, x.c.pos, x.cmd)
			}
		}
	}
}

// imageHost adds the registry of an image reference.
func (w *walker) imageHost(x *execution, v value) {
	first, _, ok := strings.Cut(v.text, "/")
	if !ok || strings.HasPrefix(first, "-") || !strings.ContainsAny(first, ".:") {
		return
	}
	host, port, _ := strings.Cut(first, ":")
	w.connect(host, port, x.c.pos, x.cmd)
}
