package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals"
)

// Sizes and names of files.
const (
	maxUserFile = 1 << 20
	appDir      = "gth-server"
	fileName    = "config.jsonc"
)

// Overrides are values of the command line. Empty fields are not given.
type Overrides struct {
	File    string // --config; a file that is missing is an error
	Model   string // --model provider:name
	BaseURL string // --base-url
	Rung    string // --rung
	DataDir string // --data-dir
}

// Effective is the configuration of one surface after all layers.
type Effective struct {
	Config
	Surface string
	File    string // user file that was read, empty when there is none
	DataDir string // absolute; nothing was created
	// UserDir is where the user's configuration belongs, whether it is
	// there or not; empty without a home directory.
	UserDir string
	Rung    approvals.Rung
	Ceiling approvals.Rung // loosest rung that a session may reach
	// Origins maps the path of a value, for example "model.name" or
	// "approvals.deny[0]", to where it was stated: "built-in", "file:line", a
	// variable or a flag.
	Origins map[string]string
}

// Rules returns the three lists for approvals.Compile.
func (e *Effective) Rules() approvals.Rules {
	return approvals.Rules{Deny: e.Approvals.Deny, Escalate: e.Approvals.Escalate, Allow: e.Approvals.Allow}
}

// Load reads the user's file and puts environment and flags above it. env
// looks up environment variables. surface is acp, agui or run. The error
// joins every problem found; nothing is returned beside one.
func Load(o Overrides, env func(string) string, surface string) (*Effective, error) {
	if !slices.Contains(surfaces(), surface) {
		return nil, fmt.Errorf("surface %q is unknown: use %s", surface, orList(surfaces()))
	}
	l := &loader{o: o, env: env, surface: surface}
	file, t, err := l.userLayer()
	l.add(err)
	e := &Effective{Surface: surface, File: file}
	if dir := baseDir(l.env, "XDG_CONFIG_HOME", ".config"); dir != "" {
		e.UserDir = filepath.Join(dir, appDir)
	}
	if t == nil {
		t = object()
	}
	l.checkRaters(t)
	t = forSurface(mergeLayers(builtIn(), t, ""), surface)
	l.overrideModel(t)
	rung := l.rung(t)
	e.DataDir = l.dataDir()
	if err := errors.Join(l.problems...); err != nil {
		return nil, err
	}
	if e.Config, err = decode(t); err != nil {
		return nil, err
	}
	e.applyShellTool(t)
	e.Origins = map[string]string{}
	t.origins("", e.Origins)
	l.stand(e, t, rung)
	l.checkRules(e)
	l.checkModel(e)
	if err := errors.Join(l.problems...); err != nil {
		return nil, err
	}
	return e, nil
}

// loader collects problems on the way.
type loader struct {
	o        Overrides
	env      func(string) string
	surface  string
	problems []error
}

func (l *loader) add(err error) {
	if err != nil {
		l.problems = append(l.problems, err)
	}
}

func (l *loader) addf(format string, args ...any) { l.add(fmt.Errorf(format, args...)) }

// given returns the flag if it is set, else the variable, and where it is from.
func (l *loader) given(value, flag, variable string) (text, source string) {
	if value != "" {
		return value, flag
	}
	return l.env(variable), variable
}

// userLayer reads the user's file. Only a file that was asked for must exist.
func (l *loader) userLayer() (string, *tree, error) {
	file, source := l.given(l.o.File, "--config", "GTH_CONFIG")
	asked := file != ""
	if !asked {
		dir := baseDir(l.env, "XDG_CONFIG_HOME", ".config")
		if dir == "" {
			return "", nil, nil
		}
		file, source = filepath.Join(dir, appDir, fileName), "the user's configuration"
	}
	full, err := filepath.Abs(file)
	if err != nil {
		return "", nil, fmt.Errorf("configuration file %q (%s): %w: give the full path", file, source, err)
	}
	src, err := readRegular(full, maxUserFile)
	if errors.Is(err, os.ErrNotExist) && !asked {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("configuration file %q (%s): %w", file, source, err)
	}
	c := &checker{file: full, src: src, dir: filepath.Dir(full), home: home(l.env)}
	t, err := c.parse(root, "")
	return full, t, err
}

