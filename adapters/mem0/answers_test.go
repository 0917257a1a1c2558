package mem0_test

import (
	"os"
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/answers/answerstest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-13, CARD-1: every row's answer is claimed member by member, at every
// level; no other member passes.
func TestAnswersAreClaimed(t *testing.T) {
	a := adapter(t)
	answerstest.Table(t, a, string(must.Get(os.ReadFile("answers.txt"))(t)))
}

// Proves EDGE-13, TRL-10: answers in the forms of the servers and of the SDKs' types
// pass unchanged.
func TestAnswersOfTheServers(t *testing.T) {
	a := adapter(t)
	for _, tc := range []struct {
		route  string
		status int
		body   string
	}{
		{"mem0.server.search", 200, `{"results":[{"id":"a","memory":"m","hash":"h","metadata":{"any":[1]},"score":0.5,"created_at":"t","updated_at":"t","user_id":"u","agent_id":"g","run_id":"r","actor_id":"x","role":"user","attributed_to":"user","expiration_date":null,"score_details":{"semantic":0.1,"bm25":0.2,"raw":3}}],"relations":[{"source":"a","relationship":"b","destination":"c"}]}`},
		{"mem0.server.add", 200, `{"results":[{"id":"a","memory":"m","event":"UPDATE","previous_memory":"old","actor_id":"x","role":"user"}],"relations":{"added_entities":[[{"source":"a","relationship":"b","target":"c"}]],"deleted_entities":[]}}`},
		{"mem0.v1.add", 200, `[{"message":"m","status":"PENDING","event_id":"e"}]`},
		{"mem0.v3.add", 200, `{"message":"m","status":"SUCCEEDED","event_id":"e","results":[{"id":"a","data":{"memory":"m"},"event":"ADD"}],"mem0_notice":"n"}`},
		{"mem0.v3.list", 200, `{"count":1,"next":"https://h/x","previous":null,"results":[{"id":"a","memory":"m","session_id":null,"categories":["c"],"structured_attributes":{"year":2026},"replaced_by":null,"synthesized":false,"lifecycle_state":"active","score_breakdown":{"semantic":1,"bm25":0,"entity":0},"owner":"o","memory_type":"x"}]}`},
		{"mem0.v1.history", 200, `[{"id":"h","memory_id":"m","input":[{"role":"user","content":"c"}],"old_memory":null,"new_memory":"n","user_id":"u","categories":[],"event":"ADD","metadata":null,"created_at":"t","updated_at":"t"}]`},
		{"mem0.v1.event", 200, `{"id":"e","event_type":"ADD","status":"SUCCEEDED","payload":{"messages":[{"role":"user","content":"c"}]},"metadata":{},"results":[{"id":"a","data":{"memory":"m"},"event":"ADD","user_id":"u"}],"created_at":"t","updated_at":"t","started_at":"t","completed_at":"t","latency":1.5,"graph_status":null,"error":null}`},
		{"mem0.v1.entities", 200, `{"count":1,"next":null,"previous":null,"results":[{"id":"1","name":"u","type":"user","owner":"o","metadata":{},"created_at":"t","updated_at":"t","total_memories":3}],"total_users":1,"total_agents":0,"total_apps":0,"total_runs":0}`},
		{"mem0.v2.profile", 200, `{"profile":{"any":{"thing":1}},"status":"succeeded","entity_type":"user","entity_id":"u","updated_at":"t","generation_count":1,"error":null}`},
		{"mem0.v1.export.get", 200, `{"whatever":["the","schema",{"says":1}]}`},
		{"mem0.v1.summary", 200, `free text`},
		{"mem0.server.get", 200, `null`},
		{"mem0.server.get", 404, `{"detail":"Memory not found"}`},
		{"mem0.server.add", 422, `{"detail":[{"type":"missing","loc":["body","messages"],"msg":"Field required","url":"https://errors.pydantic.dev/2.11/v/missing"}]}`},
		{"mem0.server.add", 502, `{"detail":"Provider timed out. Retry shortly.","code":"provider_timeout","request_id":"12345678"}`},
		{"mem0.v1.get", 400, `{"error":"x1 is not a valid memory id"}`},
		{"mem0.v1.get", 400, `["This field is required."]`},
		{"mem0.v1.add", 400, `{"messages":["This field is required."],"user_id":["This field may not be blank.","Not a valid string."]}`},
		{"mem0.v3.search", 400, `{"error":"query is required","details":{"message":"This field may not be blank."}}`},
		{"mem0.rush.add", 429, `{"error":{"code":"c","message":"Rate limit exceeded"}}`},
	} {
		got, err := a.Prune(memproxy.Route{ID: tc.route}, memproxy.Reply{Status: tc.status, Body: []byte(tc.body)})
		if err != nil || got.Unclaimed != 0 || string(got.Body) != tc.body {
			t.Errorf("%s %d: %q left out of %s: %v", tc.route, tc.status, got.Names, tc.body, err)
		}
	}
	got, err := a.Prune(memproxy.Route{ID: "mem0.v1.add"}, memproxy.Reply{Status: 400, Body: []byte(`{ "other":["canary"] }`)})
	if err != nil || string(got.Body) != `{"detail":"the backend answered 400"}` || !slices.Equal(got.Names, []string{"/other"}) || got.Type == "" {
		t.Errorf("an error of which nothing is left: %+v, %v", got, err)
	}
	// Similar answers that must not pass.
	for _, tc := range []struct{ route, body, want string }{
		{"mem0.server.search", `{"results":[],"summary":"canary","linked_memories":[{"memory":"canary"}]}`, `{"results":[]}`},
		{"mem0.server.search", `{"data":[{"memory":"canary"}],"results":[]}`, `{"results":[]}`},
		{"mem0.server.search", `{"results":[{"id":"a","linked_memories":[{"memory":"canary"}]}]}`, `{"results":[{"id":"a"}]}`},
		{"mem0.server.list", `{"results":[{"id":"a","data":{"memory":"m","text":"canary"}}]}`, `{"results":[{"id":"a","data":{"memory":"m"}}]}`},
		{"mem0.v3.add", `{"event_id":"e","context":["canary"]}`, `{"event_id":"e"}`},
	} {
		got, err := a.Prune(memproxy.Route{ID: tc.route}, memproxy.Reply{Status: 200, Body: []byte(tc.body)})
		if err != nil || string(got.Body) != tc.want {
			t.Errorf("%s: %s becomes %s: %v", tc.route, tc.body, got.Body, err)
		}
	}
}

// Proves EDGE-13, SYN-10: unreadable elements are removed from a list and reported; an
// answer that is unreadable outside of its lists is refused.
func TestUnreadableElementsAreLeftOut(t *testing.T) {
	a := adapter(t)
	for _, tc := range []struct {
		body, want string
		gone       int
	}{
		{`{"results":[{"id":"a","memory":"m"},{"id":"b","memory":"canary","memory":"x"}]}`, `{"results":[{"id":"a","memory":"m"}]}`, 1},
		{`{"results":[{"id":"a","memory":"m","evil":1},{"id":"b","score":NaN}]}`, `{"results":[{"id":"a","memory":"m"}]}`, 1},
		{`{"results":[{"id":"a","memory":"m"},{"id":"b","metadata":{"k":1,"x":{},"k":2}}]}`, `{"results":[{"id":"a","memory":"m"}]}`, 1},
		{`{"results":[{"id":"a","memory":"m"}],"results":[]}`, "", 0},
		{`{"results":[{"id":"a","memory":"m"}`, "", 0},
	} {
		got, err := a.Prune(memproxy.Route{ID: "mem0.server.list"}, memproxy.Reply{Status: 200, Body: []byte(tc.body)})
		if string(got.Body) != tc.want || got.Unreadable != tc.gone || (err == nil) != (tc.gone > 0) {
			t.Errorf("%s becomes %s, %d gone: %v", tc.body, got.Body, got.Unreadable, err)
		}
	}
	rt, body := memproxy.Route{ID: "mem0.server.list", Kind: memproxy.Recall}, `{"results":[{"id":"a","user_id":"ann"},{"id":"b","user_id":7},{"id":"c","metadata":{"agent_id":{}}},"d",{"id":["e"]},{"id":"f","user_id":null}]}`
	rd, err := a.Read(rt, memproxy.Request{}, memproxy.Reply{Status: 200, Body: []byte(body)})
	must.Do(t, err, rd)
	must.Len(t, rd.Memories, 6, rd)
	for i, want := range []bool{false, true, true, true, true, false} {
		expect.Equal(t, rd.Memories[i].Unreadable, want, i, rd.Memories[i])
	}
}

// Proves EDGE-13, EDGE-3: an element whose owner has an unknown form is removed as a
// whole: without that member it would seem to have no owner.
func TestOwnersOfUnknownFormRemoveTheElement(t *testing.T) {
	a := adapter(t)
	for _, name := range []string{"id", "user_id", "agent_id", "app_id", "run_id"} {
		for _, owner := range []string{`["ann"]`, `{"id":"ann"}`, `[]`, `{}`} {
			body := `{"results":[{"memory":"canary","` + name + `":` + owner + `},{"id":"b","memory":"m","user_id":"ann","agent_id":null}]}`
			got, err := a.Prune(memproxy.Route{ID: "mem0.server.list"}, memproxy.Reply{Status: 200, Body: []byte(body)})
			if err != nil || string(got.Body) != `{"results":[{"id":"b","memory":"m","user_id":"ann","agent_id":null}]}` {
				t.Errorf("%s: %s becomes %s: %v", name, owner, got.Body, err)
			}
			if got, err := a.Prune(memproxy.Route{ID: "mem0.server.get"}, memproxy.Reply{Status: 200, Body: []byte(`{"memory":"canary","` + name + `":` + owner + `}`)}); err == nil {
				t.Errorf("%s: %s alone becomes %s", name, owner, got.Body)
			}
		}
	}
}
