package panel

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/similar"
)

// alike appends the finding of an item that resembles a known attack, by the words
// that they share. How like is too like depends on the source of the text.
func (p *Panel) alike(out []memproxy.Finding, m similar.Match, item int, source memproxy.Source) []memproxy.Finding {
	if m.Threshold = p.opt.Likeness.Threshold(source); !m.Over() {
		return out
	}
	return append(out, memproxy.Finding{Rule: "likeness." + m.Family, Severity: "high", Item: item, Start: m.Start, End: m.End, Score: screen.Hold})
}
