package identity

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Rule maps authenticated names to a principal.
type Rule struct {
	// Name is a pattern for the path of a SPIFFE id, or for the id claim of a token. A
	// "*" between slashes, or colons, matches exactly one part, as in
	// "system:serviceaccount:team-a:*".
	Name string
	// Principal is the mapped principal. If its ID is empty, the full name is used.
	Principal memproxy.Principal
}

// ruleset is a list of rules for names that consist of parts. The first matching rule
// counts.
type ruleset struct {
	rules  []Rule
	sep    string // separator between parts
	method string
}

// of returns the principal to which the rules map a name. full is the name as an id.
func (s ruleset) of(name, full string) (p memproxy.Principal, known bool) {
	at := slices.IndexFunc(s.rules, func(r Rule) bool { return s.fits(r, name) })
	if at < 0 {
		return p, false
	}
	p = s.rules[at].Principal
	p.ID, p.Method = cmp.Or(p.ID, full), s.method
	return p, true
}

// couldIdentify reports whether the rules could have given this principal. full means that its id
// is a full name.
func (s ruleset) couldIdentify(p memproxy.Principal, name string, full bool) bool {
	return slices.ContainsFunc(s.rules, func(r Rule) bool {
		return r.Principal.Tenant == p.Tenant && (r.Principal.ID == p.ID || r.Principal.ID == "" && full && s.fits(r, name))
	})
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
