package panel

import (
	"testing"

	"github.com/memproxy/memproxy"
)

// What kind of person somebody is, is found; what people do, like, own and are
// by trade is not.
//
// Proves GOV-2
func TestTraits(t *testing.T) {
	p := &Panel{}
	for text, want := range map[string]bool{
		"The user is anxious and easily influenced":             true,
		"Ann seems to be a rather lonely person":                true,
		"User tends to be impulsive":                            true,
		"He is politically very conservative":                   false, // too far apart: erring to no
		"He is conservative":                                    true,
		"She has low self-esteem":                               true,
		"The user shows some trust issues":                      true,
		"Personality type: INTJ":                                true,
		"The user is a nurse with two children":                 false,
		"The user is allergic to peanuts":                       false,
		"The user likes quiet offices":                          false,
		"The estimate is conservative in its numbers, says Ann": true, // of things it is said as well: a reviewer sees
		"The dominant colour of the logo is blue":               false,
		"User is vegetarian and lives in Lisbon":                false,
	} {
		found := p.persons(&memproxy.Operation{Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: text}}}, nil)
		if got := len(found) > 0; got != want {
			t.Errorf("%q: %+v", text, found)
		}
		for _, f := range found {
			if f.Rule != RuleTrait || f.Score != 0 || f.Start >= f.End || f.End > len(text) {
				t.Errorf("%q: %+v", text, f)
			}
		}
	}
}
