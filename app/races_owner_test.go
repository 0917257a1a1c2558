package app_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/memproxy/memproxy/internal/expect"
)

// waits starts a request while another is under way, and fails the test if it is answered
// before that one ends. The answer comes on the channel.
func waits(t *testing.T, do func() got) <-chan got {
	t.Helper()
	done := make(chan got, 1)
	go func() { done <- do() }()
	synctest.Wait()
	expect.Len(t, done, 0, "answered at once")
	return done
}

// Proves EDGE-4, EDGE-8, SYN-5: a bulk deletion and a change, a deletion or a rollback of a
// memory of that owner wait for one another, so that nothing that a server writes by id is
// left after the deletion was answered.
func TestBulkDeletionsAndChangesOfTheirMemoriesWait(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(r *raced, id string) got
		method string
		late   int // its status after the deletion
	}{
		"update": {func(r *raced, id string) got {
			return r.do(call{"PUT", "/memories/" + id, `{"text":"Ann likes milk."}`}, "")
		}, "PUT", 404},
		"deletion": {func(r *raced, id string) got { return r.do(call{"DELETE", "/memories/" + id, ""}, "") }, "DELETE", 404},
		"rollback": {func(r *raced, id string) got {
			return r.reviews("/v1/memories/mem0/"+id+"/rollback", fmt.Sprintf(`{"sha256":%q,"reason":"so"}`, sha("Ann likes tea.")))
		}, "PUT", 409},
	} {
		inBubble(t, name, func(t *testing.T) {
			r := startRacedMem0(t, "memories: {validate: 0}")
			added := func() string {
				id := r.added("Ann likes tea.")
				r.do(call{"PUT", "/memories/" + id, `{"text":"Ann likes beer."}`}, "").want(t, 200)
				return id
			}
			clearing := func() got { return r.do(call{"DELETE", "/memories?user_id=ann", ""}, "human") }
			gone := func(id string) { r.do(call{"GET", "/memories/" + id, ""}, "").want(t, 200).has(t, "null") }
			var other <-chan got
			id := added()
			r.meanwhile(c.method, "/memories/"+id, func() { other = waits(t, clearing) })
			c.do(r, id).want(t, 200)
			r.happened()
			(<-other).want(t, 200)
			gone(id)
			id = added()
			r.meanwhile("DELETE", "/memories", func() {
				other = waits(t, func() got { return c.do(r, id) })
				r.meanwhile("GET", "/memories/"+id, func() {}) // it is looked up when the deletion is over
			})
			clearing().want(t, 200)
			(<-other).want(t, c.late)
			r.happened()
			gone(id)
		})
	}
}
