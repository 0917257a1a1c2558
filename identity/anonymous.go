package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	"github.com/memproxy/memproxy"
)

// maskIPv6 is how much of an IPv6 address says who it is: a network has the
// rest to give away.
const maskIPv6 = 64

// anonymous is the identity of a caller that presents nothing: its session at
// its address. Neither can be read off it, nor be found out by guessing without
// the key. The address is that of the connection, and takes part so that nobody
// elsewhere becomes another by naming the other's session.
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

// network is an address as callers are told apart by it.
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
