package app

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Limits are those of a caller on behalf of one end user, over an hour that
// slides, whether this process counts or Redis does: what was written more than
// an hour ago makes room, and no more than that; another end user of the same
// key has room all the while. The refusal says what the limit is and when to
// come back.
//
// Proves TRL-6, CARD-4
func TestLimitsOfEndUsersSlide(t *testing.T) {
	t.Parallel()
	for name, redis := range map[string]string{"embedded": "", "redis": "redis: {url: \"redis://" + miniredis.RunT(t).Addr() + "\", timeout: 30s}, "} {
		t.Run(name, func(t *testing.T) {
			clock := ledgertest.NewClock()
			r := startAt(t, clock.Now, screeningConf, "SCREENING", "budgets: {"+redis+"default: {writes_per_hour: 3, writes_total: 100}, rapid_per_minute: 0}")
			n := 0
			write := func(user string, want int) {
				t.Helper()
				n++
				a := r.do("POST", "/memories", fmt.Sprintf(`{"user_id":%q,"infer":false,"messages":[{"role":"user","content":"Tea number %d is green."}]}`, user, n))
				if a.status != want {
					t.Fatalf("after %v: %d %s", clock.Now(), a.status, a.body)
				}
				if want != 429 {
					return
				}
				var no struct {
					Limit, Remaining int
					Reset            time.Time
				}
				if err := json.Unmarshal([]byte(a.body), &no); err != nil || no.Limit != 3 || no.Remaining != 0 || !no.Reset.After(clock.Now()) || a.header.Get("Retry-After") == "" {
					t.Errorf("%v %+v %s", err, no, a.body)
				}
			}
			write("ann", 200)
			write("ann", 200)
			clock.Pass(40 * time.Minute)
			write("ann", 200)
			write("ann", 429)
			write("bob", 200)
			clock.Pass(25 * time.Minute) // the first two are over an hour old
			write("ann", 200)
			write("ann", 200)
			write("ann", 429)
			clock.Pass(36 * time.Minute)
			write("ann", 200)
			write("ann", 429)
			write("bob", 200)
		})
	}
}