// readRegular reads a regular file of at most most bytes. It does not wait
// for the other end of a FIFO.
func readRegular(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, fmt.Errorf("cannot be opened: %w: check the path and its permissions", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file: name a file")
	}
	src, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if int64(len(src)) > most {
		return nil, fmt.Errorf("is larger than %d bytes: make it smaller", most)
	}
	return src, nil
}

func home(env func(string) string) string {
	if h := env("HOME"); h != "" {
		return h
	}
	return env("USERPROFILE")
}

// baseDir returns the directory that variable names, or the one below the
// home directory that stands for it. A relative one counts as not set.
func baseDir(env func(string) string, variable, fallback string) string {
	if dir := env(variable); filepath.IsAbs(dir) {
		return dir
	}
	if h := home(env); filepath.IsAbs(h) {
		return filepath.Join(h, fallback)
	}
	return ""
}

func (l *loader) dataDir() string {
	dir, source := l.given(l.o.DataDir, "--data-dir", "GTH_DATA_DIR")
	if dir == "" {
		base := baseDir(l.env, "XDG_DATA_HOME", filepath.Join(".local", "share"))
		if base == "" {
			l.addf("data directory: neither HOME nor XDG_DATA_HOME is set: set one, or GTH_DATA_DIR")
			return ""
		}
		return filepath.Join(base, appDir)
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		l.addf("data directory %q (%s): %w: give the full path", dir, source, err)
	}
	return full
}

// overrideModel puts the model and base URL that environment or flags give
// into t. A model of another provider takes nothing over that belongs to the
// provider, so no key goes to a server it is not meant for.
func (l *loader) overrideModel(t *tree) {
	if text, source := l.given(l.o.Model, "--model", "GTH_MODEL"); text != "" {
		provider, name, ok := strings.Cut(text, ":")
		switch bad := modelSpec.field("provider").badText(provider); {
		case !ok || name == "" || provider == "":
			l.addf("%s %q is not a model: write it as provider:name, for example openai:gpt-5", source, text)
		case bad != "":
			l.addf("%s: provider %s", source, bad)
		default:
			m := object()
			for k, v := range t.get("model").mapping() {
				if k != "script" && (provider == t.str("model", "provider") || k == "maxTokens" || k == "temperature") {
					m.keys[k] = v
				}
			}
			m.keys["provider"], m.keys["name"] = textTree(provider, source), textTree(name, source)
			t.keys["model"] = m
		}
	}
	if text, source := l.given(l.o.BaseURL, "--base-url", "GTH_BASE_URL"); text != "" {
		if bad := badBaseURL(text); bad != "" {
			l.addf("%s %s", source, bad)
			return
		}
		m := object()
		for k, v := range t.get("model").mapping() {
			m.keys[k] = v
		}
		m.keys["baseUrl"] = textTree(text, source)
		t.keys["model"] = m
	}
}

func (t *tree) mapping() map[string]*tree {
	if t == nil {
		return nil
	}
	return t.keys
}

// rung returns the rung that is stated highest, nil when none is. A name
// that does not exist is a problem.
func (l *loader) rung(t *tree) *tree {
	text, source := l.given(l.o.Rung, "--rung", "GTH_RUNG")
	if text == "" {
		return t.get("approvals", "mode")
	}
	if _, err := approvals.ParseRung(text); err != nil {
		if why, ok := rungSpec("").renamed[text]; ok {
			err = fmt.Errorf("rung %q %s", text, why)
		}
		l.addf("%s: %w", source, err)
	}
	return textTree(text, source)
}

// defaultCeiling is the loosest rung of a surface whose ceiling is not stated:
// the HTTP surface admits clients that the user does not sit in front of.
func defaultCeiling(surface string) approvals.Rung {
	if surface == surfaceAGUI {
		return approvals.Auto
	}
	return approvals.Bypass
}

