package approvals

import (
	"slices"
	"strings"

	"github.com/gth-server/gth-server/approvals/internal/effect"
)

// listers show that a file is there and never what is in it.
var listers = []string{"ls", "stat", "test", "[", "[["}

// credential reports whether t may read a place where keys and tokens live.
func (c *Reading) credential(t *target) bool {
	if t.effect.Via == effect.ViaOperand && c.lists(t.effect.Cmd) {
		return false
	}
	return slices.ContainsFunc(t.paths, func(s spot) bool { return credentialPath(s.lex) || credentialPath(s.real) })
}

func (c *Reading) lists(cmd int) bool {
	return slices.ContainsFunc(c.effects, func(e Effect) bool {
		return e.Kind == effect.Exec && e.Cmd == cmd && len(e.Argv) > 0 && e.Argv[0].Static && slices.Contains(listers, e.Argv[0].Text)
	})
}

var (
	credentialDirs  = []string{".ssh", ".aws", ".gnupg", ".kube", ".docker"}
	credentialFiles = []string{".netrc", ".npmrc", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"}
	credentialTails = []string{"/.aws/credentials", "/.docker/config.json", "/.kube/config", "/.config/gcloud"}
)

// credentialPath judges a cleaned absolute path.
func credentialPath(p string) bool {
	base := baseName(p)
	switch {
	case strings.HasSuffix(base, ".pub"):
		return false
	case slices.Contains(credentialDirs, base), slices.Contains(credentialFiles, base):
		return true
	case base == ".env", strings.HasPrefix(base, ".env."):
		return true
	case strings.Contains(p, "/.gnupg/"), strings.Contains(p, "/.config/gcloud/"):
		return true
	case strings.HasPrefix(base, "id_") && strings.HasSuffix(strings.TrimSuffix(p, "/"+base), "/.ssh"):
		return true
	}
	return slices.ContainsFunc(credentialTails, func(t string) bool { return strings.HasSuffix(p, t) })
}
