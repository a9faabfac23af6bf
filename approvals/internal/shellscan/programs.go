package shellscan

import "strings"

// role says what the operands of a program are.
type role uint8

const (
	opPossible  role = iota // not known: each may be read and written
	opNone                  // no paths
	opRead                  // read
	opRead1                 // read, but for the first one (a pattern or script)
	opWrite                 // written
	opRemove                // removed, with all below
	opChange                // mode or owner changed
	opCopy                  // the last one written, the others read
	opMove                  // the last one written, the others removed
	opWriteLast             // the last one written, the others no paths
	opWriteRest             // written, but for the first one
)

// netRole says where a program's hosts are.
type netRole uint8

const (
	netNone   netRole = iota
	netHost           // operands are hosts, with or without scheme
	netFirst          // the first operand is a host
	netRemote         // operands may be [user@]host:path
	netURL            // operands with a scheme
	netImage          // operands may be registry/image
)

// program is one row of the table of programs.
type program struct {
	role   role
	net    netRole
	opts   options
	out    string // options whose value is written, listed among the writes
	outBy  string // options whose value is written beside the program's main job
	in     string // options whose value is read
	hidden string // options that make it run other code
	url    string // options whose value is a URL or host
	same   string // canonical spellings, "r=recursive"
	code   runs
	dir    bool // operands are reached with all below them
	extra  special
}

// runs says when a program runs code that the text does not show.
type runs uint8

const (
	runsNothing runs = iota
	runsProject      // running project code is its business
	runsScript       // an interpreter: script file declared, text hidden
)

// special names a program with rules of its own.
type special uint8

const (
	spNone special = iota
	spFind
	spFd
	spGit
	spCurl
	spWget
	spDD
	spSed
	spAwk
	spSSH
	spNC
	spSocat
	spOpenssl
	spCd
	spPopd
	spTest
	spPrintf
	spRead
	spMapfile
	spTrap
	spSource
	spUnset
	spDocker
	spSub // only some subcommands run project code
	spGrepLike
	spLn
	spEnable
	spXxd
	spTar
	spLess
)

// noProgram is the row of a shell function: what it does stands in the text.
var noProgram = &program{role: opNone}

// lookup finds the row of a program by table name.
func lookup(name string) *program {
	if p := programs[name]; p != nil {
		return p
	}
	return variants(name)
}

// variants finds programs whose names carry a version or a file system.
func variants(name string) *program {
	if sub, ok := strings.CutPrefix(name, "git-"); ok && gitSubs[sub] != nil {
		return programs["git"]
	}
	for _, v := range variantRows {
		if len(name) > len(v.prefix) && name[:len(v.prefix)] == v.prefix {
			switch c := name[len(v.prefix)]; {
			case c == '.' || c == '-' || c >= '0' && c <= '9':
				return v.row
			}
		}
	}
	return nil
}

var variantRows = []struct {
	prefix string
	row    *program
}{
	{"python", programs["python"]},
	{"pip", programs["pip"]},
	{"ruby", programs["ruby"]},
	{"perl", programs["perl"]},
	{"php", programs["php"]},
	{"node", programs["node"]},
	{"lua", programs["lua"]},
	{"mkfs", programs["mkfs"]},
}

// sensitive reports whether the floor or the tables of write and connect
// operands know a program, so that its real words must be seen before it
// runs. It takes a program word as written.
func sensitive(program string) bool {
	name := baseName(program)
	if wrappers[name] != nil || shells[name] {
		return true
	}
	p := lookup(name)
	if p == nil {
		return true // a program outside the table may write any operand
	}
	switch p.role {
	case opWrite, opRemove, opChange, opCopy, opMove, opWriteLast, opWriteRest, opPossible:
		return true
	}
	return p.net != netNone || p.out != "" || p.outBy != "" || p.hidden != "" || floorProgram(name) ||
		p.extra == spFind || p.extra == spGit || p.extra == spSed || p.code != runsNothing
}

// readers only read their operands; their options write nothing.
var readers = &program{role: opRead}