// stand settles rung and ceiling. A stated rung above the ceiling is an
// error; the default one is lowered.
func (l *loader) stand(e *Effective, t, rung *tree) {
	ceilingFrom := "built-in"
	e.Ceiling = defaultCeiling(l.surface)
	if c := e.Approvals.Ceiling; c != nil {
		e.Ceiling, ceilingFrom = *c, t.get("approvals", "ceiling").source
	}
	e.Origins["approvals.ceiling"] = ceilingFrom
	if rung == nil {
		if e.Rung = approvals.Assisted; looser(e.Rung, e.Ceiling) {
			e.Rung = e.Ceiling
		}
		e.Origins["approvals.mode"] = "built-in"
		return
	}
	r, err := approvals.ParseRung(rung.text)
	if err != nil {
		l.addf("%s: %w", rung.source, err)
		return
	}
	e.Rung, e.Approvals.Mode = r, &r
	e.Origins["approvals.mode"] = rung.source
	if looser(e.Rung, e.Ceiling) {
		l.addf("rung %s (%s) is looser than the ceiling %s of %s (%s): choose a stricter rung, or raise approvals.ceiling", e.Rung, rung.source, e.Ceiling, l.surface, ceilingFrom)
	}
}

// looser reports whether a stands behind b on the ladder.
func looser(a, b approvals.Rung) bool {
	ladder := approvals.Rungs()
	return slices.Index(ladder, a) > slices.Index(ladder, b)
}

// checkRaters looks for the profiles that name a rater.
func (l *loader) checkRaters(t *tree) {
	profiles := t.get("profiles")
	check := func(at string, rater *tree) {
		if rater == nil || profiles.get(rater.text) != nil {
			return
		}
		fix := "define it under profiles"
		if names := profiles.sorted(); len(names) > 0 {
			fix += ", or use " + orList(names)
		}
		l.addf("%s: %s %q is not a profile: %s", rater.source, at, rater.text, fix)
	}
	check("approvals.rater", t.get("approvals", "rater"))
	for _, name := range surfaces() {
		check("commands."+name+".approvals.rater", t.get("commands", name, "approvals", "rater"))
	}
}

func (l *loader) checkRules(e *Effective) {
	a := e.Approvals
	if n := len(a.Allow) + len(a.Deny) + len(a.Escalate); n > e.Limits.Rules {
		l.addf("approvals has %d entries and limits.rules permits %d: remove some, or raise the limit", n, e.Limits.Rules)
		return
	}
	if _, err := approvals.Compile(e.Rules()); err != nil {
		l.add(err)
	}
}

func (l *loader) checkModel(e *Effective) {
	switch m := e.Model; {
	case m.Provider == "" && (m.Name != "" || m.Script != ""):
		l.addf("model.provider is not set: use %s", orList(providers()))
	case m.Provider == "openai" && m.Name == "":
		l.addf("model.name is not set: name the model that %s serves", m.Provider)
	case m.Provider == "scripted" && m.Name == "" && m.Script == "":
		l.addf("model.script is not set: name the file of turns")
	}
}

// applyShellTool puts what builtInTools.run_shell_command states over the
// section shell.
func (e *Effective) applyShellTool(t *tree) {
	shell, ok := e.BuiltInTools["run_shell_command"]
	if !ok {
		return
	}
	from := t.get("builtInTools", "run_shell_command")
	put := func(value int, dst *int, key, name string) {
		if value == 0 {
			return
		}
		*dst = value
		if v := from.get(key); v != nil {
			t.keys["shell"] = mergeLayers(t.keys["shell"], &tree{source: v.source, keys: map[string]*tree{name: v}}, "shell")
		}
	}
	put(shell.Timeout, &e.Shell.TimeoutMs, "timeout", "timeoutMs")
	put(shell.MaxOutputBytes, &e.Shell.MaxOutputBytes, "maxOutputBytes", "maxOutputBytes")
}
