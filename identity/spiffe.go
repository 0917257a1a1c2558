package identity

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/memproxy/memproxy"
)

// SPIFFE maps verified client certificates to principals (SPIFFE X.509-SVID
// specification: an SVID has exactly one URI SAN).
type SPIFFE struct {
	domain spiffeid.TrustDomain
	rules  ruleset
}

// NewSPIFFE returns a SPIFFE. Ids that match no rule are refused. Without rules every id
// of the trust domain is an authenticated agent whose name is the id.
func NewSPIFFE(trustDomain string, rules []Rule) (*SPIFFE, error) {
	td, err := spiffeid.TrustDomainFromString(trustDomain)
	if err != nil {
		return nil, fmt.Errorf("identity: trust domain: %w", err)
	}
	for _, r := range rules {
		if !strings.HasPrefix(r.Name, "/") {
			return nil, errors.New("identity: a SPIFFE path begins with /")
		}
	}
	return &SPIFFE{td, ruleset{rules, "/", "spiffe"}}, nil
}

// maxSPIFFE is the maximum length of an id in bytes. The specification allows 2,048;
// budgets and records of principals have room for fewer.
const maxSPIFFE = 480

func (s *SPIFFE) principal(uris []string) (memproxy.Principal, error) {
	if len(uris) != 1 {
		return memproxy.Principal{}, rejected("the client certificate must name exactly one SPIFFE id")
	}
	id, err := spiffeid.FromString(uris[0])
	if err != nil || !id.MemberOf(s.domain) {
		return memproxy.Principal{}, rejected("the client certificate is not of the trust domain")
	}
	if len(uris[0]) > maxSPIFFE {
		return memproxy.Principal{}, rejected("the SPIFFE id is too long")
	}
	if len(s.rules.rules) == 0 {
		return memproxy.Principal{
			ID: id.String(), Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, Method: "spiffe",
			Users: memproxy.Limit{All: true}, Apps: memproxy.Limit{All: true}, Runs: memproxy.Limit{All: true},
		}, nil
	}
	p, known := s.rules.of(id.Path(), id.String())
	if !known {
		return p, rejected("no rule matches this SPIFFE id")
	}
	return p, nil
}

func (s *SPIFFE) couldIdentify(p memproxy.Principal) bool {
	id, err := spiffeid.FromString(p.ID)
	of := err == nil && id.MemberOf(s.domain)
	return len(s.rules.rules) == 0 && of && p.Tenant == "" || s.rules.couldIdentify(p, id.Path(), of)
}
