package panel

import (
	"regexp"

	"github.com/memproxy/memproxy"
)

// RuleTrait is the rule of a text that says what kind of person somebody is. It
// has no score: whether that may be kept is a question for the policy.
const RuleTrait = "trait.person"

// traits are ways to say what kind of person somebody is: temper and mind,
// weaknesses, convictions. What people do, own, like or suffer from is none.
var traits = [...]*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(is|am|are|was|seems?|appears?|sounds|feels|tends to be|comes across as)\s+(?:(?:to be|a|an|very|rather|quite|somewhat|highly|generally|often|probably|likely|emotionally|easily|chronically|deeply|fairly|too|so|and)\s+){0,4}(anxious|neurotic|narcissistic|introvert(?:ed)?|extrovert(?:ed)?|insecure|gullible|naive|impulsive|paranoid|depressed|lonely|unstable|manipulable|manipulated|persuaded|influenced|submissive|dominant|agreeable|conscientious|disagreeable|short-tempered|temperamental|hostile|passive-aggressive|perfectionist|pessimistic|optimistic|intelligent|unintelligent|stupid|lazy|dishonest|untrustworthy|vulnerable|suggestible|conservative|liberal|left-wing|right-wing|atheist|homosexual|heterosexual|bisexual)\b`),
	regexp.MustCompile(`(?i)\b(has|have|shows?|suffers from|struggles with|exhibits?)\s+(?:\w+\s+){0,2}(low self-esteem|self-esteem issues|trust issues|abandonment issues|anger issues|narcissistic traits|an? (?:anxious|avoidant) attachment|high neuroticism|low (?:intelligence|iq)|a high iq)\b`),
	regexp.MustCompile(`(?i)\b(personality type|personality trait|psychological profile|attachment style|political leaning|sexual orientation)\b`),
}

// persons finds statements of what kind of person somebody is.
func (p *Panel) persons(op *memproxy.Operation, findings []memproxy.Finding) []memproxy.Finding {
	for i := range op.Items {
		if !judged(&op.Items[i]) {
			continue
		}
		for _, re := range traits {
			for _, at := range re.FindAllStringIndex(op.Items[i].Text, maxTraits) {
				findings = append(findings, memproxy.Finding{Rule: RuleTrait, Severity: "low", Item: i, Start: at[0], End: at[1]})
			}
		}
	}
	return findings
}

// maxTraits bounds the places of one pattern.
const maxTraits = 8
