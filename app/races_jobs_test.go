package app_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/must"
)

// Proves SYN-5, EDGE-4: no change comes between the state that a rollback finds and its end,
// so that it overwrites only the text that the reviewer named.
func TestRollbacksHaveTheirTurn(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		r := startRacedMem0(t, "memories: {validate: 0}")
		id := r.added("Ann likes tea.")
		update := call{"PUT", "/memories/" + id, `{"text":"Ann likes milk."}`}
		r.do(update, "").want(t, 200)
		for _, c := range []call{{"PUT", "/memories/" + id, `{"text":"Ann likes wine."}`}, {"DELETE", "/memories/" + id, ""}} {
			r.meanwhile("PUT", "/memories/"+id, func() { r.do(c, "human").want(t, 503).has(t, "limit.in_flight") })
			back := fmt.Sprintf(`{"sha256":%q,"newest":%q,"reason":"so"}`, sha("Ann likes tea."), sha("Ann likes milk."))
			r.reviews("/v1/memories/mem0/"+id+"/rollback", back).want(t, 200)
			r.happened()
			r.shows(id, "likes tea")
			r.do(update, "").want(t, 200)
			r.shows(id, "likes milk")
		}
		r.meanwhile("PUT", "/memories/"+id, func() {
			r.reviews("/v1/memories/mem0/"+id+"/rollback", fmt.Sprintf(`{"sha256":%q,"reason":"so"}`, sha("Ann likes tea."))).want(t, 503).has(t, "in_flight")
		})
		r.do(update, "").want(t, 200)
		r.happened()
	})
}

// Proves SYN-9: an expired memory that is written again while others are purged stays.
func TestWrittenMemoriesAreNotPurged(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		r := startRacedMem0(t, "memories: {validate: 0, ttl: {default: 1h}}")
		ids := []string{r.added("Ann likes tea."), r.added("Ann likes milk.")}
		r.once("upkeep", r.car.clock().Add(2*time.Hour))
		kept := ""
		r.meanwhile("DELETE", "/memories/", func() {
			for _, id := range ids { // the one that is being deleted is not written
				if a := r.do(call{"PUT", "/memories/" + id, `{"text":"Ann likes wine."}`}, ""); a.status == 200 {
					kept += id
				} else {
					a.want(t, 503)
				}
			}
		})
		r.once("upkeep", r.car.clock().Add(200*24*time.Hour))
		r.happened()
		must.Len(t, kept, len(ids[0]), "written")
		r.shows(kept, "likes wine")
	})
}
