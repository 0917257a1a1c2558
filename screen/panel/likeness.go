package panel

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen"
)

// alike compares with known attacks by the words that are shared. How like is
// too like depends on the source of the text.
func (p *Panel) alike(op *memproxy.Operation, findings []memproxy.Finding) []memproxy.Finding {
	return p.known.in(op, findings, "likeness "+string(op.SourceClaim), func(text string) []memproxy.Finding {
		m := p.opt.Likeness.Match(text, op.SourceClaim)
		if !m.Over() {
			return nil
		}
		return []memproxy.Finding{{Rule: "likeness." + m.Family, Severity: "high", Start: m.Start, End: m.End, Score: screen.Hold}}
	})
}
