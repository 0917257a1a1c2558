package mem0_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-3, EDGE-13: ids are found by their form in every parameter, header and
// member. A member or parameter that looks like a name of something and is not in
// naming is removed, and the rest is sent unchanged. Other members pass.
func TestWhatHasNoRowIsFoundOrTakenOff(t *testing.T) {
	const id = "11111111-2222-4333-8444-555555555555"
	a := adapter(t)
	for name, tc := range map[string]struct {
		target, body, header string
		found                bool
		bare                 string // what is sent, if something is removed
	}{
		"a member with an id":              {target: "POST /v3/memories/add/", body: `{"user_id":"ann","messages":[{"role":"user","content":"tea"}],"thread_id":"` + id + `"}`, found: true},
		"a member with a name":             {target: "POST /v3/memories/add/", body: `{"user_id":"ann","messages":[{"role":"user","content":"tea"}],"owner_id":"bob"}`, bare: `{"user_id":"ann","messages":[{"role":"user","content":"tea"}]}`},
		"a list of names":                  {target: "POST /v3/memories/search/", body: `{"query":"tea","filters":{"user_id":"ann"},"user_ids":["bob"]}`, bare: `{"query":"tea","filters":{"user_id":"ann"}}`},
		"in an object":                     {target: "POST /v3/memories/search/", body: `{"query":"tea","filters":{"user_id":"ann"},"ownerIds":{"a":["bob"]}}`, bare: `{"query":"tea","filters":{"user_id":"ann"}}`},
		"a parameter with a name":          {target: "GET /v1/memories/?user_id=ann&owner_id=bob", bare: "user_id=ann"},
		"parameters with brackets":         {target: "GET /v1/memories/?user_id=ann&owner_id[]=bob&x=%20y&thread%5Fid=" + id + ",carl", bare: "user_id=ann&x=%20y"},
		"the name of one's own tenant's":   {target: "POST /v3/memories/add/", body: `{"thread_id":"ann","user_id":"ann","trace_id":"t-1","messages":[{"role":"user","content":"tea"}]}`, bare: `{"user_id":"ann","messages":[{"role":"user","content":"tea"}]}`},
		"a parameter with ids":             {target: "GET /v1/memories/?user_id=ann&thread_ids=" + id + "," + id, bare: "user_id=ann"},
		"a parameter with an id":           {target: "GET /v1/memories/?user_id=ann&of=" + id, found: true},
		"a header with an id":              {target: "GET /v1/memories/?user_id=ann", header: id, found: true},
		"a name in metadata":               {target: "POST /v3/memories/add/", body: `{"user_id":"ann","messages":[{"role":"user","content":"tea"}],"metadata":{"order_id":"bob"}}`},
		"a filter on metadata":             {target: "POST /v3/memories/search/", body: `{"query":"tea","filters":{"user_id":"ann","order_id":"bob"}}`},
		"a word that ends alike":           {target: "POST /v3/memories/search/", body: `{"query":"tea","filters":{"user_id":"ann"},"paid":"bob","PAID":"bob"}`},
		"the credential's project":         {target: "GET /v1/memories/?user_id=ann&org_id=o&project_id=p"},
		"a number":                         {target: "POST /v3/memories/search/", body: `{"query":"tea","filters":{"user_id":"ann"},"trace_id":7}`},
		"an owner in two spellings, alike": {target: "POST /v3/memories/add/", body: `{"user_id":"ann","userId":"ann","messages":[{"role":"user","content":"tea"}]}`},
	} {
		rt, req := routed(t, a, tc.target)
		if tc.header != "" {
			req.Header["X-Of-Tomorrow"] = []string{tc.header}
		}
		op, err := a.Decode(rt, req, []byte(tc.body))
		must.Do(t, err, name)
		body, query, err := a.Encode(rt, req, []byte(tc.body), op)
		must.Do(t, err)
		want, was := tc.bare, tc.body
		if tc.body == "" {
			was, body = req.Query, []byte(query)
		} else if query != req.Query {
			t.Errorf("%s: the query became %s", name, query)
		}
		if want == "" {
			want = was
		}
		if string(body) != want || (len(op.Unclaimed) > 0) != (tc.bare != "") {
			t.Errorf("%s: %s goes, want %s; taken off: %q", name, body, want, op.Unclaimed)
		}
		found := slices.ContainsFunc(op.Refs, func(r memproxy.Ref) bool { return r.ID == id && r.Loose && r.Kind == memproxy.TargetExport })
		if found != tc.found {
			t.Errorf("%s: found is %v: %+v", name, found, op)
		}
	}
}
