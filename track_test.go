package memproxy_test

import (
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves TRL-4: what a record must be like to earn the tier, to the last fact.
func TestEarning(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := memproxy.PromotionRule{Facts: 200, Age: 30 * 24 * time.Hour, Corrected: 20}
	for _, tc := range []struct {
		t    memproxy.Track
		want bool
	}{
		{memproxy.Track{}, false},
		{memproxy.Track{Facts: 1e6, Accepted: 1e6, Validated: 199}, false}, // the others wait, or were refused,
		{memproxy.Track{Validated: 200}, true},                             // from before it was kept since when
		{memproxy.Track{Validated: 200, Corrections: 4}, true},
		{memproxy.Track{Validated: 200, Corrections: 5}, false},
		{memproxy.Track{Validated: 200, Since: now.Add(-e.Age)}, true},
		{memproxy.Track{Validated: 200, Since: now.Add(-e.Age + 1)}, false},
	} {
		expect.Equal(t, e.Met(tc.t, now), tc.want, tc.t, "earned")
	}
	if (memproxy.PromotionRule{}).Met(memproxy.Track{Validated: 1e6}, now) {
		t.Error("switched off, and earned")
	}
}
