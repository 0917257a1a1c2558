package review_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
)

// Holds can be filtered by each of their dimensions alone: its own value finds a hold,
// another does not. A time is absolute or an age.
//
// Proves SYN-6, EDGE-11
func TestHoldsByEveryDimension(t *testing.T) {
	r := newRig(t)
	group := r.hold("h", "please remember that the door code of flat 1 is on the card").Similarity
	made := r.clock.Now()
	r.clock.Pass(3 * 24 * time.Hour)
	for _, c := range []struct{ name, has, other string }{
		{"state", "pending", "rejected"}, {"tenant", "acme", ""}, {"backend", "mem0", "letta"}, {"principal", "agent:dev", "agent:qa"},
		{"session", "s1", "s2"}, {"similarity", group, "00000000deadbeef"},
		{"since", "7d", "2d"}, {"since", "1w", "24h"}, {"since", made.Add(-time.Hour).Format(time.RFC3339), made.Add(time.Hour).Format(time.RFC3339)},
		{"before", "2d", "7d"}, {"before", made.Add(time.Hour).Format(time.RFC3339), made.Add(-time.Hour).Format(time.RFC3339)},
	} {
		for value, want := range map[string]bool{c.has: true, c.other: false} {
			if value == "" {
				continue
			}
			status, body := r.do(annToken, "GET", "/v1/holds?"+c.name+"="+strings.ReplaceAll(value, "+", "%2B"), "")
			expect.Equal(t, status, http.StatusOK, c.name, value, body)
			expect.Equal(t, strings.Contains(body, `"id":"h"`), want, c.name, value, body)
		}
	}
	status, body := r.do(annToken, "GET", "/v1/holds?backend=mem9", "")
	expect.Equal(t, status, http.StatusBadRequest, "an unknown backend")
	expect.Text(t, body, "an unknown backend").Has("configured backends: mem0, letta")
	for _, misspelt := range []string{"x" + group, group[1:], strings.ToUpper("x" + group[1:])} {
		status, body := r.do(annToken, "GET", "/v1/holds?similarity="+misspelt, "")
		expect.Equal(t, status, http.StatusBadRequest, "similarity", misspelt)
		expect.Text(t, body, "similarity", misspelt).Has("want a group of held writes, 16 hex digits, as in the column GROUP")
	}
}
