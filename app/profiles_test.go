package app_test

import (
	"cmp"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Proves GOV-7: a profile from before a deletion, or of unknown age, is not shown; a newer one,
// an empty one and another user's are.
func TestProfilesDoNotOutliveDeletions(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}", "kind: agent,", "kind: agent, roles: [memproxy-owner, memproxy-forget],")
	id := r.written("Ann keeps bees.", "")
	r.ownedBy("Bob swims.", `"user_id":"bob"`)
	path := ""
	profile := func(user, texts, updated string) got {
		to := r.back.handler()
		defer r.back.handle(to)
		r.back.handle(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			replies(w, http.StatusOK, fmt.Sprintf(`{"profile":%s,"status":"succeeded","entity_type":"user","entity_id":%q,"updated_at":%s,"generation_count":1,"error":null}`, texts, user, updated))
		}))
		return r.do("GET", cmp.Or(path, "/v2/entities/user/"+user+"/profile/"), "")
	}
	const bees = `{"hobby":"Ann keeps bees."}`
	before := time.Now()
	at := func(when time.Time) string { return when.Format(`"2006-01-02T15:04:05.999999-07:00"`) }
	profile("ann", bees, at(before)).want(t, 200).has(t, "bees")
	profile("ann", bees, "null").want(t, 200, "nothing was deleted").has(t, "bees")
	r.do("DELETE", "/v1/memories/"+id+"/", "").want(t, 200)
	for _, old := range []string{at(before), at(before.In(time.FixedZone("", 9*3600))), "null", `"soon"`, "7"} {
		profile("ann", bees, old).want(t, 403, old).has(t, "state.withheld").lacks(t, "bees")
	}
	profile("ann", bees, at(time.Now().Add(10*time.Second))).want(t, 403, "it may have been read before")
	profile("ann", `"Ann sails."`, at(time.Now().Add(2*time.Minute))).want(t, 200).has(t, "sails")
	profile("ann", `{}`, "null").want(t, 200)
	profile("bob", `{"hobby":"Bob swims."}`, at(before)).want(t, 200).has(t, "swims")
	path = "/v2/profiles/jobs/00000000-0000-4000-8000-000000000001/?user_id=bob" // which the service ignores
	profile("ann", bees, at(before)).want(t, 403, "of a job").lacks(t, "bees")
}
