package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	"github.com/memproxy/memproxy"
)

// maskIPv6 is the prefix length that identifies a caller: a network can assign the rest
// of the address at will.
const maskIPv6 = 64

// anonymous is the identity of a caller without credentials: its session at its
// address, hashed with a secret key, so that neither can be read from it or guessed.
// The address is that of the connection. It is included so that callers elsewhere
// cannot impersonate a session by using its name.
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

// network is the part of an address that identifies an anonymous caller.
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
