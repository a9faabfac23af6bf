package shell

import "strings"

// secretSuffixes end the names of variables that hold credentials.
var secretSuffixes = []string{
	"_API_KEY", "_SECRET_ACCESS_KEY", "_SECRET_KEY", "_SECRET", "_TOKEN", "_PASSWORD",
}

// secretNames are credentials whose names have none of the suffixes.
var secretNames = []string{
	"GOOGLE_APPLICATION_CREDENTIALS", "AWS_ACCESS_KEY_ID", "DATABASE_URL",
	"OTEL_EXPORTER_OTLP_HEADERS", "GTH_TOKEN", "GTH_RUN_TOKEN",
}

// keptNames are let through although a suffix matches: tools that work on
// the user's repositories need them.
var keptNames = []string{"GITHUB_TOKEN", "GH_TOKEN"}

// codeNames make bash or the loader run code, or change bash's grammar,
// before the script starts.
var codeNames = []string{
	"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "PS4",
	"BASH_XTRACEFD", "BASH_COMPAT", "PROMPT_COMMAND", "BASH_LOADABLES_PATH",
}

// FilterEnv returns env without credentials and without variables that
// carry code, the names in extraSecretNames included. Names are compared
// without regard to case. docs/shell.md has the list.
func FilterEnv(env []string, extraSecretNames []string) []string {
	out := make([]string, 0, len(env))
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" || carriesCode(name) || isSecret(name, extraSecretNames) {
			continue
		}
		out = append(out, kv)
	}
	return out
}

func isSecret(name string, extra []string) bool {
	if foldIn(name, extra) {
		return true
	}
	if foldIn(name, keptNames) {
		return false
	}
	if foldIn(name, secretNames) {
		return true
	}
	upper := strings.ToUpper(name)
	for _, s := range secretSuffixes {
		if strings.HasSuffix(upper, s) {
			return true
		}
	}
	return false
}

func carriesCode(name string) bool {
	upper := strings.ToUpper(name)
	return foldIn(name, codeNames) || strings.HasPrefix(upper, "BASH_FUNC_") ||
		strings.HasPrefix(upper, "LD_") || strings.HasPrefix(upper, "DYLD_")
}

// hardenEnv drops what would let the environment reach around the guards,
// whoever built it.
func hardenEnv(env []string) []string {
	out := make([]string, 0, len(env))
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		if ok && name != "" && !carriesCode(name) && strings.IndexByte(kv, 0) < 0 {
			out = append(out, kv)
		}
	}
	return out
}

func foldIn(name string, list []string) bool {
	for _, l := range list {
		if strings.EqualFold(name, l) {
			return true
		}
	}
	return false
}
