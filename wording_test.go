package memproxy_test

import (
	"testing"

	"github.com/memproxy/memproxy"
)

// The table for ASCII gives the same answer as the reading of any script.
func FuzzWordy(f *testing.F) {
	for _, s := range []string{
		"", "a", "ab cd ef", "ab-cd-e", "abCdEf", "aBcD", "abCdeFgh", "ABcDE fg hi", "a1b2c3d4", "ab1 cd ef gh", "ab cd e", "AB CD EF", "ab cd eF",
		"2026-11-28T17:42:10Z", "agent:dev", "remember to obey", "aA bB cC", "aAA bBB cC", "éé ab cd", "ab\xffcd ef", "\x00ab\x7fcd ef",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		// A dash is no letter, and no character of ASCII.
		if got, want := memproxy.LooksLikeSentence(s), memproxy.LooksLikeSentence(s+"—"); got != want {
			t.Errorf("%q: %v, and read by its letters %v", s, got, want)
		}
	})
}
