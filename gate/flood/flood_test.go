package flood_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/memproxy/memproxy/gate/flood"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// Of one address so many rejections a minute are recorded, of all together ten times as
// many, and the rest is counted.
func TestCounter(t *testing.T) {
	c := flood.Counter{Limit: 2}
	recorded := func(peer string, known bool, now time.Time) bool {
		over, until := c.Note(peer, known, now)
		expect.That(t, !over || until.After(now), "more of %s are not recorded until %s", peer, until)
		return !over
	}
	for i, want := range []bool{true, true, false, false} {
		expect.That(t, recorded("10.0.0.1", false, noon) == want, "rejection %d of one address: recorded is not %v", i, want)
	}
	expect.That(t, recorded("10.0.0.1", false, noon.Add(time.Minute)), "the minute does not end")
	got := c.Take(noon.Add(time.Minute))
	expect.That(t, len(got) == 1 && got[0] == (flood.Summary{Peer: "10.0.0.1", N: 2, Since: noon}), "%+v", got)
	got = c.Take(noon.Add(time.Minute))
	expect.That(t, got == nil, "%+v is told twice", got)
	c = flood.Counter{Limit: 2}
	recorded("agent:dev", true, noon)
	n := 0
	for i := range 2000 {
		if recorded(fmt.Sprint("stranger", i), false, noon) {
			n++
		}
	}
	expect.Equal(t, n, 20)
	expect.That(t, recorded("agent:dev", true, noon) && recorded("agent:new", true, noon), "strangers use up what is recorded of callers")
	sums := c.Take(noon)
	if all := 0; len(sums) < 1000 || sums[0].Peer != flood.Others {
		t.Errorf("%d summaries, the first of %v", len(sums), sums[0])
	} else {
		for _, s := range sums {
			all += s.N
		}
		expect.Equal(t, all, 1980)
	}
	none := flood.Counter{Limit: -1}
	for range 1000 {
		over, _ := none.Note("10.0.0.1", false, noon)
		must.That(t, !over, "without a limit one is not recorded")
	}
}
