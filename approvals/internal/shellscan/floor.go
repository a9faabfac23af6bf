package shellscan

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// The families of the floor that texts can fall under.
const (
	familyRoot    = "destructive-root"
	familyDisk    = "disk-destroy"
	familyFork    = "fork-bomb"
	familyKill    = "kill-all"
	familyPower   = "power"
	familyExfil   = "exfil"
	familyReverse = "reverse-shell"
)

var families = map[string]string{
	familyRoot:    "removes or opens up the file system root, a system directory or a home directory",
	familyDisk:    "overwrites or formats a disk",
	familyFork:    "starts processes without end",
	familyKill:    "kills every process",
	familyPower:   "shuts the machine down or restarts it",
	familyExfil:   "sends credentials to another machine",
	familyReverse: "ties an interactive shell to a network connection",
}

// floorProgram reports whether a family of the floor looks at a program.
func floorProgram(name string) bool {
	switch name {
	case "kill", "killall5", "shutdown", "reboot", "halt", "poweroff", "init", "telinit", "systemctl", "env", "printenv", "cat", "gh", "aws", "gcloud", "dd":
		return true
	}
	return false
}

// floor returns the first family that the commands read so far fall under.
func (w *walker) floor() *effect.Floor {
	for i := range w.records {
		if f := w.family(&w.records[i]); f != "" {
			return &effect.Floor{Family: f, Description: families[f]}
		}
	}
	f := ""
	switch {
	case w.forkBomb():
		f = familyFork
	case w.reverseShell():
		f = familyReverse
	case w.exfiltrates():
		f = familyExfil
	default:
		return nil
	}
	return &effect.Floor{Family: f, Description: families[f]}
}

// family judges one simple command by itself.
func (w *walker) family(r *record) string {
	for i := range r.redirs {
		if d := &r.redirs[i]; writes(d.op) && d.target.known() {
			if rawDevice(d.target.text) {
				return familyDisk
			}
			if path.Clean(d.target.text) == "/proc/sysrq-trigger" {
				return familyPower
			}
		}
	}
	if r.name == "" || len(r.args) == 0 {
		return ""
	}
	args := r.args[1:]
	switch r.name {
	case "rm", "srm", "shred":
		if f := w.removes(r, args); f != "" || r.name != "shred" {
			return f
		}
		if w.destroysDisk(r.name, args) {
			return familyDisk
		}
	case "mv":
		return w.movesAway(r, args)
	case "rsync":
		return w.empties(r, args)
	case "chmod", "chown", "chgrp":
		return w.changes(r, args)
	case "find":
		return w.finds(r, args)
	case "kill":
		if killsAll(args) {
			return familyKill
		}
	case "killall5":
		return familyKill
	case "shutdown", "reboot", "halt", "poweroff":
		if !asksHelp(args) && (r.name != "shutdown" || !hasWord(args, "-c")) {
			return familyPower
		}
	case "init", "telinit":
		if len(args) > 0 && (args[len(args)-1].text == "0" || args[len(args)-1].text == "6") {
			return familyPower
		}
	case "systemctl":
		if systemctlPower(args) {
			return familyPower
		}
	default:
		if w.destroysDisk(r.name, args) {
			return familyDisk
		}
	}
	return ""
}

func writes(op syntax.RedirOperator) bool {
	switch op {
	case syntax.RdrIn, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return false
	}
	return true
}

func asksHelp(args []value) bool { return hasWord(args, "--help") || hasWord(args, "--version") }

func hasWord(args []value, word string) bool {
	for _, a := range args {
		if a.text == word {
			return true
		}
	}
	return false
}

func (w *walker) removes(r *record, args []value) string {
	p := lookup(r.name).opts.parse(args, false)
	recursive := p.has("r", "R", "recursive")
	for _, v := range p.operands {
		switch w.protected(r, v) {
		case rootDir:
			return familyRoot
		case homeDir:
			if recursive || !strings.HasSuffix(v.text, "/") {
				return familyRoot
			}
		}
	}
	return ""
}

// movesAway refuses to move a whole system directory.
func (w *walker) movesAway(r *record, args []value) string {
	p := copyOptions.parse(args, false)
	from := p.operands
	if !p.has("t", "target-directory") && len(from) > 0 {
		from = from[:len(from)-1]
	}
	for _, v := range from {
		if v.flags&fGlob == 0 && w.protected(r, v) == rootDir {
			return familyRoot
		}
	}
	return ""
}

// empties refuses an rsync that deletes what it does not find, in a system
// directory.
func (w *walker) empties(r *record, args []value) string {
	p := lookup(r.name).opts.parse(args, false)
	deletes := slices.ContainsFunc(p.opts, func(o option) bool { return o.name == "del" || strings.HasPrefix(o.name, "delete") })
	if n := len(p.operands); deletes && n > 1 && !remote(p.operands[n-1].text) && w.protected(r, p.operands[n-1]) == rootDir {
		return familyRoot
	}
	return ""
}

