package panel_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/screen/panel"
)

// Proves GOV-2: traits of a person are found, and nothing else is one; a text full of them
// has a bounded number of findings that cover it.
func TestTraits(t *testing.T) {
	o, _ := options(t)
	p := newPanel(t, o)
	traits := func(text string) (all []memproxy.Finding) {
		for _, f := range screened(t, p, write("ann", "", text)) {
			if f.Rule == panel.RuleTrait {
				all = append(all, f)
			}
		}
		return all
	}
	for text, want := range map[string]string{
		"She is an ANXIOUS person.": "is an ANXIOUS", "Ann seems short-tempered today": "seems short-tempered", "they are left-wing": "are left-wing",
		"Bob suffers from very low self-esteem": "suffers from very low self-esteem", "he has an avoidant attachment": "has an avoidant attachment", "has a high iq": "has a high iq",
		"her sexual orientation": "sexual orientation", "is so so so so lazy": "is so so so so lazy", "is so so so so so lazy": "", "is lazy_": "", "the type of personality": "",
	} {
		got := ""
		for _, f := range traits(text) {
			got += text[f.Start:f.End]
		}
		expect.Equal(t, got, want, text)
	}
	many := strings.Repeat("She is lazy. ", 100)
	if all := traits(many); len(all) == 0 || len(all) > 16 || all[len(all)-1].End != len(many) {
		t.Errorf("%v", all)
	}
}
