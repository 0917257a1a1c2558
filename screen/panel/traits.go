package panel

import (
	"strings"
	"sync"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/lexicon"
)

// RuleTrait is the rule of a text that describes someone's personality. It has no score:
// whether it may be kept is for the policy to decide.
const RuleTrait = "trait.person"

// traits are the patterns of statements about personality: temper, mind, weaknesses,
// convictions. What people do, own, like or suffer from is none.
const traits = RuleTrait + ` low 0 traits
  \b(is|am|are|was|seems?|appears?|sounds|feels|tends to be|comes across as)\s+DEGREES(anxious|neurotic|narcissistic|introvert|introverted|extrovert|extroverted|insecure|gullible|naive|impulsive|paranoid|depressed|lonely|unstable|manipulable|manipulated|persuaded|influenced|submissive|dominant|agreeable|conscientious|disagreeable|short-tempered|temperamental|hostile|passive-aggressive|perfectionist|pessimistic|optimistic|intelligent|unintelligent|stupid|lazy|dishonest|untrustworthy|vulnerable|suggestible|conservative|liberal|left-wing|right-wing|atheist|homosexual|heterosexual|bisexual)\b
  \b(has|have|shows?|suffers from|struggles with|exhibits?)\s+(?:\w+\s+(?:\w+\s+)?)?(low self-esteem|self-esteem issues|trust issues|abandonment issues|anger issues|narcissistic traits|an? (?:anxious|avoidant) attachment|high neuroticism|low (?:intelligence|iq)|a high iq)\b
  \b(personality type|personality trait|psychological profile|attachment style|political leaning|sexual orientation)\b
`

// degrees are words that may precede a trait, up to maxDegrees of them.
const (
	degrees    = `to be|a|an|very|rather|quite|somewhat|highly|generally|often|probably|likely|emotionally|easily|chronically|deeply|fairly|too|so|and`
	maxDegrees = 4
)

// lexiconOfTraits has the patterns as one rule.
var lexiconOfTraits = sync.OnceValue(func() *lexicon.Lexicon {
	optional := ""
	for range maxDegrees {
		optional = `(?:(?:` + degrees + `)\s+` + optional + `)?`
	}
	l, err := lexicon.Parse("traits", strings.ReplaceAll(traits, "DEGREES", optional))
	if err != nil {
		panic(err) // cannot happen: a test parses them
	}
	return l
})

func (p *Panel) persons(op *memproxy.Operation, findings []memproxy.Finding) []memproxy.Finding {
	for i := range op.Items {
		if !judged(&op.Items[i]) {
			continue
		}
		for _, h := range lexiconOfTraits().Find(op.Items[i].Text) {
			findings = append(findings, memproxy.Finding{Rule: RuleTrait, Severity: "low", Item: i, Start: h.Start, End: h.End})
		}
	}
	return findings
}
