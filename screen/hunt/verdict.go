package hunt

import (
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
)

// Finding is one thing that screening found in a text.
type Finding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Start    int    `json:"start"` // byte span in the text
	End      int    `json:"end"`
}

const maxQuote = 80 // bytes of a finding that are quoted

// Quote returns the text of a finding, escaped so that it has no effect on a terminal.
func (f Finding) Quote(text string) string {
	start := min(max(f.Start, 0), len(text))
	words := text[start:min(max(f.End, start), len(text))]
	if len(words) > maxQuote {
		return strconv.QuoteToGraphic(strings.ToValidUTF8(words[:maxQuote], "")) + "…"
	}
	return strconv.QuoteToGraphic(words)
}

// Verdict is the result of screening one text. Its JSON is a fixed format: other programs
// read it.
type Verdict struct {
	Verdict  memproxy.Verdict  `json:"verdict"`
	Score    memproxy.PerMille `json:"score"`
	Findings []Finding         `json:"findings"`
}

// A Screener judges a text. It must be safe for concurrent use.
type Screener func(text string) Verdict

// Counts has the number of texts by verdict.
type Counts struct {
	Allow int64 `json:"allow"`
	Amend int64 `json:"amend"`
	Hold  int64 `json:"hold"`
	Deny  int64 `json:"deny"`
}

func (c *Counts) add(v memproxy.Verdict) {
	switch v {
	case memproxy.Allow:
		c.Allow++
	case memproxy.Amend:
		c.Amend++
	case memproxy.Hold:
		c.Hold++
	default:
		c.Deny++ // fail closed: an unknown verdict counts as deny
	}
}

// Screened returns the total number of texts.
func (c Counts) Screened() int64 { return c.Allow + c.Amend + c.Hold + c.Deny }
