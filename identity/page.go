package identity

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// byPage reports whether a web page of another site may have made a browser send a
// request. A browser reaches what its host reaches, loopback included, and sends some
// requests without preflight, so a position in the network identifies nobody there.
// Such a page has an origin of its own, or a name that resolved to this address (DNS
// rebinding).
func byPage(c memproxy.Credentials) bool {
	origins := c.Header.Values("Origin")
	if slices.ContainsFunc(origins, func(o string) bool { return !ownOrigin(o, c.Host) }) {
		return true
	}
	if len(origins) == 0 {
		switch c.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
		default:
			return true
		}
	}
	peer, err := netip.ParseAddr(c.Peer)
	return err == nil && peer.Unmap().IsLoopback() && !private(hostname(c.Host))
}

// ownOrigin reports whether an origin is the requested host, or a page of this machine.
func ownOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	name := hostname(u.Host)
	ip, err := netip.ParseAddr(name)
	return strings.EqualFold(u.Host, host) || name == "localhost" || strings.HasSuffix(name, ".localhost") || err == nil && ip.IsLoopback()
}

// private reports whether a host name cannot be pointed at another address by
// outsiders: it is an address itself, or in a domain that no public server answers for
// (RFC 6761; RFC 6762 for "local", which clusters use as well; and "internal", which
// ICANN reserves).
func private(name string) bool {
	_, err := netip.ParseAddr(name)
	labels := strings.Split(name, ".")
	return err == nil || len(labels) == 1 || slices.Contains([]string{"localhost", "local", "internal", "test"}, labels[len(labels)-1])
}

// hostname is a host without its port, folded.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
