package memproxy

import "strings"

// Anonymous names all callers together that present nothing; the ids of each
// begin with AnonymousPrefix.
const (
	Anonymous       = "anonymous"
	AnonymousPrefix = Anonymous + ":"
)

// anonymousPart is the length of each part of an anonymous id, hex digits.
const anonymousPart = 16

// AnonymousID is the id of a caller that presents nothing, of the keyed hashes
// of its address and of its session: "anonymous:ADDRESS-SESSION", or
// "anonymous:ADDRESS" where it names no session. Each is cut to 16 digits.
func AnonymousID(address, session string) string {
	id := AnonymousPrefix + address[:anonymousPart]
	if session != "" {
		id += "-" + session[:anonymousPart]
	}
	return id
}

// Account is the id under which what a principal may do is counted. It is the
// principal's own, but for callers that present nothing: whoever wants has
// another session, so all those of one address have one account.
func Account(principal string) string {
	rest, ok := strings.CutPrefix(principal, AnonymousPrefix)
	if ok && len(rest) == 2*anonymousPart+1 && rest[anonymousPart] == '-' {
		return principal[:len(AnonymousPrefix)+anonymousPart]
	}
	return principal
}

// Account is the id under which what the principal may do is counted.
func (p Principal) Account() string { return Account(p.ID) }

// Named is the id by which policies and budgets know the principal: callers
// that present nothing go by the one name that the configuration gives them.
func (p Principal) Named() string {
	switch {
	case p.Group != "":
		return p.Group
	case strings.HasPrefix(p.ID, AnonymousPrefix):
		return Anonymous
	}
	return p.ID
}
