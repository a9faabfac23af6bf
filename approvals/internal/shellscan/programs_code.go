package shellscan

// codeRows are interpreters, build tools and package managers.
var codeRows = map[string]*program{
	"python":  {role: opNone, code: runsScript, opts: options{flags: "bBdEhiIOPqsSuvVx?", values: "cmWX", long: "version help help-all help-env help-xoptions check-hash-based-pycs="}},
	"node":    {role: opNone, code: runsScript, opts: options{flags: "hvic", values: "eprCi", long: "eval= print= require= import= loader= experimental-loader= test version help inspect? inspect-brk? check input-type= env-file= max-old-space-size= watch enable-source-maps no-warnings trace-warnings"}},
	"ruby":    {role: opNone, code: runsScript, opts: options{flags: "acdhlnpsSvwyU", values: "eErICF", glued: "0iKTWx", long: "version help yjit jit disable= enable= encoding="}},
	"perl":    {role: opNone, code: runsScript, opts: options{flags: "acdfhnpsSTtuUvwWX", values: "eEmMIF", glued: "0ilDVxC", long: "version help"}},
	"php":     {role: opNone, code: runsScript, opts: options{flags: "aehilmnqsvw", values: "cdfFrRBESStz", long: "version help ini info"}},
	"lua":     {role: opNone, code: runsScript, opts: options{flags: "iEvW", values: "el"}},
	"deno":    {role: opNone, code: runsScript, net: netURL},
	"bun":     {role: opNone, code: runsProject, net: netURL},
	"java":    {role: opNone, code: runsScript, opts: options{single: true, long: "cp= classpath= jar= version help"}},
	"Rscript": scriptRow, "rscript": scriptRow, "julia": scriptRow, "tclsh": scriptRow, "wish": scriptRow, "guile": scriptRow,
	"groovy": scriptRow, "scala": scriptRow, "swift": scriptRow, "elixir": scriptRow, "fish": scriptRow, "pwsh": scriptRow,
	"powershell": scriptRow, "csh": scriptRow, "tcsh": scriptRow, "nu": scriptRow, "xonsh": scriptRow,
	"sh": shellRow, "bash": shellRow, "dash": shellRow, "zsh": shellRow, "ksh": shellRow, "ash": shellRow, "mksh": shellRow, "rbash": shellRow, "hush": shellRow,

	"npm": packageRow, "pnpm": packageRow, "yarn": packageRow,
	"make": makeRow, "gmake": makeRow,
	"pip": {role: opNone, net: netURL, extra: spSub, url: "i index-url extra-index-url r requirement f find-links", opts: options{
		flags: "UqvhyIe", values: "rcitfd", long: "index-url= extra-index-url= requirement= constraint= find-links= target= upgrade user pre no-deps editable= proxy= trusted-host= cache-dir= quiet verbose",
	}},
	"uv":     {role: opNone, net: netURL, extra: spSub},
	"poetry": {role: opNone, net: netURL, extra: spSub},
	"cargo":  {role: opNone, extra: spSub, hidden: "config", opts: options{flags: "qvhVrZ", values: "pjFC", long: "config= manifest-path= target= package= bin= example= features= profile= color= release all-features no-default-features workspace"}},
	"go": {role: opNone, extra: spSub, hidden: "toolexec exec vettool", opts: options{
		single: true, long: "toolexec= exec= vettool= o= C= run= bench= count= timeout= tags= mod= ldflags= gcflags= cpuprofile= coverprofile= race v x a n json short cover modfile= parallel= p=",
	}, out: "o"},
	"dotnet": {role: opNone, extra: spSub},
	"cmake":  {role: opNone, extra: spSub},
	"rustc":  {role: opPossible}, "gcc": compilerRow, "cc": compilerRow, "clang": compilerRow, "g++": compilerRow, "c++": compilerRow, "clang++": compilerRow,
	"gofmt": {role: opPossible}, "rustfmt": {role: opPossible},
	"eslint":   {role: opPossible, hidden: "rulesdir resolve-plugins-relative-to c config", opts: options{flags: "hv", values: "cf", long: "fix rulesdir= config= ext= format= resolve-plugins-relative-to= quiet max-warnings= cache"}},
	"prettier": {role: opPossible, hidden: "plugin config", opts: options{flags: "clwu", long: "plugin= config= check write list-different ignore-path= parser="}},
	"tsc":      {role: opPossible, opts: options{single: true, long: "p= project= noEmit watch w outDir= b build"}},
	"brew":     {role: opNone, extra: spSub},
}

var scriptRow = &program{role: opNone, code: runsScript, net: netURL}

var shellRow = &program{role: opNone, code: runsScript, opts: shellOptions}

var makeRow = &program{role: opNone, code: runsProject, hidden: "eval", opts: options{
	flags: "bBdehikmnpqrRsStvw", values: "CfIoW", glued: "jlO", long: "eval= directory= file= makefile= include-dir= jobs? load-average? keep-going dry-run just-print recon question silent quiet always-make debug? environment-overrides ignore-errors no-builtin-rules no-builtin-variables print-data-base print-directory no-print-directory touch trace version help old-file= assume-old= new-file= what-if= assume-new= warn-undefined-variables output-sync? stop no-keep-going",
}}

var packageRow = &program{role: opNone, net: netURL, code: runsProject, url: "registry", opts: options{
	flags: "gDSEOBPhvqswdyfa", values: "C", long: "registry= prefix= cwd= dir= filter= workspace= save save-dev save-exact global script-shell= loglevel= access= tag= otp= silent force ignore-scripts production",
}}

var compilerRow = &program{role: opPossible, opts: options{values: "oIDLlWf"}, out: "o"}

// runCommands lists, for programs of which only some subcommands run
// project code, those that do.
var runCommands = map[string]string{
	"pip":    "install download wheel uninstall",
	"uv":     "run sync pip tool add build lock venv",
	"poetry": "run install add update build shell",
	"cargo":  "build b run r test t bench install check c clippy doc d rustc rustdoc fix miri nextest",
	"go":     "run test generate tool",
	"dotnet": "run test watch exec tool",
	"cmake":  "--build -P -E --install",
	"brew":   "install upgrade reinstall",
	"docker": "run exec build buildx compose start create",
}
