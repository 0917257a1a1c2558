package identity

import (
	"strings"

	"github.com/memproxy/memproxy"
)

// Rule maps names that callers prove to a principal.
type Rule struct {
	// Name is the path of a SPIFFE id, or the id claim of a token. A "*" between
	// slashes, or colons, matches any one part, as in
	// "system:serviceaccount:team-a:*".
	Name string
	// Principal is who it is. An empty ID stands for the name in full.
	Principal memproxy.Principal
}

// ruleset are rules, of which the first that fits counts, for names of parts.
type ruleset struct {
	rules  []Rule
	sep    string // between parts
	method string
}

// of is who the rules say that a name is; full is the name as an id.
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

// names reports whether the rules could have named a principal. Full says that its
// id is that of a name in full.
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
