package panel

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen"
)

// alike compares with known attacks by the words that are shared. How like is
// too like depends on the source of the text.
func (p *Panel) alike(op *memproxy.Operation, findings []memproxy.Finding) []memproxy.Finding {
	for i := range op.Items {
		if !judged(&op.Items[i]) {
			continue
		}
		if m := p.opt.Likeness.Match(op.Items[i].Text, op.SourceClaim); m.Over() {
			findings = append(findings, memproxy.Finding{Rule: "likeness." + m.Family, Severity: "high", Item: i, Start: m.Start, End: m.End, Score: screen.Hold})
		}
	}
	return findings
}
