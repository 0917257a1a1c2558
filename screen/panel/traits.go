package panel

import (
	"regexp"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/terms"
)

// RuleTrait is the rule of a text that says what kind of person somebody is. It
// has no score: whether that may be kept is a question for the policy.
const RuleTrait = "trait.person"

// traits are ways to say what kind of person somebody is: temper and mind,
// weaknesses, convictions. What people do, own, like or suffer from is none. Each
// begins with head and ends with one of the alternatives of tail.
var traits = [...]struct{ head, tail string }{
	{`\b(is|am|are|was|seems?|appears?|sounds|feels|tends to be|comes across as)\s+(?:(?:to be|a|an|very|rather|quite|somewhat|highly|generally|often|probably|likely|emotionally|easily|chronically|deeply|fairly|too|so|and)\s+){0,4}`,
		`anxious|neurotic|narcissistic|introvert|introverted|extrovert|extroverted|insecure|gullible|naive|impulsive|paranoid|depressed|lonely|unstable|manipulable|manipulated|persuaded|influenced|submissive|dominant|agreeable|conscientious|disagreeable|short-tempered|temperamental|hostile|passive-aggressive|perfectionist|pessimistic|optimistic|intelligent|unintelligent|stupid|lazy|dishonest|untrustworthy|vulnerable|suggestible|conservative|liberal|left-wing|right-wing|atheist|homosexual|heterosexual|bisexual`},
	{`\b(has|have|shows?|suffers from|struggles with|exhibits?)\s+(?:\w+\s+){0,2}`,
		`low self-esteem|self-esteem issues|trust issues|abandonment issues|anger issues|narcissistic traits|an? (?:anxious|avoidant) attachment|high neuroticism|low (?:intelligence|iq)|a high iq`},
	{`\b`,
		`personality type|personality trait|psychological profile|attachment style|political leaning|sexual orientation`},
}

// patterns are the traits compiled. lastWords has the last word of every match, by
// hash, with one bit for each pattern that it ends: looking for these words costs a
// small part of what the patterns do.
var patterns, lastWords = compileTraits()

func compileTraits() (patterns [len(traits)]*regexp.Regexp, last terms.Table[uint8]) {
	for k, t := range traits {
		patterns[k] = regexp.MustCompile(`(?i)` + t.head + `(` + t.tail + `)\b`)
		for phrase := range strings.SplitSeq(strings.NewReplacer("(?:", "", ")", "").Replace(t.tail), "|") {
			*last.At(terms.Word(phrase[strings.LastIndexAny(phrase, " -")+1:])) |= 1 << k
		}
	}
	return patterns, last
}

const (
	spaces        = "\t\n\f\r " // what \s stands for
	maxTraitWords = 16          // more than any match has
)

// mayMatch returns a bit for each pattern that may match a text, and the stretch in
// which its matches lie. Patterns fold two letters beyond ASCII to ASCII ones; any may
// match a text with these.
func mayMatch(text string) (may uint8, from, to int) {
	if strings.Contains(text, "\u017f") || strings.Contains(text, "\u212a") {
		return 1<<len(traits) - 1, 0, len(text)
	}
	from = len(text)
	hash := terms.Start
	for i := range len(text) + 1 {
		c := byte(' ')
		if i < len(text) {
			c = text[i] | 0x20 // lower case
		}
		if 'a' <= c && c <= 'z' {
			hash = terms.Next(hash, c)
			continue
		}
		if hash != terms.Start {
			if ends, ok := lastWords.Get(hash); ok {
				may, from, to = may|ends, min(from, i), min(i+1, len(text))
			}
		}
		hash = terms.Start
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

const maxTraits = 8 // bounds the places of one pattern
