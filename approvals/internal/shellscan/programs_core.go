package shellscan

// coreRows are builtins and filters with rules of their own.
var coreRows = map[string]*program{
	"cd":        {role: opNone, extra: spCd},
	"pushd":     {role: opNone, extra: spCd},
	"popd":      {role: opNone, extra: spPopd},
	"test":      {role: opNone, extra: spTest},
	"[":         {role: opNone, extra: spTest},
	"printf":    {role: opNone, extra: spPrintf},
	"read":      {role: opNone, extra: spRead, opts: options{flags: "ers", values: "adinNptu"}},
	"mapfile":   {role: opNone, extra: spMapfile, opts: options{flags: "t", values: "dnOsuCc"}},
	"readarray": {role: opNone, extra: spMapfile, opts: options{flags: "t", values: "dnOsuCc"}},
	"trap":      {role: opNone, extra: spTrap},
	"source":    {role: opRead, extra: spSource},
	".":         {role: opRead, extra: spSource},
	"unset":     {role: opNone, extra: spUnset, opts: options{flags: "fvn"}},
	"enable":    {role: opNone, extra: spEnable, opts: options{flags: "adnps", values: "f"}, in: "f", hidden: "f"},

	"grep": grepRow, "egrep": grepRow, "fgrep": grepRow, "ack": grepRow, "ug": grepRow,
	"rg": {role: opRead1, extra: spGrepLike, opts: options{
		flags: "iIlLnNvwxcsSFoUuzHhpPa0q", values: "AeBCdEfgjMmrtT",
		long: "pre= pre-glob= hostname-bin= regexp= file= glob= iglob= type= type-not= max-count= context= after-context= before-context= replace= max-depth= files hidden no-ignore json search-zip",
	}, hidden: "pre hostname-bin search-zip z", in: "f file"},
	"ag": {role: opRead1, extra: spGrepLike, opts: options{flags: "iIlLnvwcsSQaHhU0q", values: "ABCGgmp", long: "pager= ignore= depth="}, hidden: "pager"},
	"jq": {role: opRead1, opts: options{
		flags: "nrRcCsSMejahV", values: "fL",
		long: "arg= argjson= slurpfile= rawfile= args jsonargs raw-output compact-output null-input exit-status slurp sort-keys tab indent= from-file= raw-input join-output",
	}, in: "f from-file"},
	"sort": {role: opRead, opts: options{
		flags: "bdfghiMnrRVcCmsuz", values: "koStT",
		long: "output= compress-program= files0-from= key= field-separator= buffer-size= temporary-directory= parallel= unique reverse numeric-sort human-numeric-sort version-sort random-sort stable zero-terminated check? merge",
	}, out: "o output", hidden: "compress-program"},
	"uniq": {role: opWriteRest, opts: options{flags: "cdDiuz", values: "fsw"}},
	"sed": {role: opRead1, extra: spSed, opts: options{
		flags: "nErsuz", values: "efl", glued: "i",
		long: "quiet silent expression= file= in-place? regexp-extended separate null-data posix debug sandbox follow-symlinks line-length= unbuffered",
	}},
	"awk": awkRow, "gawk": awkRow, "mawk": awkRow, "nawk": awkRow,
	"less": {role: opRead, extra: spLess, hidden: "cmd", opts: options{flags: "aAcCdeEfFgGiIJKLmMnNqQrRsSuUVwWX", values: "bhjkoOpPtTxyz", long: "cmd= log-file= LOG-FILE= prompt="}, out: "o O log-file LOG-FILE"},
	"man":  {role: opNone, hidden: "P pager H html", opts: options{flags: "afkKluwW7", values: "CEeLMmPprS", glued: "HTXZ", long: "pager= html? preprocessor= local-file"}},
	"find": {role: opNone, extra: spFind},
	"fd":   {role: opNone, extra: spFd}, "fdfind": {role: opNone, extra: spFd},
	"xxd":    {role: opRead, extra: spXxd, opts: options{flags: "abCeEhiprRuv", values: "cgklnost"}},
	"strace": {role: opNone, opts: options{values: "o"}, outBy: "o"},
}

var grepRow = &program{role: opRead1, extra: spGrepLike, opts: options{
	flags: "EFGPivwxcLlqsbHhnTUuzaIrRyoZ", values: "efABCmDd", digits: true,
	long: "regexp= file= include= exclude= exclude-dir= exclude-from= color? colour? recursive after-context= before-context= context= max-count= label= binary-files= devices= directories=",
}, in: "f file"}

var awkRow = &program{role: opRead1, extra: spAwk, opts: options{
	flags: "bcCghIMnNOPrsStV", values: "FvfeEilw", long: "file= field-separator= assign= include= load= exec= source= sandbox posix lint? traditional",
}, in: "f file E exec"}

