package identity

import (
	"strings"

	"github.com/memproxy/memproxy"
)

// Rule maps proven names to a principal.
type Rule struct {
	// Name is the path of a SPIFFE id, or the id claim of a token. A "*" between
	// slashes, or colons, matches any one part, as in
	// "system:serviceaccount:team-a:*".
	Name string
	// Principal is the mapped principal. If its ID is empty, the full name is used.
	Principal memproxy.Principal
}

// ruleset is a list of rules for names made of parts; the first match counts.
type ruleset struct {
	rules  []Rule
	sep    string // between parts
	method string
}

// of is the principal that the rules give a name; full is the name as an id.
func (s ruleset) of(name, full string) (p memproxy.Principal, known bool) {
	for _, r := range s.rules {
		if s.fits(r, name) {
			p = r.Principal
			if p.ID == "" {
				p.ID = full
			}
			p.Method = s.method
			return p, true
		}
	}
	return p, false
}

// names reports whether the rules could have given this principal. full: its id is a
// full name.
func (s ruleset) names(p memproxy.Principal, name string, full bool) bool {
	for _, r := range s.rules {
		if r.Principal.Tenant == p.Tenant && (r.Principal.ID == p.ID || r.Principal.ID == "" && full && s.fits(r, name)) {
			return true
		}
	}
	return false
}

func (s ruleset) fits(r Rule, name string) bool {
	want, have := strings.Split(r.Name, s.sep), strings.Split(name, s.sep)
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != have[i] && (want[i] != "*" || have[i] == "") {
			return false
		}
	}
	return true
}
