package memproxy

import "strings"

// Anonymous names all callers without credentials together; the id of each begins
// with AnonymousPrefix.
const (
	Anonymous       = "anonymous"
	AnonymousPrefix = Anonymous + ":"
)

// anonymousPart is the length of each part of an anonymous id, hex digits.
const anonymousPart = 16

// AnonymousID is the id of a caller without credentials, made of the keyed hashes
// of its address and of its session: "anonymous:ADDRESS-SESSION", or
// "anonymous:ADDRESS" if it names no session. Each is cut to 16 digits.
func AnonymousID(address, session string) string {
	id := AnonymousPrefix + address[:anonymousPart]
	if session != "" {
		id += "-" + session[:anonymousPart]
	}
	return id
}

// Account is the id under which a principal's limits are counted. It is the
// principal's own id, except for callers without credentials: they can choose
// another session at any time, so all sessions of one address have one account.
func Account(principal string) string {
	rest, ok := strings.CutPrefix(principal, AnonymousPrefix)
	if ok && len(rest) == 2*anonymousPart+1 && rest[anonymousPart] == '-' {
		return principal[:len(AnonymousPrefix)+anonymousPart]
	}
	return principal
}

// Account is the id under which the principal's limits are counted.
func (p Principal) Account() string { return Account(p.ID) }

// Named is the id by which policies and budgets know the principal: callers without
// credentials share the name that the configuration gives them.
func (p Principal) Named() string {
	switch {
	case p.Group != "":
		return p.Group
	case strings.HasPrefix(p.ID, AnonymousPrefix):
		return Anonymous
	}
	return p.ID
}
