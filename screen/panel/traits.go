package panel

import (
	_ "embed"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/lexicon"
)

// RuleTrait is the rule of a text that describes someone's personality. It has no score:
// whether it may be kept is for the policy to decide.
const RuleTrait = "trait.person"

// traits are the patterns of statements about personality.
//
//go:embed traits.txt
var traits string

// degrees are words that may precede a trait, up to maxDegrees of them.
const (
	degrees    = `to be|a|an|very|rather|quite|somewhat|highly|generally|often|probably|likely|emotionally|easily|chronically|deeply|fairly|too|so|and`
	maxDegrees = 4
)

// lexiconOfTraits has the patterns as one rule.
var lexiconOfTraits = lexicon.Embedded("traits.txt", func() string {
	optional := ""
	for range maxDegrees {
		optional = `(?:(?:` + degrees + `)\s+` + optional + `)?`
	}
	return strings.ReplaceAll(traits, "DEGREES", optional)
}())

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
