package shellscan

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// exfiltrates reports whether a credential reaches a program that sends
// it away, in the same command or by a pipe or substitution.
func (w *walker) exfiltrates() bool {
	for i := range w.records {
		r := &w.records[i]
		k := sinkOf(r)
		if k == noSink {
			continue
		}
		if k != netSink && w.sends(r) {
			return true
		}
		for j := range w.records {
			s := &w.records[j]
			if s.flow.id != r.flow.id || s.flow.stage > r.flow.stage || i == j && k != netSink && !readsCredential(s.redirs) {
				continue
			}
			if s.host != nil && cleared(r, s.host) {
				continue
			}
			if src := source(s); src == anyCredential && k != shellSink || src == keyCredential {
				return true
			}
		}
	}
	return false
}

type sink uint8

const (
	noSink    sink = iota
	toolSink       // a program that sends operands or its input
	netSink        // a redirection to a socket
	shellSink      // ssh: also the everyday way to copy a configuration
)

// sinkOf says whether a command sends what it is given to other machines.
func sinkOf(r *record) sink {
	for i := range r.redirs {
		if _, _, ok := netPath(r.redirs[i].target.text); ok && writes(r.redirs[i].op) {
			return netSink
		}
	}
	arg := func(i int) string {
		if i < len(r.args) {
			return r.args[i].text
		}
		return ""
	}
	switch r.name {
	case "curl", "wget", "nc", "ncat", "netcat", "telnet", "socat", "tftp", "ftp", "sftp", "http", "https", "xh", "httpie", "mail", "mailx", "sendmail", "mutt":
		return toolSink
	case "ssh":
		return shellSink
	case "openssl":
		if arg(1) == "s_client" {
			return toolSink
		}
	case "gh":
		if arg(1) == "gist" && (arg(2) == "create" || arg(2) == "new" || arg(2) == "edit") {
			return toolSink
		}
	case "aws":
		if hasWord(r.args, "s3") {
			return toolSink
		}
	case "gcloud":
		if hasWord(r.args, "storage") {
			return toolSink
		}
	case "gsutil", "scp", "rclone":
		return toolSink
	case "rsync":
		for _, v := range r.args[1:] {
			if remote(v.text) {
				return toolSink
			}
		}
	}
	return noSink
}

// remote reports whether an operand names a place on another machine.
func remote(s string) bool {
	if strings.HasPrefix(s, "-") {
		return false
	}
	_, ok := remoteHost(s)
	return ok || strings.Contains(s, "://") && !strings.HasPrefix(s, "file://") || strings.Contains(s, "::")
}

// sends reports whether a sink's own operands are credentials that it
// sends. What it uses to log in, or writes, does not count.
func (w *walker) sends(r *record) bool {
	row := lookup(r.name)
	if row == nil {
		row = readers
	}
	p := row.opts.parse(r.args[1:], false)
	switch r.name {
	case "curl", "wget":
		for _, o := range p.opts {
			if f, ok := uploadFile(r.name, o); ok && credential(f) != noCredential {
				return true
			}
		}
	case "scp", "rsync", "rclone", "aws", "gsutil", "gcloud":
		ops := p.operands
		if len(ops) < 2 || !remote(ops[len(ops)-1].text) {
			return false
		}
		for _, v := range ops[:len(ops)-1] {
			if !remote(v.text) && credential(v) != noCredential {
				return true
			}
		}
	case "gh", "tftp", "mail", "mailx", "mutt":
		for _, v := range r.args[1:] {
			if !strings.HasPrefix(v.text, "-") && credential(v) != noCredential {
				return true
			}
		}
	case "http", "https", "xh", "httpie":
		for _, v := range p.operands {
			if _, f, ok := strings.Cut(v.text, "@"); ok && credential(suffix(v, f)) != noCredential {
				return true
			}
		}
	case "socat":
		for _, v := range p.operands {
			_, f, _ := strings.Cut(v.text, ":")
			f, _, _ = strings.Cut(f, ",")
			if credential(suffix(v, f)) != noCredential {
				return true
			}
		}
	}
	return readsCredential(r.redirs) && r.name != "ssh"
}

