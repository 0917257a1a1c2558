package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// maskIPv6 is the prefix length that identifies a caller: a network can assign the
// remaining bits of the address at will.
const maskIPv6 = 64

// anonymous returns the identity of a caller without credentials: its session and its
// address, hashed with a secret key, so that neither can be read from the id or guessed.
// The address is that of the connection. It is included so that callers at other
// addresses cannot impersonate a session by using its name.
func (id *Identifier) anonymous(p memproxy.Principal, c memproxy.Credentials) memproxy.Principal {
	p.Group = p.ID
	address, session := id.hash("address", network(c.Peer)), ""
	if !c.Session.IsZero() {
		session = id.hash("session", c.Session.String())
	}
	p.ID = memproxy.AnonymousID(address, session)
	return p
}

func (id *Identifier) hash(what, text string) string {
	h := hmac.New(sha256.New, id.opt.AnonymousKey)
	h.Write([]byte(what + "\x00" + text))
	return hex.EncodeToString(h.Sum(nil))
}

// network returns the part of an address that identifies an anonymous caller.
func network(peer string) string {
	a, err := netip.ParseAddr(peer)
	if err != nil {
		return peer
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, maskIPv6).Masked().String()
}

// fromWebPage reports whether a web page of another site may have made a browser send a
// request. A browser can reach what its host can reach, including loopback, and sends
// some requests without a preflight, so the network address does not identify its user.
// Such a page has its own origin, or a name that resolves to this address (DNS
// rebinding).
func fromWebPage(c memproxy.Credentials) bool {
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

func ownOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	name := hostname(u.Host)
	ip, err := netip.ParseAddr(name)
	return strings.EqualFold(u.Host, host) || name == "localhost" || strings.HasSuffix(name, ".localhost") || err == nil && ip.IsLoopback()
}

// private reports whether outsiders cannot point a host name at another address: it is an
// address itself, or is in a domain that no public server answers for (RFC 6761; RFC 6762
// for "local", which clusters use as well; and "internal", which ICANN reserves).
func private(name string) bool {
	_, err := netip.ParseAddr(name)
	labels := strings.Split(name, ".")
	return err == nil || len(labels) == 1 || slices.Contains([]string{"localhost", "local", "internal", "test"}, labels[len(labels)-1])
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
