package panel

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/baseline"
)

// whose is the profile that a write is compared with: of the user whom it is
// about, else of the principal.
func whose(s memproxy.Screening) baseline.Key {
	if u := s.Operation.Scope.User; u != "" {
		return baseline.Key{Tenant: s.Principal.Tenant, User: u}
	}
	return baseline.Key{Tenant: s.Principal.Tenant, User: "\x00" + s.Principal.Account()}
}

// written are the texts that a write brings, without the empty places, and
// their items.
func written(op *memproxy.Operation) (out []string, items []int) {
	for i, t := range texts(op) {
		if t != "" {
			out, items = append(out, t), append(items, i)
		}
	}
	return out, items
}

// departures adds where a write departs from what is usual for its user. To be
// unusual is a hint: it holds nothing by itself, unless the content comes from
// a hostile source.
func (p *Panel) departures(s memproxy.Screening, findings []memproxy.Finding) []memproxy.Finding {
	list, items := written(s.Operation)
	for _, f := range p.opt.Baseline.Check(whose(s), list, p.opt.Clock()) {
		f.Item = items[f.Item]
		if s.Operation.SourceClaim != memproxy.SourceHostile {
			f.Score = min(f.Score, screen.Hold-1)
		}
		findings = append(findings, f)
	}
	return findings
}

// learn takes a write that went through into its user's profile.
func (p *Panel) learn(s memproxy.Screening) {
	if list, _ := written(s.Operation); len(list) > 0 {
		p.opt.Baseline.Learn(whose(s), list, p.opt.Clock())
	}
}
