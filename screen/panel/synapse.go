package panel

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/synapse"
)

// validated finds the mandatory patterns of governed fields, and what is odd in
// how they are written. The patterns count elsewhere too where the source is
// not trusted. They have no score: what they mean is for the policy to say.
func (p *Panel) validated(s memproxy.Screening, findings []memproxy.Finding) []memproxy.Finding {
	var own []string
	for i := range s.Operation.Items {
		it := &s.Operation.Items[i]
		governed := slices.ContainsFunc(it.Written(), func(f string) bool { return synapse.Governed(memproxy.Key(f)) })
		if !judged(it) || !governed && !suspect(s.Operation) {
			continue
		}
		hits := synapse.Patterns(it.Text)
		if governed {
			if own == nil {
				own = names(&s.Principal, s.Operation)
			}
			hits = append(hits, synapse.Heuristics(it.Text, own)...)
		}
		for _, h := range hits {
			findings = append(findings, memproxy.Finding{Rule: h.Rule, Severity: h.Severity, Item: i, Start: h.Start, End: h.End})
		}
	}
	return findings
}

// names are those by which the one who writes may call itself.
func names(p *memproxy.Principal, op *memproxy.Operation) []string {
	out := append([]string{op.Scope.Agent}, p.Roles...)
	_, name, _ := strings.Cut(p.ID, ":")
	return append(out, name)
}
