package shellscan

import (
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// gitGlobal are the options between git and its subcommand.
var gitGlobal = options{
	flags: "pPhv", values: "Cc",
	long: "git-dir= work-tree= namespace= exec-path? paginate no-pager no-replace-objects bare literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs no-optional-locks super-prefix= config-env= version help html-path man-path info-path list-cmds= attr-source=",
}

// gitSub says of a subcommand what its options mean.
type gitSub struct {
	opts   options
	same   string
	hidden string
	out    string
	net    bool // operands may be repositories
}

var gitSubs = map[string]*gitSub{
	"push": {net: true, hidden: "receive-pack exec", same: "f=force d=delete n=dry-run u=set-upstream", opts: options{
		flags: "nfqvdu46", values: "o", long: "all branches mirror delete tags dry-run porcelain force force-with-lease? force-if-includes receive-pack= exec= repo= set-upstream thin no-thin quiet verbose progress recurse-submodules? verify no-verify signed? atomic prune follow-tags push-option= ipv4 ipv6",
	}},
	"reset": {same: "q=quiet p=patch N=intent-to-add", opts: options{
		flags: "qpN", long: "soft mixed hard merge keep quiet patch intent-to-add no-refresh refresh pathspec-from-file= pathspec-file-nul recurse-submodules?",
	}},
	"branch": {same: "d=delete m=move c=copy f=force", opts: options{
		flags: "dDmMcCflraqvitu", long: "delete move copy force list remotes all quiet verbose show-current track? no-track set-upstream-to= unset-upstream edit-description contains? no-contains? merged? no-merged? sort= points-at= format= color? no-color column? abbrev= ignore-case recurse-submodules",
	}},
	"clean": {same: "f=force n=dry-run i=interactive q=quiet", opts: options{flags: "dfinqxX", values: "e", long: "force interactive dry-run quiet exclude="}},
	"checkout": {same: "f=force q=quiet p=patch", opts: options{
		flags: "fqpmtdl", values: "bB", long: "force quiet ours theirs track? no-track detach merge patch conflict= orphan= progress guess no-guess overlay no-overlay ignore-skip-worktree-bits pathspec-from-file=",
	}},
	"switch":  {same: "f=force c=create C=force-create d=detach", opts: options{flags: "fqmtd", values: "cC", long: "force discard-changes create= force-create= detach quiet merge track? no-track orphan= guess no-guess"}},
	"restore": {same: "s=source S=staged W=worktree", opts: options{flags: "SWqmp", values: "s", long: "source= staged worktree quiet ours theirs merge patch conflict= progress ignore-unmerged"}},
	"commit": {same: "a=all m=message n=no-verify", opts: options{
		flags: "apnqvsize", values: "mFCct", glued: "uS", long: "all message= file= amend no-edit edit no-verify verify quiet verbose signoff author= date= template= allow-empty allow-empty-message fixup= squash= reuse-message= reedit-message= reset-author patch dry-run cleanup= untracked-files? gpg-sign? no-gpg-sign include only interactive trailer= status no-status",
	}},
	"stash":      {opts: options{flags: "pkuaqS", values: "m", long: "message= include-untracked all keep-index no-keep-index patch quiet index staged"}},
	"rebase":     {hidden: "x exec", same: "i=interactive x=exec", opts: options{flags: "ipqvnfkmr", values: "xsX", glued: "SC", long: "interactive onto= exec= continue abort skip quit edit-todo autosquash no-autosquash autostash no-autostash root keep-base update-refs strategy= strategy-option= rebase-merges? no-verify quiet verbose stat no-stat fork-point no-ff force-rebase committer-date-is-author-date"}},
	"fetch":      {net: true, hidden: "upload-pack", opts: options{flags: "apfktnquvP46m", values: "jo", long: "all append depth= deepen= unshallow force keep multiple prune prune-tags tags no-tags upload-pack= quiet verbose recurse-submodules? no-recurse-submodules jobs= refmap= dry-run progress set-upstream update-head-ok server-option= filter= ipv4 ipv6 shallow-since= shallow-exclude="}},
	"pull":       {net: true, hidden: "upload-pack", opts: options{flags: "qvnaftkp46", values: "sXjo", glued: "rS", long: "all rebase? no-rebase ff-only ff no-ff upload-pack= quiet verbose tags depth= prune autostash no-autostash strategy= strategy-option= squash commit no-commit edit no-edit force recurse-submodules? allow-unrelated-histories no-verify dry-run"}},
	"clone":      {net: true, hidden: "u upload-pack c config template", opts: options{flags: "lsqvn46", values: "ubcoj", long: "upload-pack= branch= config= origin= template= depth= recurse-submodules? recursive shallow-submodules no-shallow-submodules single-branch no-single-branch bare mirror local no-local no-hardlinks shared reference= reference-if-able= dissociate quiet verbose progress no-checkout jobs= filter= sparse separate-git-dir= shallow-since= shallow-exclude= no-tags tags server-option= also-filter-submodules"}},
	"ls-remote":  {net: true, hidden: "upload-pack exec", opts: options{flags: "htq", values: "o", long: "upload-pack= exec= heads branches tags refs quiet exit-code get-url sort= symref server-option="}},
	"archive":    {net: true, hidden: "exec", out: "o output", opts: options{flags: "lv0123456789", values: "o", long: "remote= exec= output= format= prefix= list verbose add-file= add-virtual-file= worktree-attributes mtime="}},
	"remote":     {net: true, opts: options{flags: "vntmf", values: "", long: "verbose"}},
	"submodule":  {net: true, opts: options{flags: "qbf", long: "quiet init recursive remote force depth= branch= name= reference= merge rebase checkout no-fetch jobs="}},
	"difftool":   {hidden: "x extcmd t tool", opts: options{flags: "dyg", values: "xt", long: "extcmd= tool= dir-diff no-prompt prompt gui symlinks"}},
	"mergetool":  {hidden: "t tool", opts: options{values: "t", long: "tool="}},
	"grep":       {hidden: "O open-files-in-pager", opts: options{glued: "O", flags: "iIwvhHEGPFnlLcpaqzor", values: "efABCm", long: "open-files-in-pager? cached no-index untracked"}},
	"send-email": {hidden: "smtp-server sendmail-cmd to-cmd cc-cmd header-cmd", opts: options{long: "smtp-server= sendmail-cmd= to-cmd= cc-cmd= header-cmd= to= cc= from= subject="}},
	"log":        gitLogRow, "diff": gitLogRow, "show": gitLogRow, "format-patch": gitLogRow, "reflog": gitLogRow, "shortlog": gitLogRow,
	"config":   {opts: options{flags: "lez", values: "f", long: "global system local worktree file= blob= get get-all get-regexp get-urlmatch add replace-all unset unset-all rename-section remove-section list edit type= bool int path null name-only show-origin show-scope default= includes"}},
	"init":     {hidden: "template", opts: options{flags: "q", values: "b", long: "template= bare quiet initial-branch= shared? separate-git-dir= object-format="}},
	"worktree": {same: "f=force", opts: options{flags: "fdqvzn", values: "bB", long: "force detach checkout no-checkout lock reason= porcelain verbose expire= dry-run"}},
	"tag":      {same: "d=delete f=force", opts: options{flags: "asdflvn", values: "mFu", long: "annotate sign delete force list verify message= file= sort= contains? merged? points-at= format= column?"}},
	"rm":       {same: "r=recursive f=force n=dry-run q=quiet", opts: options{flags: "frnq", long: "force cached ignore-unmatch dry-run quiet sparse recursive"}},
}

var gitLogRow = &gitSub{out: "output o output-directory", opts: options{
	flags: "pusmcgiEFPqzwbaWRrtl", values: "nGSLOo", glued: "UMCBDX", digits: true,
	long: "output= output-directory= ext-diff no-ext-diff textconv no-textconv stat? oneline format= pretty? graph all branches? tags? remotes? grep= author= committer= since= after= until= before= max-count= skip= follow name-only name-status patch raw unified= decorate? no-decorate color? no-color word-diff? color-words? cached staged no-index exit-code quiet check numstat shortstat summary abbrev? no-renames find-renames? diff-filter= reverse first-parent merges no-merges topo-order date= show-signature remerge-diff relative? ignore-all-space ignore-space-change ignore-blank-lines minimal patience histogram diff-algorithm= stdin abbrev-commit left-right cherry-pick cherry-mark walk-reflogs full-history simplify-by-decoration dense sparse",
}}

// git reads git: global options, the subcommand and its options.
func (w *walker) git(x *execution, args []value) {
	sub, rest := "", args
	same := []string{"git"}
	dirs := w.dirs
	if s, ok := strings.CutPrefix(x.name, "git-"); ok {
		sub = s
	} else {
		p := gitGlobal.parse(args, true)
		rest = args[min(p.rest, len(args)):]
		w.gitGlobals(x, &p)
		if len(rest) == 0 {
			return
		}
		if !rest[0].known() {
			w.unresolved("dynamic-subcommand", rest[0].text, x.c.pos)
			return
		}
		sub, rest = rest[0].text, rest[1:]
	}
	row := gitSubs[sub]
	if row == nil {
		row = &gitSub{}
	}
	p := row.opts.parse(rest, false)
	pr := program{out: row.out, hidden: row.hidden}
	saved := x.prog
	x.prog = &pr
	w.options(x, &p)
	x.prog = saved
	w.gitRuns(x, sub, rest)
	if v, ok := p.get("x", "exec"); ok && sub == "rebase" && v.known() {
		w.latent(x.c.pos, v.text)
	}
	if row.net {
		w.gitHosts(x, &p)
	}
	switch {
	case sub == "config":
		w.gitConfig(x, &p)
	case sub == "diff" && p.has("no-index"), sub == "grep" && p.has("no-index"):
		for _, v := range p.operands {
			w.pathEffect(effect.Read, viaOperand, v, true, true, x.c.pos, x.cmd)
		}
	}
	x.canon = gitCanonical(append(same, sub), sub, row, &p, rest)
	w.dirs = dirs
}

// gitGlobals reads the options before the subcommand.
func (w *walker) gitGlobals(x *execution, p *parsed) {
	for _, o := range p.opts {
		switch o.name {
		case "c", "config-env":
			if !o.val.known() || !quietSetting(o.val.text) {
				x.code = effect.CodeHidden
				if _, script, ok := strings.Cut(o.val.text, "=!"); ok && o.val.known() {
					w.latent(x.c.pos, script)
				}
			}
		case "exec-path":
			if o.has {
				x.code = effect.CodeHidden
			}
		case "C":
			w.changeDir(o.val)
		}
	}
}

// quietSetting reports whether a git setting runs nothing.
func quietSetting(s string) bool {
	name, _, _ := strings.Cut(strings.ToLower(s), "=")
	section, key, _ := strings.Cut(name, ".")
	switch section {
	case "color", "user", "advice", "column", "status", "i18n", "author", "committer", "rerere", "push", "init", "rebase", "merge", "diff", "log", "pull", "fetch", "branch", "safe", "http", "protocol", "index", "feature", "pack", "gc":
		return !strings.Contains(key, "command") && !strings.Contains(key, "textconv") && !strings.Contains(key, "driver") &&
			!strings.Contains(key, "tool") && !strings.Contains(key, "external") && !strings.Contains(key, "templatedir") && !strings.Contains(key, "proxy") && key != "allow" && !strings.HasPrefix(name, "protocol.ext")
	case "core":
		switch key {
		case "quotepath", "autocrlf", "abbrev", "longpaths", "filemode", "ignorecase", "precomposeunicode", "safecrlf", "eol", "commentchar", "untrackedcache", "preloadindex", "bare":
			return true
		}
	case "commit", "tag":
		return key == "gpgsign" || key == "verbose"
	}
	return false
}

// gitRuns notes subcommands whose operands are commands.
func (w *walker) gitRuns(x *execution, sub string, rest []value) {
	first := func(i int) string {
		if i < len(rest) {
			return rest[i].text
		}
		return ""
	}
	switch {
	case sub == "bisect" && first(0) == "run":
		x.code = effect.CodeHidden
		w.latent(x.c.pos, joinText(rest[1:]))
	case sub == "submodule" && hasWord(rest, "foreach"):
		x.code = effect.CodeHidden
		_, script, _ := strings.Cut(joinText(rest), "foreach ")
		w.latent(x.c.pos, strings.TrimPrefix(script, "--recursive "))
	case sub == "filter-branch", sub == "filter-repo", sub == "daemon", sub == "instaweb", sub == "web--browse":
		x.code = effect.CodeHidden
	}
	for _, v := range rest {
		if strings.HasPrefix(v.text, "ext::") {
			x.code = effect.CodeHidden
		}
	}
}

func joinText(vs []value) string {
	var b strings.Builder
	for _, v := range vs {
		b.WriteString(v.text)
		b.WriteByte(' ')
	}
	return b.String()
}

// gitHosts adds the hosts of repository operands.
func (w *walker) gitHosts(x *execution, p *parsed) {
	if v, ok := p.get("remote", "repo"); ok {
		w.gitHost(x, v)
	}
	for _, v := range p.operands {
		w.gitHost(x, v)
	}
}

func (w *walker) gitHost(x *execution, v value) {
	if h, port, ok := urlHost(v.text); ok {
		w.connect(h, port, x.c.pos, x.cmd)
		return
	}
	if strings.Contains(v.text, "::") {
		return
	}
	if h, ok := remoteHost(v.text); ok && strings.Contains(v.text, "@") {
		w.connect(h, "", x.c.pos, x.cmd)
	}
}

// gitConfig adds the file that git config changes.
func (w *walker) gitConfig(x *execution, p *parsed) {
	if p.has("get", "get-all", "get-regexp", "get-urlmatch", "list", "l") {
		return
	}
	ops := p.operands
	if len(ops) > 0 && (ops[0].text == "get" || ops[0].text == "list") {
		return
	}
	if len(ops) < 2 && !p.has("unset", "unset-all", "add", "replace-all", "rename-section", "remove-section", "edit", "e") {
		return
	}
	file := value{text: ".git/config"}
	if f, ok := p.get("f", "file"); ok {
		file = f
	}
	if p.has("system") {
		file = value{text: "/etc/gitconfig"}
	}
	if p.has("global") {
		file = value{text: "~/.gitconfig", flags: fTilde}
		if h := w.r.env.Home; h != "" {
			file = value{text: h + "/.gitconfig"}
		}
	}
	w.pathEffect(effect.Write, viaOperand, file, false, false, x.c.pos, x.cmd)
}

// gitCanonical spells a git command canonically: a refspec with a plus is
// --force, an empty source deletes, -D is a forced delete.
func gitCanonical(out []string, sub string, row *gitSub, p *parsed, rest []value) []string {
	if p.unknown {
		return nil
	}
	for _, a := range rest {
		if !a.known() {
			return nil
		}
	}
	opts := append([]option(nil), p.opts...)
	ops := append([]value(nil), p.operands...)
	switch sub {
	case "push":
		for i, v := range ops {
			if i > 0 && strings.HasPrefix(v.text, "+") {
				ops[i].text = v.text[1:]
				opts = append(opts, option{name: "force"})
			}
			if i > 0 && strings.HasPrefix(ops[i].text, ":") && len(ops[i].text) > 1 {
				ops[i].text = ops[i].text[1:]
				opts = append(opts, option{name: "delete"})
			}
		}
	case "branch":
		opts = split(opts, "D", "delete", "force")
		opts = split(opts, "M", "move", "force")
		opts = split(opts, "C", "copy", "force")
	}
	return canonWords(out, row.same, opts, ops)
}

// split replaces a short option by the long ones that it stands for.
func split(opts []option, short string, long ...string) []option {
	out := opts[:0:0]
	for _, o := range opts {
		if o.name != short {
			out = append(out, o)
			continue
		}
		for _, l := range long {
			out = append(out, option{name: l})
		}
	}
	return out
}
