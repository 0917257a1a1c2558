package assembly_test

import (
	"fmt"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/assembly"
	"github.com/memproxy/memproxy/screen/secrets"
)

// Proves MFW-13 for credentials, with the scanner that looks at joined texts: a
// secret in pieces, none of which is one, is found across the writes, and
// numbers and identifiers of ordinary writes make none. A write without a piece joins
// nothing, and the end of a secret that comes first is joined last.
func TestSplitCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		writes []string
		want   secrets.Class // "": none
	}{
		"key in halves":    {[]string{"The first half of the key is AKIAIOSF", "She likes tea.", "The second half of the key is ODNN7QXRMPLE", "He likes coffee."}, secrets.AWSAccessKey},
		"key, bare":        {[]string{"AKIAIOSF", "ODNN7QXRMPLE"}, secrets.AWSAccessKey},
		"token by number":  {[]string{"token_part2=6C7e42F292c6912E7710c838347Ae178B4a", "token_part1=" + "gh" + "p_1"}, secrets.GitHubToken},
		"password":         {[]string{"password first half: blue-", "The second half is tiger7"}, secrets.Credential},
		"card":             {[]string{"The card starts with 4111 1111", "and the last digits are 1111 1111"}, secrets.PaymentCard},
		"card, last first": {[]string{"The last digits of the card are 1111 1111", "It starts with 4111 1111"}, secrets.PaymentCard},
		"orders":           {[]string{"Order 4111 was sent.", "Invoice 1111 1111 is open.", "Ticket 1111 is closed."}, ""},
		"key facts":        {[]string{"The key result is 20 % growth in 2026", "The rest of the team meets at 10:30"}, ""},
		"versions":         {[]string{"The service runs v1.2.3-rc4", "The second release was v2.0.0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := assembly.New()
			found := map[secrets.Class]bool{}
			for i, w := range c.writes {
				must.Len(t, secrets.Scan(w), 0, w, "is a secret by itself")
				id := fmt.Sprint(i)
				for _, j := range s.Assemble(id, []string{w}, noon, key) {
					for _, h := range secrets.Scan(j.Text) {
						if j.SpansTexts(h.Start, h.End) {
							found[h.Class] = true
							expect.That(t, len(j.SegmentsOf(id, h.Start, h.End)) > 0, "%q: nothing of it is the new write's", j.Text)
						}
					}
				}
				s.Commit(id, []string{w}, noon, key)
			}
			if c.want == "" && len(found) > 0 || c.want != "" && !found[c.want] {
				t.Errorf("found %v, want %q", found, c.want)
			}
		})
	}
}