// fileRows are programs whose job is to change files.
var fileRows = map[string]*program{
	"rm": {role: opRemove, dir: true, opts: options{
		flags: "firIRdvPWx", long: "force interactive? recursive dir verbose one-file-system preserve-root? no-preserve-root",
	}, same: "r=recursive R=recursive f=force d=dir v=verbose"},
	"rmdir":  {role: opRemove, opts: options{flags: "pv", long: "parents verbose ignore-fail-on-non-empty"}},
	"unlink": {role: opRemove},
	"shred": {role: opRemove, opts: options{
		flags: "fuvxz", values: "ns", long: "force iterations= random-source= size= remove? verbose exact zero",
	}},
	"srm":        {role: opRemove, dir: true},
	"wipefs":     {role: opRemove, opts: options{flags: "abfhiJnpqV", values: "oOt", long: "all force backup? offset= types="}},
	"blkdiscard": {role: opRemove, opts: options{flags: "fsvz", values: "lop"}},
	"mkfs":       {role: opChange, opts: options{flags: "cvV", values: "tLlb"}},
	"mke2fs":     {role: opChange, opts: options{flags: "cDFjnqSvV", values: "bCdeEGgiIJLmMNoOrtTUz"}},
	"mkswap":     {role: opChange, opts: options{flags: "cf", values: "pLUv"}},
	"fdisk":      {role: opChange, opts: options{flags: "lBxn", values: "bcLtuosCHSwW"}},
	"sfdisk":     {role: opChange}, "parted": {role: opChange}, "sgdisk": {role: opChange}, "gdisk": {role: opChange},
	"chmod": {role: opChange, opts: options{
		flags: "cfvRrwxXstugo", long: "changes silent quiet verbose recursive preserve-root no-preserve-root reference=",
	}, same: "R=recursive"},
	"chown": chownRow, "chgrp": chownRow,
	"chattr":  {role: opChange, opts: options{flags: "RVf", values: "vp"}},
	"setfacl": {role: opChange, opts: options{flags: "bkdRLPnV", values: "mMxX"}},
	"touch":   {role: opWrite, opts: options{flags: "acmfh", values: "drt", long: "date= reference= time= no-create no-dereference"}},
	"mkdir":   {role: opWrite, opts: options{flags: "pvZ", values: "m", long: "parents mode= verbose context?"}},
	"mkfifo":  {role: opWrite, opts: options{flags: "Z", values: "m", long: "mode= context?"}},
	"mknod":   {role: opPossible},
	"tee":     {role: opWrite, opts: options{flags: "aip", long: "append ignore-interrupts output-error?"}},
	"truncate": {role: opWrite, opts: options{
		flags: "co", values: "sr", long: "no-create io-blocks size= reference=",
	}},
	"fallocate": {role: opWrite, opts: options{flags: "cdinvxz", values: "lop"}},
	"cp":        copyRow, "install": copyRow,
	"mv": {role: opMove, opts: copyOptions},
	"ln": {role: opCopy, extra: spLn, opts: options{
		flags: "bdfFiLnPrsTvh", values: "St", long: "backup? force interactive logical no-dereference physical relative symbolic suffix= target-directory= no-target-directory verbose directory",
	}},
	"link":   {role: opCopy},
	"dd":     {role: opNone, extra: spDD},
	"split":  {role: opPossible},
	"csplit": {role: opPossible},
	"patch":  {role: opPossible},
	"tar": {role: opPossible, extra: spTar, hidden: "to-command checkpoint-action use-compress-program I F info-script new-volume-script rsh-command rmt-command", opts: options{
		flags: "AcdrtuxjJzZaBgGhikKlmMnOpPsSUvwWR", values: "bCfFHIKLNTVX",
		long: "file= directory= to-command= checkpoint? checkpoint-action= use-compress-program= info-script= new-volume-script= rsh-command= rmt-command= exclude= exclude-from= files-from= transform= xform= strip-components= owner= group= mode= create extract list append update gzip bzip2 xz zstd verbose get",
	}},
	"zip":   {role: opPossible, hidden: "TT unzip-command", opts: options{single: true, long: "TT= unzip-command= x= i= t= n= b= P="}},
	"unzip": {role: opPossible}, "gzip": {role: opPossible}, "gunzip": {role: opPossible}, "bzip2": {role: opPossible},
	"xz": {role: opPossible}, "zstd": {role: opPossible}, "7z": {role: opPossible}, "cpio": {role: opPossible},
	"tcpdump": {role: opNone, hidden: "z", opts: options{flags: "AbdDeefHhIJKlLnNOpqStuUvxX#", values: "BcCEFGijmMQrsTVwWyzZ"}, outBy: "w"},
}

var chownRow = &program{role: opChange, opts: options{
	flags: "cfhvRHLPx", long: "changes silent quiet verbose recursive dereference no-dereference preserve-root no-preserve-root from= reference=",
}, same: "R=recursive"}

var copyOptions = options{
	flags: "abdfiHlLnPpRrsTuvxZcXD", values: "StgomB",
	long: "archive backup? copy-contents force interactive link dereference no-clobber no-dereference preserve? no-preserve= parents recursive reflink? remove-destination sparse= strip-trailing-slashes symbolic-link suffix= target-directory= no-target-directory update? verbose one-file-system context? group= mode= owner= directory",
}

var copyRow = &program{role: opCopy, dir: true, opts: copyOptions}
