package screen

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/directive"
	"github.com/memproxy/memproxy/screen/normal"
)

// form finds what is odd in how a text is written: letters nobody sees, and
// words of two scripts. Alone it never holds at medium sensitivity.
func form(out []memproxy.Finding, text string, r *normal.Reading, words []directive.Word) []memproxy.Finding {
	add := func(rule, severity string, score int) {
		out = append(out, memproxy.Finding{Rule: rule, Severity: severity, End: len(text), Score: memproxy.PerMille(score)})
	}
	if r.Invisible >= 8 {
		add("form.invisible", "medium", 300)
	}
	if r.Lookalike >= 2 {
		add("form.lookalike", "low", 200)
	}
	if r.Cut {
		add("form.bounds", "low", 200)
	}
	return out
}
