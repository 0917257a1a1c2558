package extproc_test

import (
	"testing"

	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
)

// Two runs of a case on both sides of a full minute compare as equal: times are
// replaced in members, in sentences and in names.
func TestSettledHidesEveryTime(t *testing.T) {
	for _, pair := range [][2]string{
		{`{"detail":"there is room at 2026-11-25T02:07:00Z; more"}`, `{"detail":"there is room at 2026-11-25T02:08:00Z; more"}`},
		{`{"new_member":"2026-11-25T02:07:59.999999999Z"}`, `{"new_member":"2026-11-25T02:08:00Z"}`},
		{`until 2026-11-25T02:07:00+02:00.`, `until 2026-11-26T00:00:00-07:00.`},
		{`{"reset":"2026-11-25T02:07:00Z"}`, `{"reset":""}`},
		{"retry-after: 59\n", "retry-after: 1\n"},
	} {
		if a, b := extproctest.Settled(pair[0]), extproctest.Settled(pair[1]); a != b {
			t.Errorf("%s and %s differ: %s and %s", pair[0], pair[1], a, b)
		}
	}
	if a, b := extproctest.Settled(`used 1 of 2`), extproctest.Settled(`used 2 of 2`); a == b {
		t.Error("numbers that are not times are hidden")
	}
}
