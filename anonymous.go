package memproxy

import "strings"

// Anonymous is the name that all callers without credentials share. The id of each of
// them begins with AnonymousPrefix.
const (
	Anonymous       = "anonymous"
	AnonymousPrefix = Anonymous + ":"
)

// anonymousPart is the length of each hash in an anonymous id, in hex digits.
const anonymousPart = 16

// AnonymousID returns the id of a caller without credentials:
// "anonymous:ADDRESS-SESSION", or "anonymous:ADDRESS" if it names no session. ADDRESS and
// SESSION are keyed hashes, cut to 16 hex digits.
func AnonymousID(address, session string) string {
	id := AnonymousPrefix + address[:anonymousPart]
	if session != "" {
		id += "-" + session[:anonymousPart]
	}
	return id
}

// Account returns the id under which the limits of a principal are counted. It is the
// principal's own id, except for callers without credentials: they can choose another
// session at any time, so all sessions of one address share one account.
func Account(principal string) string {
	rest, ok := strings.CutPrefix(principal, AnonymousPrefix)
	if ok && len(rest) == 2*anonymousPart+1 && rest[anonymousPart] == '-' {
		return principal[:len(AnonymousPrefix)+anonymousPart]
	}
	return principal
}

// Account returns the id under which the principal's limits are counted.
func (p Principal) Account() string { return Account(p.ID) }

// PolicyID returns the id by which policies and budgets know the principal. Callers
// without credentials share the name that the configuration gives them.
func (p Principal) PolicyID() string {
	switch {
	case p.Group != "":
		return p.Group
	case strings.HasPrefix(p.ID, AnonymousPrefix):
		return Anonymous
	}
	return p.ID
}