func readsCredential(list []redir) bool { return inputCredential(list) != noCredential }

func inputCredential(list []redir) kind {
	for i := range list {
		if d := &list[i]; d.op == syntax.RdrIn {
			if k := credential(d.target); k != noCredential {
				return k
			}
		}
	}
	return noCredential
}

// kind says what a credential file holds.
type kind uint8

const (
	noCredential  kind = iota
	anyCredential      // tokens, settings with secrets
	keyCredential      // private keys, whole credential directories
)

// source says what a command puts out.
func source(r *record) kind {
	if k := inputCredential(r.redirs); k != noCredential {
		return k
	}
	if len(r.args) == 0 {
		return noCredential
	}
	args := r.args[1:]
	switch r.name {
	case "env", "printenv":
		if len(args) == 0 || len(args) == 1 && (args[0].text == "-0" || args[0].text == "--null") {
			return anyCredential
		}
		return noCredential
	case "ls", "dir", "vdir", "stat", "file", "du", "basename", "dirname", "realpath", "readlink", "wc", "tree", "exa", "eza",
		"md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum", "find":
		return noCredential
	}
	row := lookup(r.name)
	if row == nil {
		row = &program{}
	}
	if row.role == opNone || sinkOf(r) == toolSink || sinkOf(r) == shellSink {
		return noCredential
	}
	p := row.opts.parse(args, false)
	ops := p.operands
	if row.role == opRead1 && len(ops) > 0 && !p.has("e", "f", "regexp", "file", "expression") {
		ops = ops[1:]
	}
	most := noCredential
	for _, v := range ops {
		most = max(most, credential(v))
	}
	return most
}

// cleared reports whether a substitution's output is used by a sink only
// to log in, or to name what it writes.
func cleared(r *record, host *syntax.Word) bool {
	row := lookup(r.name)
	if row == nil {
		return false
	}
	p := row.opts.parse(r.args[1:], false)
	for _, o := range p.opts {
		if o.has && o.val.node == host {
			return inList("H header u user oauth2-bearer b cookie o output O output-document http-user http-password user password i E cert key K config A user-agent w write-out", o.name)
		}
	}
	return false
}

// credential says whether a path names a place where secrets are kept.
func credential(v value) kind {
	if v.flags&fDynamic != 0 && !strings.ContainsAny(v.text, "/.") {
		return noCredential
	}
	p := strings.TrimSuffix(v.text, "/*")
	if strings.HasSuffix(p, ".pub") || p == "" {
		return noCredential
	}
	clean := path.Clean(p)
	base := path.Base(clean)
	switch base {
	case "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519":
		return keyCredential
	case ".ssh", ".aws", ".gnupg", ".kube":
		return keyCredential
	case ".docker":
		return keyCredential
	case ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials":
		return anyCredential
	case "environ":
		if strings.HasPrefix(clean, "/proc/") {
			return anyCredential
		}
	}
	dir := path.Base(path.Dir(clean))
	switch {
	case dir == ".ssh" && strings.HasPrefix(base, "id_"):
		return keyCredential
	case dir == ".aws" && (base == "credentials" || base == "config"), dir == ".docker" && base == "config.json", dir == ".kube" && base == "config":
		return keyCredential
	case strings.Contains(clean, "/.gnupg/") || strings.HasPrefix(clean, ".gnupg/"):
		return keyCredential
	case strings.Contains(clean+"/", ".config/gcloud/"):
		return keyCredential
	case base == ".env":
		return anyCredential
	case strings.HasPrefix(base, ".env."):
		switch strings.TrimPrefix(base, ".env.") {
		case "example", "sample", "template", "dist", "defaults", "schema":
			return noCredential
		}
		return anyCredential
	}
	return noCredential
}