func (w *walker) changes(r *record, args []value) string {
	p := lookup(r.name).opts.parse(args, false)
	if !p.has("R", "recursive") {
		return ""
	}
	ops := p.operands
	if !p.has("reference") && len(ops) > 0 {
		ops = ops[1:]
	}
	for _, v := range ops {
		if w.protected(r, v) == rootDir {
			return familyRoot
		}
	}
	return ""
}

// finds refuses an unfiltered find that deletes below a protected place.
func (w *walker) finds(r *record, args []value) string {
	if !hasWord(args, "-delete") || findFilters(args) {
		return ""
	}
	for _, v := range args {
		if strings.HasPrefix(v.text, "-") && v.text != "-H" && v.text != "-L" && v.text != "-P" {
			break
		}
		if w.protected(r, v) != noDir {
			return familyRoot
		}
	}
	return ""
}

// findFilters reports whether a find selects anything but kinds of files
// and depths.
func findFilters(args []value) bool {
	for i := 0; i < len(args); i++ {
		t := args[i].text
		if !strings.HasPrefix(t, "-") || len(t) < 2 {
			continue
		}
		switch t {
		case "-H", "-L", "-P", "-delete", "-depth", "-d", "-xdev", "-mount", "-print", "-print0", "-ls", "-follow", "-true", "-o", "-a", "-or", "-and",
			"-ignore_readdir_race", "-noignore_readdir_race", "-daystart", "-warn", "-nowarn", "-noleaf":
		case "-type", "-mindepth", "-maxdepth", "-regextype":
			i++
		case "-exec", "-execdir", "-ok", "-okdir":
			for i++; i < len(args) && args[i].text != ";" && args[i].text != "+"; i++ {
			}
		default:
			return true
		}
	}
	return false
}

// place says what kind of directory a path names, with all below it.
type place uint8

const (
	noDir place = iota
	rootDir
	homeDir
)

// protected classifies an operand, wherever the command may run.
func (w *walker) protected(r *record, v value) place {
	if v.flags&fTilde != 0 && v.flags&(fDynamic|fFiltered) == 0 {
		rest := strings.TrimLeft(v.text, "~")
		if strings.HasPrefix(v.text, "~") && strings.Trim(after(rest, '/'), "/*.") == "" {
			return homeDir
		}
		return noDir
	}
	if v.flags&(fDynamic|fFiltered) != 0 || v.text == "" {
		return noDir
	}
	if strings.HasPrefix(v.text, "/") {
		return w.protectedSpot(v.text, v.flags&fGlob != 0)
	}
	for _, d := range r.dirs {
		if !strings.HasPrefix(d, "/") {
			if d = joinDir(w.r.env.Cwd, d); !strings.HasPrefix(d, "/") {
				continue
			}
		}
		if p := w.protectedSpot(d+"/"+v.text, v.flags&fGlob != 0); p != noDir {
			return p
		}
	}
	return noDir
}

// after returns what follows the first sep, or "".
func after(s string, sep byte) string {
	if i := strings.IndexByte(s, sep); i >= 0 {
		return s[i+1:]
	}
	return ""
}

// protectedSpot classifies a path as written, and with the links followed
// that lead to its last element. The element itself is removed, not
// followed, unless a slash stands behind it.
func (w *walker) protectedSpot(p string, glob bool) place {
	if kind := w.protectedPath(p, glob); kind != noDir || w.r.env.RealPath == nil {
		return kind
	}
	if strings.HasSuffix(p, "/") {
		return w.protectedPath(w.r.env.RealPath(path.Clean(p)), glob)
	}
	dir, last := path.Split(p)
	if last == "." || last == ".." {
		return noDir
	}
	return w.protectedPath(path.Join(w.r.env.RealPath(path.Clean(dir)), last), glob)
}

// procRoot takes the way through a process's view of the root off a path.
func procRoot(p string) string {
	rest, ok := strings.CutPrefix(p, "/proc/")
	if !ok {
		return p
	}
	_, rest, _ = strings.Cut(rest, "/")
	if rest == "root" {
		return "/"
	}
	if rest, ok = strings.CutPrefix(rest, "root/"); ok {
		return "/" + rest
	}
	return p
}

// protectedPath classifies an absolute path, which may end in a pattern
// for all that is in a directory.
func (w *walker) protectedPath(p string, glob bool) place {
	p = procRoot(path.Clean(p))
	dir, last := path.Split(p)
	if glob && last != "" && strings.Trim(last, "*?.") == "" && strings.ContainsAny(last, "*?") {
		p = path.Clean(dir)
	}
	if p == "/" {
		return rootDir
	}
	if w.r.env.Home != "" && w.r.env.Home != "/" && p == path.Clean(w.r.env.Home) {
		if p == "/root" {
			return rootDir
		}
		return homeDir
	}
	switch p {
	case "/home", "/root", "/etc", "/usr", "/var", "/bin", "/sbin", "/boot", "/lib", "/lib32", "/lib64", "/opt", "/sys", "/proc", "/dev",
		"/Users", "/System", "/Library", "/Applications", "/private", "/private/etc", "/private/var":
		return rootDir
	}
	if parent := path.Dir(p); parent == "/home" || parent == "/Users" && p != "/Users/Shared" {
		return homeDir
	}
	return noDir
}

