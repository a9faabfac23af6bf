package approvals

import (
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// hostPattern is the pattern of a connect entry: a host and perhaps a port.
type hostPattern struct {
	host textPattern
	port string
}

func parseHostPattern(pattern, matcher string) (hostPattern, error) {
	host, port := splitPort(pattern)
	if strings.Contains(pattern, "://") || strings.ContainsAny(host, "/@ \t") || host == "" {
		return hostPattern{}, fieldErr("pattern", "%q is no host: write it like example.com or example.com:8443", pattern)
	}
	if matcher == matchExact {
		canon, ok := canonicalHost(host)
		if !ok {
			return hostPattern{}, fieldErr("pattern", "%q is no valid host name or address", pattern)
		}
		return hostPattern{host: exactText(canon), port: port}, nil
	}
	return hostPattern{host: globText(strings.TrimSuffix(strings.ToLower(host), ".")), port: port}, nil
}

// splitPort splits host:port; an address of version 6 needs brackets for it.
func splitPort(s string) (host, port string) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || (strings.Count(s, ":") > 1 && !strings.HasSuffix(s[:i], "]")) {
		return strings.Trim(s, "[]"), ""
	}
	if _, err := strconv.ParseUint(s[i+1:], 10, 16); err != nil {
		return s, ""
	}
	return strings.Trim(s[:i], "[]"), s[i+1:]
}

// canonicalHost returns the one spelling in which hosts are compared: lower
// case, no trailing dot, A-labels, addresses in their shortest form. ok is
// false for text that is no host.
func canonicalHost(s string) (string, bool) {
	s = strings.TrimSuffix(strings.ToLower(strings.Trim(s, "[]")), ".")
	if s == "" || strings.ContainsAny(s, "\x00/\\@ \t\r\n") {
		return "", false
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Unmap().String(), true
	}
	if a, ok := looseIPv4(s); ok {
		return a, true
	}
	ascii, err := idna.Lookup.ToASCII(s)
	if err != nil {
		// Names that the lookup profile refuses (underscores, say) still
		// resolve; they stay as they are as long as they are ASCII.
		if !isASCII(s) {
			return "", false
		}
		return s, true
	}
	return ascii, true
}

// looseIPv4 reads the forms that inet_aton accepts and dialers resolve: one
// to four parts, each decimal, octal or hexadecimal.
func looseIPv4(s string) (string, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return "", false
	}
	var v uint64
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 0, 32)
		if err != nil || strings.Contains(p, "_") {
			return "", false
		}
		rest := uint(8 * (5 - len(parts)))
		if i < len(parts)-1 {
			rest = 8
		}
		if n >= 1<<rest {
			return "", false
		}
		v = v<<rest | n
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}).String(), true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// matches compares with a canonical host. strict is the allow side, where an
// entry without a port speaks for the scheme's own port only.
func (h hostPattern) matches(host, port string, strict bool) bool {
	if h.port != port && (h.port != "" || (strict && port != "")) {
		return false
	}
	return h.host.match(host)
}
