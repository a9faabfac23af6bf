package shellscan

import (
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// canonicalHost is the spelling of a host that rules are compared with:
// lower case, no trailing dot, no brackets, A-labels. A host with parts
// that are not known stays as it is.
func canonicalHost(host string) string {
	h := strings.TrimSuffix(strings.ToLower(host), ".")
	h = strings.TrimSuffix(strings.TrimPrefix(h, "["), "]")
	if a, err := netip.ParseAddr(h); err == nil {
		return a.Unmap().String()
	}
	for i := 0; i < len(h); i++ {
		if h[i] >= 0x80 {
			if a, err := idna.Lookup.ToASCII(h); err == nil {
				return a
			}
			break
		}
	}
	return h
}

// urlHost returns host and port of a URL with a scheme.
func urlHost(s string) (host, port string, ok bool) {
	i := strings.Index(s, "://")
	if i <= 0 || !schemeWord(s[:i]) {
		return "", "", false
	}
	return splitAuthority(s[i+3:])
}

func schemeWord(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && (i == 0 || s[i] != '+' && s[i] != '-' && s[i] != '.' && (s[i] < '0' || s[i] > '9')) {
			return false
		}
	}
	return s != ""
}

// splitAuthority reads user@host:port before the path.
func splitAuthority(s string) (host, port string, ok bool) {
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		s = s[:i]
	}
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		s = s[i+1:]
	}
	if strings.HasPrefix(s, "[") {
		if i := strings.IndexByte(s, ']'); i > 0 {
			return s[:i+1], strings.TrimPrefix(s[i+1:], ":"), true
		}
	}
	host, port, _ = strings.Cut(s, ":")
	return host, port, host != ""
}

// remoteHost returns the host of a [user@]host:path operand.
func remoteHost(s string) (host string, ok bool) {
	at := strings.IndexByte(s, '@')
	rest := s[at+1:]
	if strings.HasPrefix(rest, "[") {
		if i := strings.Index(rest, "]:"); i > 0 {
			return rest[:i+1], true
		}
	}
	i := strings.IndexByte(rest, ':')
	slash := strings.IndexByte(rest, '/')
	if i <= 0 || slash >= 0 && slash < i || strings.HasPrefix(rest[i:], "://") {
		return "", false
	}
	return rest[:i], true
}
