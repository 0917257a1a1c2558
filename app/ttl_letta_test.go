package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// On Letta the governed fields are block labels: by default such a block expires thirty
// days after its last write, and an ordinary one never.
//
// Proves SYN-9
func TestGovernedBlocksExpire(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	clock := ledgertest.NewClock()
	l := startLettaRig(&rig{t: t, clock: clock.Now}, someAgent, lettaConf, func(h http.Handler) http.Handler { return h })
	begun := clock.Now()
	block := func(label, value string) string {
		t.Helper()
		a := l.do("POST", "/v1/blocks/", `{"label":"`+label+`","value":"`+value+`"}`)
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return made.ID
	}
	ends := func(id string) time.Time {
		return l.rig.stands(id).Expires
	}
	kept, left, free := block("learnings", "The tests run in four minutes."), block("learnings", "The build needs a compiler."), block("human", "Ann likes green tea.")
	ring.Until(t, "ends on day 30, and none", func() bool {
		return ends(kept).Sub(begun.Add(30*day)).Abs() < time.Hour && ends(left).Sub(begun.Add(30*day)).Abs() < time.Hour && ends(free).IsZero()
	})
	clock.Pass(20 * day)
	l.do("PATCH", "/v1/blocks/"+kept, `{"value":"The tests run in four minutes."}`).want(t, 200)
	ring.Until(t, "an end on day 50", func() bool { return ends(kept).Sub(begun.Add(50*day)).Abs() < time.Hour })
	clock.Pass(11 * day)
	l.rig.once("upkeep", clock.Now())
	for id, want := range map[string]int{kept: 200, left: 404, free: 200} {
		if a := l.do("GET", "/v1/blocks/"+id, ""); a.status != want {
			t.Errorf("%s: %d %s", id, a.status, a.body)
		}
	}
	if list := l.do("GET", "/v1/blocks/", "").body; strings.Contains(list, "compiler") || !strings.Contains(list, "four minutes") || !strings.Contains(list, "green tea") {
		t.Errorf("listed %s", list)
	}
}
