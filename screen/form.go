package screen

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/directive"
	"github.com/memproxy/memproxy/screen/normal"
)

// The rules about how a text is written. Alone none holds at medium
// sensitivity, but for RuleBounds: ordinary notes are imperative, too, and emoji
// have invisible parts.
const (
	RuleInvisible  = "form.invisible"  // characters that nobody sees and a machine reads
	RuleLookalike  = "form.lookalike"  // words that mix scripts to imitate another
	RuleBounds     = "form.bounds"     // nested deeper or longer than is read: nobody knows what it says
	RuleImperative = "form.imperative" // more than 60 % of the sentences are orders
	RuleAgents     = "form.agents"     // more than two other agents are named
)

const (
	manyInvisible = 8  // an emoji family has six
	manyLookalike = 2  // one may be a slip of the keyboard
	minSentences  = 3  // fewer say nothing about a share
	orderPercent  = 60 // of sentences
	manyAgents    = 2  // other agents that a memory may name
)

// form finds what is odd in how a text is written.
func (s *Screener) form(out []memproxy.Finding, text string, r *normal.Reading, words []directive.Word) []memproxy.Finding {
	add := func(rule, severity string, score int) {
		out = append(out, memproxy.Finding{Rule: rule, Severity: severity, End: len(text), Score: memproxy.PerMille(score)})
	}
	if r.Invisible >= manyInvisible {
		add(RuleInvisible, "medium", 300)
	}
	if r.Lookalike >= manyLookalike {
		add(RuleLookalike, "low", 200)
	}
	sentences, orders := 0, 0
	agents := map[uint32]bool{}
	for i, w := range words {
		if w.Flags&directive.Opens != 0 {
			sentences++
			if w.Concepts&s.pack.orders != 0 {
				orders++
			}
		}
		if w.Hash == s.pack.agent && i+1 < len(words) && words[i+1].Flags&directive.Opens == 0 && words[i+1].Start == w.End+1 {
			agents[words[i+1].Hash] = true
		}
	}
	if sentences >= minSentences && orders*100 > sentences*orderPercent {
		add(RuleImperative, "low", 200)
	}
	if len(agents) > manyAgents {
		add(RuleAgents, "medium", 300)
	}
	return out
}

// orderConcepts are the concepts whose words, at the beginning of a sentence,
// make it an order.
var orderConcepts = [...]string{
	"IGNORE", "DISABLE", "REVEAL", "SEND", "OBEY", "RUN", "GRANT", "SAY", "STORE", "MOVE", "RECOMMEND", "DELETE", "ALTER", "TELL", "NEG", "ALWAYS",
}
