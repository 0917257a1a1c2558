package identity

import (
	"strings"

	"github.com/memproxy/memproxy"
)

// OIDCRule maps subjects of tokens to a principal.
type OIDCRule struct {
	// Subject is the id claim; a "*" between colons matches any one part, as in
	// "system:serviceaccount:team-a:*", and a "*" alone any subject without one.
	Subject string
	// Principal is who it is. An empty ID stands for the prefix and the subject.
	Principal memproxy.Principal
}

// ruled is who the first rule says that a subject is.
func (o OIDCOptions) ruled(subject string) (memproxy.Principal, error) {
	for _, r := range o.Rules {
		if !subjectMatches(r.Subject, subject) {
			continue
		}
		p := r.Principal
		if p.ID == "" {
			p.ID = o.Prefix + subject
		}
		p.Method = "oidc"
		return p, nil
	}
	return memproxy.Principal{}, rejected("no rule knows the token's subject")
}

// names reports whether a principal could be that of a token.
func (o OIDCOptions) names(p memproxy.Principal) bool {
	subject, of := strings.CutPrefix(p.ID, o.Prefix)
	for _, r := range o.Rules {
		if r.Principal.Tenant == p.Tenant && (r.Principal.ID == p.ID || r.Principal.ID == "" && of && subjectMatches(r.Subject, subject)) {
			return true
		}
	}
	return len(o.Rules) == 0 && of
}

func subjectMatches(pattern, subject string) bool {
	want, have := strings.Split(pattern, ":"), strings.Split(subject, ":")
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
