package approvals

import (
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// controlPaths are files that decide what agents, editors, shells, git and
// automation run later, so a write to one asks whatever the rules say. An
// entry matches these components anywhere in a path and everything below
// them; a leading slash ties it to the root. See docs/gate.md.
var controlPaths = indexPaths(
	// git
	".git/hooks", ".git/config", ".git/config.worktree", ".git/info", ".git/modules",
	".gitconfig", ".config/git", ".husky", ".pre-commit-config.yaml", "lefthook.yml", "/etc/gitconfig",
	// agents and editors
	".gth", ".gsloth", ".claude", ".claude.json", ".cursor", ".codex", ".gemini", ".kiro", ".zed", ".vscode",
	".idea", ".continue", ".windsurf", ".roo", ".cline", ".aider.conf.yml", ".opencode", ".amp", ".junie",
	".goose", ".devcontainer", ".mcp.json", "mcp.json", ".config/zed", ".config/opencode", ".config/goose",
	"AGENTS.md", "AGENT.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".cursorrules", ".windsurfrules",
	".clinerules", ".goosehints", ".rules", ".github/copilot-instructions.md", ".github/instructions",
	// shells and the environment
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc",
	".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".inputrc", ".envrc",
	".config/fish", ".config/environment.d", ".pam_environment", ".vimrc", ".config/nvim", ".emacs", ".emacs.d",
	"/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bashrc", "/etc/zsh", "/etc/environment",
	"/etc/ld.so.preload", ".npmrc", ".yarnrc", ".yarnrc.yml", ".ssh",
	// automation
	".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci", "Jenkinsfile", ".travis.yml",
	"azure-pipelines.yml", "bitbucket-pipelines.yml", ".buildkite", ".drone.yml", ".woodpecker",
	".config/autostart", ".config/systemd", ".local/share/systemd", "Library/LaunchAgents",
	"/etc/cron.d", "/etc/crontab", "/etc/cron.daily", "/etc/cron.hourly", "/etc/systemd", "/var/spool/cron",
	"/etc/sudoers", "/etc/sudoers.d",
)

// indexPaths splits paths into lower-case components and files them under
// the first one; it is empty for a path that is tied to the root.
func indexPaths(paths ...string) map[string][][]string {
	out := map[string][][]string{}
	for _, p := range paths {
		parts := strings.Split(strings.ToLower(p), "/")
		out[parts[0]] = append(out[parts[0]], parts)
	}
	return out
}

// controlFile returns the path of the first known or possible write of a
// control file, or "".
func controlFile(targets []target) string {
	for i := range targets {
		t := &targets[i]
		if t.effect.Kind != effect.Write {
			continue
		}
		for _, s := range t.paths {
			if isControl(s.lex, t) || (s.real != s.lex && isControl(s.real, t)) {
				return t.effect.Path
			}
		}
	}
	return ""
}

func isControl(p string, t *target) bool {
	parts := strings.Split(strings.ToLower(p), "/")
	for i, part := range parts {
		// Some file systems drop what ends a name.
		parts[i] = strings.TrimRight(part, ". ")
	}
	for start, part := range parts {
		hit := func(control []string) bool { return overlaps(parts[start:], control, t) }
		if slices.ContainsFunc(controlPaths[part], hit) {
			return true
		}
	}
	return false
}

// overlaps reports whether path begins with control, or names a directory
// above it that is reached as a whole.
func overlaps(path, control []string, t *target) bool {
	for i, c := range control {
		if i == len(path) {
			return t.effect.Dir && i > 0 && path[i-1] != ""
		}
		if path[i] == c || (!t.effect.Static && strings.Contains(path[i], "*") && i > 0 && globMatch(strings.Split(path[i], "*"), c)) {
			continue
		}
		return false
	}
	return true
}
