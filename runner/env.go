package runner

import "github.com/gth-server/gth-server/runner/internal/tools/shell"

// ToolEnv returns what tools inherit of environ: everything but secrets and
// variables that make programs run code. secret names further variables
// that stay out. See docs/shell.md, "Environment".
func ToolEnv(environ, secret []string) []string { return shell.FilterEnv(environ, secret) }
