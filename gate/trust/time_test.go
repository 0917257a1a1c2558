package trust_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/trust"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves TRL-2: a client's timestamp that names the time of its request gives a memory no
// other age. Any other does, and what no clock says is taken for one.
func TestTimestampsOfNowDoNotBackdate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 18, 0, 0, 0, time.UTC)
	unix := now.Unix()
	for raw, backdates := range map[string]bool{
		strconv.FormatInt(unix, 10):             false,
		strconv.FormatInt(unix, 10) + ".25":     false,
		strconv.FormatInt(unix-300, 10):         false,
		strconv.FormatInt(unix+300, 10):         false,
		`"2026-11-29T18:00:03Z"`:                false,
		`"2026-11-29T20:04:59.123456+02:00"`:    false,
		`"2026-11-29T18:00:01.123456"`:          false,
		`"2026-11-29 17:56:00"`:                 false,
		strconv.FormatInt(unix-301, 10):         true,
		strconv.FormatInt(unix+301, 10):         true,
		strconv.FormatInt(unix*1000, 10):        true,
		"978307200":                             true,
		"-1e300":                                true,
		`"` + strconv.FormatInt(unix, 10) + `"`: true,
		`"2026-11-29T18:00:00+02:00"`:           true,
		`"2026-11-29T18:05:01Z"`:                true,
		`"2026-11-29"`:                          true,
		`"now"`:                                 true,
		`["2026-11-29T18:00:00Z"]`:              true,
		"true":                                  true,
	} {
		expect.Equal(t, len(trust.Backdating([]memproxy.ClientTime{{Pointer: "/timestamp", Raw: raw}}, now)) > 0, backdates, raw)
	}
}