// killsAll reports whether kill names -1 as a process after its signal.
func killsAll(args []value) bool {
	if len(args) == 0 {
		return false
	}
	rest := args[1:]
	switch t := args[0].text; {
	case t == "-l" || t == "-L" || t == "--list" || t == "--table" || t == "-0":
		return false
	case t == "--":
	case t == "-s" || t == "-n" || t == "--signal":
		if len(rest) == 0 || rest[0].text == "0" {
			return false
		}
		rest = rest[1:]
	case !strings.HasPrefix(t, "-"):
		return false
	}
	return hasWord(rest, "-1")
}

var systemctlOptions = options{
	flags: "aflqiTr", values: "tpPHMonsC",
	long: "type= state= property= host= machine= output= lines= signal= kill-whom= job-mode= root= image= user system force quiet now no-block no-wall no-ask-password message= when= check-inhibitors= ignore-inhibitors firmware-setup boot-loader-menu= boot-loader-entry=",
}

func systemctlPower(args []value) bool {
	p := systemctlOptions.parse(args, false)
	if p.has("help", "version", "H", "host") || len(p.operands) == 0 {
		return false
	}
	switch p.operands[0].text {
	case "poweroff", "reboot", "halt", "kexec", "soft-reboot":
		return true
	case "isolate", "start":
		for _, v := range p.operands[1:] {
			switch strings.TrimSuffix(v.text, ".target") {
			case "poweroff", "reboot", "halt", "kexec":
				return true
			}
		}
	}
	return false
}

// rawDevice reports whether a path names a whole disk or a partition.
func rawDevice(p string) bool {
	name, ok := strings.CutPrefix(path.Clean(p), "/dev/")
	if !ok {
		return false
	}
	for _, s := range []string{"sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "md", "dm-", "mapper/", "nbd", "zd"} {
		if rest, ok := strings.CutPrefix(name, s); ok && rest != "" && name != "mdev" {
			return true
		}
	}
	return false
}

// destroysDisk reports whether a program writes to a raw device.
func (w *walker) destroysDisk(name string, args []value) bool {
	if asksHelp(args) {
		return false
	}
	device := func(list []value) bool {
		for _, v := range list {
			if v.pattern() && rawDevice(v.text) {
				return true
			}
		}
		return false
	}
	switch name {
	case "dd":
		for _, a := range args {
			if f, ok := strings.CutPrefix(a.text, "of="); ok && a.pattern() && rawDevice(f) {
				return true
			}
		}
	case "tee", "shred", "blkdiscard", "mkswap", "mke2fs":
		return device(args)
	case "wipefs":
		p := programs["wipefs"].opts.parse(args, false)
		return p.has("a", "all") && device(p.operands)
	case "cp", "install":
		return len(args) > 1 && device(args[len(args)-1:])
	case "sgdisk":
		return (hasWord(args, "-Z") || hasWord(args, "--zap-all") || hasWord(args, "-z") || hasWord(args, "-o")) && device(args)
	case "cryptsetup":
		return hasWord(args, "luksFormat") && device(args)
	case "badblocks":
		return hasWord(args, "-w") && device(args)
	default:
		return (name == "mkfs" || strings.HasPrefix(name, "mkfs.")) && device(args)
	}
	return false
}

// forkBomb reports whether a function that runs itself twice, in a pipe or
// in the background, is called.
func (w *walker) forkBomb() bool {
	if len(w.bombs) == 0 {
		return false
	}
	for i := range w.records {
		if r := &w.records[i]; !r.inBomb && len(r.args) > 0 && w.bombs[r.args[0].text] {
			return true
		}
	}
	return false
}

// bomb reports whether a function's body runs the function twice at once.
func bomb(f *syntax.FuncDecl) bool {
	if f.Name == nil {
		return false
	}
	var list []*syntax.Stmt
	switch b := f.Body.Cmd.(type) {
	case *syntax.Block:
		list = b.Stmts
	case *syntax.Subshell:
		list = b.Stmts
	default:
		return false
	}
	selves, background := 0, false
	for _, st := range list {
		switch c := st.Cmd.(type) {
		case *syntax.CallExpr:
			if callsSelf(c, f.Name.Value) {
				selves++
				background = background || st.Background
			}
		case *syntax.BinaryCmd:
			if (c.Op == syntax.Pipe || c.Op == syntax.PipeAll) && pipesSelf(c, f.Name.Value) {
				return true
			}
		}
	}
	return selves > 1 && background
}

func callsSelf(c *syntax.CallExpr, name string) bool {
	return len(c.Args) > 0 && c.Args[0].Lit() == name
}

func pipesSelf(c *syntax.BinaryCmd, name string) bool {
	x, ok := c.X.Cmd.(*syntax.CallExpr)
	y, ok2 := c.Y.Cmd.(*syntax.CallExpr)
	return ok && ok2 && callsSelf(x, name) && callsSelf(y, name)
}

// fFiltered marks paths that stand for some, not all, files below a place.
const fFiltered flag = 1 << 14
