package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Limits apply per caller and end user over a sliding hour, counted in this process or
// in Redis: only writes older than an hour make room, and other end users of the key
// are not affected. The refusal states the limit and when to retry.
//
// Proves TRL-6, CARD-4
func TestEndUserLimitsUseASlidingWindow(t *testing.T) {
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
				a.want(t, want, "after", clock.Now())
				if want != 429 {
					return
				}
				var no struct {
					Limit, Remaining int
					Reset            time.Time
				}
				err := json.Unmarshal([]byte(a.body), &no)
				expect.Equal(t, err == nil && no.Limit == 3 && no.Remaining == 0 && no.Reset.After(clock.Now()) && a.header.Get("Retry-After") != "", true, err, no, a.body)
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

// A key that serves many users has a higher limit for all of them together, and a user
// without budget does not affect the others.
//
// Proves TRL-6
func TestKeysHaveALimitForAllUsers(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "budgets: {default: {writes_per_hour: 2}, together: 3, rapid_per_minute: 0}")
	write := func(user string) got {
		return r.do("POST", "/memories", fmt.Sprintf(`{"user_id":%q,"infer":false,"messages":[{"role":"user","content":"Tea number %d is green."}]}`, user, r.back.count()))
	}
	for _, user := range []string{"ann", "bob", "cleo"} {
		for range 2 {
			write(user).want(t, 200, user)
		}
		if a := write(user); a.status != 429 || !strings.Contains(a.body, `"rule":"user/`) && user != "cleo" {
			t.Errorf("%s, a third: %d %s", user, a.status, a.body)
		}
	}
	write("dan").want(t, 429, "all together").has(t, `"rule":"principal/agent:dev"`, `"limit":6`)
}

// Changes in a batch, and facts inferred by a client, are charged per memory.
//
// Proves TRL-6
func TestBatchesAreCharged(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "budgets: {default: {writes_per_hour: 8}, rapid_per_minute: 0}")
	var ids []string
	for n := range 3 {
		ids = append(ids, r.written(fmt.Sprintf("Ann keeps %d bees.", n+2), ""))
	}
	batch := func(ids ...string) got {
		var all []string
		for _, id := range ids {
			all = append(all, fmt.Sprintf(`{"memory_id":%q,"text":"Ann keeps %d ducks."}`, id, r.back.count()))
		}
		return r.do("PUT", "/v1/batch/", `{"memories":[`+strings.Join(all, ",")+`]}`)
	}
	batch(ids...).want(t, 200) // six of eight
	batch(ids...).want(t, 429)
	deduced := func(texts string) got {
		return r.do("POST", "/v3/memories/add/", `{"user_id":"ann","messages":[{"role":"user","content":"hi"}],"deduced_memories":[`+texts+`]}`)
	}
	deduced(`"Ann rows.","Ann sails.","Ann swims."`).want(t, 429)
	batch(ids[:2]...).want(t, 200)
	batch(ids[0]).want(t, 429)
}
