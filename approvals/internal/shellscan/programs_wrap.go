package shellscan

// wrappers are the programs that run the command in their operands.
var wrappers = map[string]*wrapper{
	"sudo": {elevated: true, assigns: true, quiet: "l list v validate K remove-timestamp V version e edit help", alone: true, opts: options{
		flags: "AbEeHiKkNnPSsVvlB", values: "CDghpRrTtUu",
		long: "askpass background bell preserve-env? edit set-home help login remove-timestamp reset-timestamp list non-interactive preserve-groups stdin shell version validate close-from= chdir= group= host= prompt= chroot= role= type= command-timeout= other-user= user= no-update",
	}},
	"doas": {elevated: true, quiet: "C L", alone: true, opts: options{flags: "nsL", values: "aCu"}},
	"su": {elevated: true, permute: true, script: "c command session-command", alone: true, opts: options{
		flags: "lmpPfTh", values: "cCgGsw", long: "command= session-command= login group= supp-group= shell= preserve-environment whitelist-environment= pty fast",
	}},
	"runuser": {elevated: true, script: "c command session-command", alone: true, opts: options{
		flags: "lmpPfTh", values: "cCgGsuw", long: "command= session-command= login user= group= supp-group= shell= preserve-environment whitelist-environment= pty fast",
	}},
	"env": {assigns: true, script: "S split-string", opts: options{
		flags: "i0v", values: "uCSaP", long: "ignore-environment null unset= chdir= split-string= block-signal? default-signal? ignore-signal? list-signal-handling debug argv0= help version",
	}, quiet: "help version"},
	"timeout": timeoutRow, "gtimeout": timeoutRow,
	"nice":    {opts: options{values: "n", digits: true, long: "adjustment= help version"}, quiet: "help version"},
	"ionice":  {quiet: "p pid P pgid u uid", opts: options{flags: "t", values: "cnpPu", long: "class= classdata= pid= pgid= uid= ignore"}},
	"nohup":   {opts: options{long: "help version"}, quiet: "help version"},
	"stdbuf":  {opts: options{values: "ioe", long: "input= output= error= help version"}},
	"setsid":  {opts: options{flags: "cfw", long: "ctty fork wait help version"}},
	"time":    {out: "o output", opts: options{flags: "apvqV", values: "fo", long: "append format= output= portability verbose quiet help version"}},
	"command": {quiet: "v V", opts: options{flags: "pvV"}},
	"builtin": {},
	"exec":    {opts: options{flags: "cl", values: "a"}},
	"eval":    {},
	"xargs": {input: true, opts: options{
		flags: "0rtpxo", values: "aEILnPsdJRS", glued: "eil",
		long: "null arg-file= delimiter= eof? replace? max-lines? max-args= max-procs= interactive no-run-if-empty max-chars= show-limits verbose exit open-tty process-slot-var= help version",
	}},
	"parallel": {input: true, opts: options{
		flags: "kmXtuvq0", values: "jJaINnPSdDLs",
		long: "jobs= joblog= arg-file= max-args= keep-order halt= sshlogin= tag bar progress eta no-notice will-cite dry-run verbose timeout= retries= results= colsep= link pipe null quote group ungroup line-buffer delay= load= memfree= shuf",
	}},
	"watch": {join: true, opts: options{
		flags: "bdegtcxpwrC", values: "nqs", long: "beep color no-color differences? errexit exec chgexit interval= precise no-title no-wrap no-rerun equexit= help version",
	}},
	"flock": {skip: 1, script: "c command", opts: options{
		flags: "exsnuoFvh", values: "wE", long: "shared exclusive unlock nonblock wait= timeout= conflict-exit-code= close no-fork verbose help version",
	}},
	"script": {script: "c command", quiet: "help version", alone: true, skip: 1, opts: options{
		flags: "aefqrk", values: "cIOBomEtT", long: "append command= return flush force echo= log-in= log-out= log-io= log-timing= logging-format= output-limit= quiet timing? help version",
	}},
	"busybox": {opts: options{long: "list list-full help install"}, quiet: "list list-full help install"},
	"toybox":  {opts: options{long: "help list"}},
	"chroot":  {elevated: true, skip: 1, alone: true, opts: options{long: "userspec= groups= skip-chdir help version", values: "ugG"}},
	"strace":  {out: "o output", opts: straceOptions},
	"ltrace":  {opts: straceOptions},
	"taskset": {skip: 1, opts: options{flags: "apcV", long: "all-tasks pid cpu-list help version"}, quiet: "p pid"},
	"chrt":    {skip: 1, opts: options{flags: "abdfiormpvR", values: "TPD"}, quiet: "p pid m max"},
	"setarch": {skip: 1, opts: options{flags: "RFILSTXZBv3"}},
	"numactl": {opts: options{flags: "sHal", values: "iNCmp"}},
	"prlimit": {quiet: "p pid", opts: options{glued: "cdefilmnqrstuvxy", flags: "o", long: "pid= nofile? nproc? as? core? cpu? data? fsize? stack? rss?"}},
	"unshare": {elevated: true, alone: true, opts: options{
		flags: "munipUCTfrcR", values: "GSw", long: "mount? uts? ipc? net? pid? user? cgroup? time? fork map-root-user map-current-user map-user= map-group= mount-proc? kill-child? propagation= root= wd= setuid= setgid= keep-caps setgroups=",
	}},
	"nsenter": {elevated: true, alone: true, opts: options{
		flags: "aFZe", glued: "muinpUCTrw", values: "tSGW", long: "target= all mount? uts? ipc? net? pid? user? cgroup? time? root? wd? setuid= setgid= preserve-credentials no-fork",
	}},
	"setpriv": {elevated: true, opts: options{
		flags: "d", long: "reuid= regid= ruid= euid= rgid= egid= clear-groups keep-groups init-groups groups= inh-caps= ambient-caps= bounding-set= no-new-privs pdeathsig= reset-env securebits= dump",
	}},
	"fakeroot": {opts: options{flags: "uv", values: "lsibf"}}, "unbuffer": {opts: options{flags: "p"}}, "chronic": {opts: options{flags: "ev"}},
	"caffeinate": {opts: options{flags: "disum", values: "tw"}}, "setlock": {skip: 1, opts: options{flags: "nNxX"}}, "softlimit": {opts: options{flags: "h", values: "adfclmnoprst"}},
	"proxychains": {opts: options{flags: "q", values: "f"}}, "proxychains4": {opts: options{flags: "q", values: "f"}}, "torsocks": {}, "catchsegv": {},
	"gnice": {opts: options{values: "n", digits: true}},
}

var timeoutRow = &wrapper{skip: 1, quiet: "help version", opts: options{
	flags: "vfp", values: "ks", long: "foreground preserve-status kill-after= signal= verbose help version",
}}

var straceOptions = options{
	flags: "fFcCdDhikqrtTvVxXyYzZnwA", values: "abeEIoOpPsSuUlnx", long: "output= trace= follow-forks summary-only quiet? absolute-timestamps? decode-fds? attach= user= string-limit=",
}
