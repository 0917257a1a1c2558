package panel

import (
	"regexp"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/terms"
)

// RuleTrait is the rule of a text that describes someone's personality. It has no score:
// whether it may be kept is for the policy to decide.
const RuleTrait = "trait.person"

// traits are the patterns of statements about personality: temper, mind, weaknesses,
// convictions. What people do, own, like or suffer from is none. A match has a head and
// then one of the alternatives of tail.
var traits = [...]struct{ head, tail string }{
	{`\b(is|am|are|was|seems?|appears?|sounds|feels|tends to be|comes across as)\s+(?:(?:to be|a|an|very|rather|quite|somewhat|highly|generally|often|probably|likely|emotionally|easily|chronically|deeply|fairly|too|so|and)\s+){0,4}`,
		`anxious|neurotic|narcissistic|introvert|introverted|extrovert|extroverted|insecure|gullible|naive|impulsive|paranoid|depressed|lonely|unstable|manipulable|manipulated|persuaded|influenced|submissive|dominant|agreeable|conscientious|disagreeable|short-tempered|temperamental|hostile|passive-aggressive|perfectionist|pessimistic|optimistic|intelligent|unintelligent|stupid|lazy|dishonest|untrustworthy|vulnerable|suggestible|conservative|liberal|left-wing|right-wing|atheist|homosexual|heterosexual|bisexual`},
	{`\b(has|have|shows?|suffers from|struggles with|exhibits?)\s+(?:\w+\s+){0,2}`,
		`low self-esteem|self-esteem issues|trust issues|abandonment issues|anger issues|narcissistic traits|an? (?:anxious|avoidant) attachment|high neuroticism|low (?:intelligence|iq)|a high iq`},
	{`\b`,
		`personality type|personality trait|psychological profile|attachment style|political leaning|sexual orientation`},
}

// patterns has the compiled traits. lastWords maps the hash of the last word of every
// match to a bit set of patterns: looking for these words costs a fraction of running the
// patterns.
var patterns, lastWords = compileTraits()

func compileTraits() (patterns [len(traits)]*regexp.Regexp, last terms.Table[uint8]) {
	for k, t := range traits {
		patterns[k] = regexp.MustCompile(`(?i)` + t.head + `(` + t.tail + `)\b`)
		for phrase := range strings.SplitSeq(strings.NewReplacer("(?:", "", ")", "").Replace(t.tail), "|") {
			*last.At(terms.HashWord(phrase[strings.LastIndexAny(phrase, " -")+1:])) |= 1 << k
		}
	}
	return patterns, last
}

const (
	spaces        = "\t\n\f\r " // the characters of \s
	maxTraitWords = 16          // more words than any match has
)

// mayMatch returns the set of patterns that may match a text, and the span that contains
// all matches. Case folding maps two characters beyond ASCII to ASCII letters; in a text
// with one of these any pattern may match.
func mayMatch(text string) (may uint8, from, to int) {
	if strings.Contains(text, "\u017f") || strings.Contains(text, "\u212a") {
		return 1<<len(traits) - 1, 0, len(text)
	}
	from = len(text)
	hash := terms.HashSeed
	for i := range len(text) + 1 {
		c := byte(' ')
		if i < len(text) {
			c = text[i] | 0x20 // lower case
		}
		if 'a' <= c && c <= 'z' {
			hash = terms.HashByte(hash, c)
			continue
		}
		if hash != terms.HashSeed {
			if ends := lastWords.Get(hash); ends != 0 {
				may, from, to = may|ends, min(from, i), min(i+1, len(text))
			}
		}
		hash = terms.HashSeed
	}
	for range maxTraitWords {
		from = strings.LastIndexAny(strings.TrimRight(text[:from], spaces), spaces) + 1
	}
	return may, from, max(from, to)
}

func (p *Panel) persons(op *memproxy.Operation, findings []memproxy.Finding) []memproxy.Finding {
	for i := range op.Items {
		if !judged(&op.Items[i]) {
			continue
		}
		may, from, to := mayMatch(op.Items[i].Text)
		for k, re := range patterns {
			if may&(1<<k) == 0 {
				continue
			}
			for _, at := range re.FindAllStringIndex(op.Items[i].Text[from:to], maxTraits) {
				findings = append(findings, memproxy.Finding{Rule: RuleTrait, Severity: "low", Item: i, Start: from + at[0], End: from + at[1]})
			}
		}
	}
	return findings
}

const maxTraits = 8 // the most matches of one pattern in an item