// talkers take operands that are no paths and touch nothing.
var talkers = &program{role: opNone}

// builders run project code.
var builders = &program{role: opNone, code: runsProject, net: netURL}

var programs = merge(
	coreRows, fileRows, netRows, codeRows,
	same(readers, "cat", "tac", "nl", "head", "tail", "wc", "ls", "dir", "vdir", "stat", "file", "du", "df", "md5sum", "sha1sum",
		"sha256sum", "sha512sum", "cksum", "b2sum", "cmp", "diff", "comm", "join", "paste", "cut", "fold", "fmt", "pr", "od",
		"hexdump", "strings", "rev", "column", "expand", "unexpand", "tree", "readlink", "realpath", "basename", "dirname",
		"base64", "base32", "zcat", "bzcat", "xzcat", "zgrep", "more", "bat", "exa", "eza", "colordiff", "pathchk", "lsattr",
		"getfacl", "look", "tsort", "jobs", "iconv", "nm", "objdump", "readelf", "size", "ldd", "sum", "wdiff", "cloc", "tokei"),
	same(talkers, "echo", "true", "false", ":", "pwd", "sleep", "date", "whoami", "id", "groups", "hostname", "uname", "uptime",
		"who", "w", "ps", "top", "free", "seq", "yes", "expr", "tput", "clear", "tty", "nproc", "arch", "env", "printenv", "locale",
		"getconf", "exit", "return", "break", "continue", "shift", "set", "shopt", "wait", "fg", "bg", "umask", "ulimit", "times",
		"type", "which", "whereis", "hash", "help", "history", "compgen", "complete", "dirs", "alias", "unalias", "export", "readonly",
		"declare", "typeset", "local", "let", "getopts", "logname", "users", "last", "lsof", "pgrep", "pidof", "cal", "factor",
		"numfmt", "shuf", "tr", "uuidgen", "logger", "kill", "pkill", "killall", "renice", "disown", "suspend", "lsblk", "lscpu",
		"lsusb", "lspci", "dmesg", "vmstat", "iostat", "ss", "netstat", "caller", "shutdown", "reboot", "halt", "poweroff", "init",
		"telinit", "systemctl", "service", "journalctl", "launchctl", "sysctl", "crontab", "usermod", "useradd", "userdel", "groupadd",
		"passwd", "setcap", "getcap", "command", "builtin", "exec", "sudo", "doas", "timeout", "nice", "gh", "hub", "glab", "kubectl",
		"helm", "terraform", "tofu", "aws", "az", "gcloud", "psql", "mysql", "sqlite3", "redis-cli", "mongosh", "tmux", "screen",
		"apt", "apt-get", "dnf", "yum", "apk", "pacman", "snap", "alembic", "heroku", "fly", "vercel", "netlify", "wrangler"),
	same(builders, "npx", "pnpx", "bunx", "pytest", "py.test", "tox", "nox", "rake", "bundle", "gem", "ant", "mvn",
		"gradle", "gradlew", "ninja", "bazel", "just", "task", "jest", "vitest", "mocha", "ava", "playwright", "cypress", "rspec",
		"phpunit", "composer", "mix", "rebar3", "sbt", "lein", "stack", "cabal", "meson", "scons", "pipx", "uvx", "tsx", "ts-node",
		"nodemon", "ansible-playbook", "ed", "ex", "vim", "vi", "nvim", "emacs", "nano", "expect", "osascript", "msbuild", "xcodebuild",
		"docker-compose", "foreman", "procfile", "storybook", "ng", "vite", "next", "nuxt", "webpack", "rollup", "turbo", "nx", "lerna"),
)

func merge(tables ...map[string]*program) map[string]*program {
	out := map[string]*program{}
	for _, t := range tables {
		for k, v := range t {
			if out[k] == nil {
				out[k] = v
			}
		}
	}
	return out
}

func same(row *program, names ...string) map[string]*program {
	out := make(map[string]*program, len(names))
	for _, n := range names {
		out[n] = row
	}
	return out
}
