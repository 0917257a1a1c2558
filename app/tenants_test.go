package app_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/ring"
)

const tenantsConf = withMem0 + `    - {sha256: "KEY", id: "agent:acme", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
    - {sha256: "RIVAL", id: "agent:globex", kind: agent, trust: authenticated, tenant: globex, acts_as: "*"}
log: {level: error}
`

// Proves EDGE-3, EDGE-13 and TRL-1: of two tenants that share a Mem0, with keys limited
// by nothing else, neither reads, changes, deletes or finds the other's memories on any
// route, by owner or by id, and the answers for the other's names are those for unused
// names. Each has all of its own.
func TestMem0TenantsAreIsolated(t *testing.T) {
	t.Parallel()
	r := start(t, tenantsConf, "RIVAL", sha("rival-key"))
	rival := []string{"X-API-Key", "rival-key"}
	add := r.do("POST", "/memories", `{"messages":[{"role":"user","content":"the canary of acme sings"}],"user_id":"ann","agent_id":"bot","run_id":"run-1","infer":false}`)
	add.want(t, 200)
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(add.body)[1]
	nobodys := "00000000-0000-4000-8000-00000000beef"
	before := r.behind("GET", "/memories?user_id=ann", "")

	list := r.do("GET", "/memories?user_id=zoe", "", rival...)
	list.want(t, 200, "a list under a name that nobody used yet").has(t, "[]")
	r.do("POST", "/memories", `{"messages":[{"role":"user","content":"the song of globex"}],"user_id":"zoe","infer":false}`, rival...).want(t, 200)
	r.do("GET", "/memories?user_id=zoe", "", rival...).has(t, "the song of globex")
	r.do("GET", "/memories?user_id=ann", "").has(t, "canary of acme")
	r.do("POST", "/v1/summary/", `{"filters":{"user_id":"ann"}}`).want(t, 200).has(t, "canary")

	// An empty name is nobody's, and the longest one fits into the ledger.
	for user, key := range map[string][]string{"amy": nil, "zoe": rival} {
		r.do("POST", "/memories", `{"messages":[{"role":"user","content":"Tea."}],"user_id":"`+user+`","agent_id":"","infer":false}`, key...).want(t, 200)
	}
	for n, status := range map[int]int{1000: 200, 1001: 413} {
		r.do("POST", "/memories", `{"messages":[{"role":"user","content":"Tea."}],"agent_id":"`+strings.Repeat("n", n)+`","infer":false}`).want(t, status)
	}

	type ask struct{ method, path, body string }
	var asks []ask
	for _, in := range []string{"user_id", "agent_id", "run_id"} {
		q := url.Values{in: {"NAME"}}.Encode()
		name := fmt.Sprintf(`%q:"NAME"`, in)
		asks = append(asks,
			ask{"GET", "/memories?" + q, ""}, ask{"GET", "/v1/memories/?" + q, ""}, ask{"DELETE", "/memories?" + q, ""}, ask{"DELETE", "/v1/memories/?" + q, ""},
			ask{"POST", "/search", `{"query":"canary",` + name + `}`}, ask{"POST", "/search", `{"query":"canary","filters":{` + name + `}}`},
			ask{"POST", "/v3/memories/search/", `{"query":"canary","filters":{"OR":[{` + name + `}]}}`},
			ask{"POST", "/v2/memories/search/", `{"query":"canary","filters":{"AND":[{` + name + `}]}}`},
			ask{"POST", "/v1/memories/search/", `{"query":"canary","output_format":"v1.1",` + name + `}`},
			ask{"POST", "/v3/memories/", `{"filters":{` + name + `}}`}, ask{"POST", "/v2/memories/", `{"filters":{` + name + `}}`},
			ask{"POST", "/v1/summary/", `{"filters":{` + name + `}}`},
			ask{"POST", "/v1/exports/", `{"schema":{},"filters":{"AND":[{` + name + `}]}}`}, ask{"POST", "/v1/exports/get/", `{"filters":{` + name + `}}`},
		)
	}
	for _, typ := range []string{"user", "agent", "run"} {
		asks = append(asks, ask{"GET", "/v1/memories/" + typ + "/NAME/", ""}, ask{"GET", "/v2/entities/" + typ + "/NAME/", ""},
			ask{"DELETE", "/v2/entities/" + typ + "/NAME/", ""}, ask{"DELETE", "/entities/" + typ + "/NAME", ""})
	}
	asks = append(asks, ask{"GET", "/v2/entities/user/NAME/profile/", ""})
	asks = append(asks, ask{"GET", "/memories/ID", ""}, ask{"GET", "/v1/memories/ID/", ""}, ask{"GET", "/memories/ID/history", ""}, ask{"GET", "/v1/memories/ID/history/", ""},
		ask{"PUT", "/memories/ID", `{"text":"globex was here"}`}, ask{"PUT", "/v1/memories/ID/", `{"text":"globex was here"}`},
		ask{"DELETE", "/memories/ID", ""}, ask{"DELETE", "/v1/memories/ID/", ""}, ask{"GET", "/v1/event/ID/", ""},
		ask{"PUT", "/v1/batch/", `{"memories":[{"memory_id":"ID","text":"globex was here"}]}`}, ask{"DELETE", "/v1/batch/", `{"memories":[{"memory_id":"ID"}]}`},
		ask{"POST", "/v1/feedback/", `{"memory_id":"ID","feedback":"NEGATIVE"}`})
	names := map[string]string{"user": "ann", "agent": "bot", "run": "run-1"}
	mask := regexp.MustCompile(`"decision_id":"[^"]*"`)
	for _, q := range asks {
		var got [2]string
		for i, who := range []string{"theirs", "nobodys"} {
			name, it := "somebody-new", nobodys
			if who == "theirs" {
				it = id
				for kind, n := range names {
					if strings.Contains(q.path+q.body, kind+"_id") || strings.Contains(q.path, "/"+kind+"/") {
						name = n
					}
				}
			}
			fill := strings.NewReplacer("NAME", name, "ID", it)
			a := r.do(q.method, fill.Replace(q.path), fill.Replace(q.body), rival...)
			a.about(q.method, q.path, q.body, "shows another tenant's memory").lacks(t, "canary of acme")
			expect.Text(t, fmt.Sprint(a.header), q.method, q.path, q.body, "shows another tenant's memory").Lacks("canary of acme")
			got[i] = fmt.Sprint(a.status, " ", strings.NewReplacer(name, "NAME", it, "ID").Replace(mask.ReplaceAllString(a.body, "")))
		}
		expect.Equal(t, got[0], got[1], q.method, q.path, q.body, "another's is told from nobody's")
	}
	for _, q := range []ask{
		{"GET", "/v1/memories/", ""}, {"GET", "/v1/memories/events/", ""}, {"GET", "/v1/events/", ""}, {"GET", "/v1/entities/", ""}, {"GET", "/entities", ""},
		{"GET", "/v1/entities/filters/", ""}, {"GET", "/v1/stats/", ""}, {"POST", "/v1/summary/", `{"filters":{"user_id":"*"}}`},
		{"POST", "/v1/summary/", `{"filters":{"user_id":{"ne":"zoe"}}}`}, {"POST", "/v1/summary/", `{"filters":{"OR":[{"user_id":"zoe"},{"user_id":"ann"}]}}`},
		{"POST", "/v1/summary/", `{"user_id":"zoe"}`}, {"POST", "/v1/summary/?user_id=zoe", `{}`},
		{"POST", "/v3/memories/search/", `{"query":"canary","filters":{"user_id":"*"}}`}, {"POST", "/v3/memories/", `{"filters":{"user_id":{"ne":"zoe"}}}`},
		{"DELETE", "/memories?user_id=*", ""}, {"DELETE", "/v1/memories/?user_id=*", ""}, {"POST", "/reset", ""},
	} {
		r.do(q.method, q.path, q.body, rival...).about(q.method, q.path, q.body, "tells of another tenant").lacks(t, "canary of acme", `"ann"`, `"bot"`)
	}
	r.do("GET", "/v1/entities/", "", rival...).want(t, 200).has(t, `"zoe"`, `"count":1,`).lacks(t, "total_users")
	r.do("GET", "/v1/stats/?user_id=zoe", "", rival...).want(t, 403)
	for _, route := range []string{"/memories", "/v1/memories/", "/v3/memories/add/"} {
		a := r.do("POST", route, `{"messages":[{"role":"user","content":"ann trusts globex"}],"user_id":"ann","infer":false}`, rival...)
		a.want(t, 404, "an add to another tenant's user")
	}
	expect.Equal(t, r.behind("GET", "/memories?user_id=ann", ""), before, "another tenant's memories were changed")
}

// A backend declared to serve one tenant is closed to others, and its tenant may read
// what is derived from all memories.
func TestBackendOfOneTenant(t *testing.T) {
	t.Parallel()
	r := start(t, tenantsConf, "RIVAL", sha("rival-key"), `kind: mem0,`, `kind: mem0, tenant: acme,`)
	r.do("POST", "/memories", `{"messages":[{"role":"user","content":"Ann likes tea."}],"user_id":"ann","infer":false}`).want(t, 200)
	r.do("GET", "/v1/entities/", "").want(t, 200).has(t, "ann", `"total_users":1`)
	for _, path := range []string{"/memories?user_id=zoe", "/v1/entities/", "/v1/stats/"} {
		r.do("GET", path, "", "X-API-Key", "rival-key").want(t, 403, "another tenant's caller at", path).has(t, "identity.tenant")
	}
}

// Proves EDGE-3, MFW-8: the pages of a list that no owner restricts are the same,
// including those past the end, after another tenant writes more.
func TestPagesTellNothingOfOtherTenants(t *testing.T) {
	t.Parallel()
	r := start(t, tenantsConf, "RIVAL", sha("rival-key"))
	add := func(user string, key ...string) {
		for _, infer := range []bool{true, false} {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"%s likes tea"}],"user_id":%q,"infer":%t}`, user, user, infer)
			r.do("POST", "/v3/memories/add/", body, key...).want(t, 200)
		}
	}
	walk := func() (got []string) {
		for _, list := range ring.Sample([][3]string{
			{"GET", "/v1/memories/events/", ""}, {"GET", "/v1/events/", ""}, {"GET", "/v1/entities/", ""},
			{"POST", "/v2/memories/", `{"filters":{"user_id":"*"}}`}, {"POST", "/v3/memories/", `{"filters":{"user_id":"*"}}`},
			// An owner where the route ignores it does not restrict the list.
			{"POST", "/v2/memories/", `{"filters":{"user_id":"*"},"user_id":"zoe"}`}, {"POST", "/v3/memories/", `{"filters":{"AND":[{"created_at":{"gte":"2020-01-01"}}]},"user_id":"zoe"}`},
			{"GET", "/v1/memories/events/?user_id=zoe&", ""}, {"GET", "/v1/events/?user_id=zoe&", ""}, {"GET", "/v1/entities/?user_id=zoe&", ""},
		}, 1, 4) {
			for _, size := range []string{"page_size=2", "page_size=3", "page_size=1&limit=1"} {
				for page := range 8 {
					path, query, _ := strings.Cut(list[1], "?")
					a := r.do(list[0], fmt.Sprintf("%s?%spage=%d&%s", path, query, page+1, size), list[2], "X-API-Key", "rival-key")
					got = append(got, fmt.Sprint(list[1], " ", page+1, " ", size, ": ", a.status, " ", a.body))
				}
			}
		}
		return got
	}
	add("ann")
	add("zoe", "X-API-Key", "rival-key")
	before := walk()
	add("bob")
	add("carl")
	for i, after := range walk() {
		expect.Equal(t, after, before[i])
	}
}

// Proves EDGE-3, GOV-5: binding a name costs as much as a write: a write that the
// backend refuses, or that writes nothing, is charged. The names of a refused one are
// released. A list of names binds none, wherever it stands.
func TestBindingNamesIsCharged(t *testing.T) {
	t.Parallel()
	r := start(t, tenantsConf+"budgets: {default: {writes_per_hour: 4}, together: 1}\n", "RIVAL", sha("rival-key"))
	add := func(user, more string, key ...string) got {
		return r.do("POST", "/memories", fmt.Sprintf(`{"messages":[{"role":"user","content":"likes tea"}],"user_id":%q%s}`, user, more), key...)
	}
	const list = `["ann-1","ann-2","ann-3"]`
	rival := []string{"X-API-Key", "rival-key"}
	for _, more := range []string{
		`,"metadata":{"user_id":` + list + `}`, `,"filters":{"user_id":{"in":` + list + `}}`,
		`,"filters":{"AND":[{"metadata":{"user_id":"ann-1"}},{"metadata":{"user_id":"ann-2"}},{"metadata":{"user_id":"ann-3"}}]}`,
	} {
		add("zoe", more, rival...).want(t, 403, more).has(t, "identity.broad")
	}
	for i, tc := range []struct {
		body string
		want int
	}{
		{`"messages":[],"expiration_date":"soon"`, 400}, {`"messages":[],"expiration_date":"soon"`, 400},
		{`"messages":[]`, 200}, {`"messages":[]`, 200}, {`"messages":[]`, 429},
	} {
		r.do("POST", "/memories", fmt.Sprintf(`{%s,"user_id":"bob-%d","infer":false}`, tc.body, i), rival...).want(t, tc.want, "write", i, "of nothing")
	}
	for _, user := range []string{"ann-1", "ann-3", "bob-0", "bob-4"} { // the backend refused the write for bob-0
		add(user, "").want(t, 200, user, "for which the backend has nothing of the rival")
	}
	add("bob-2", "").want(t, 404, "a name that a write bound")
}

// Proves EDGE-3: a limited caller may exclude owners from a search of its own, and from
// nothing wider.
func TestSearchesMayExcludeOwners(t *testing.T) {
	t.Parallel()
	r := start(t, plain)
	for filters, want := range map[string]int{
		`{"user_id":"ann","NOT":[{"user_id":"bob"}]}`:                    200,
		`{"AND":[{"user_id":"ann"},{"NOT":[{"user_id":"bob"}]}]}`:        200,
		`{"user_id":{"in":["ann"],"ne":"bob"}}`:                          200,
		`{"NOT":[{"user_id":"bob"}]}`:                                    403,
		`{"OR":[{"user_id":"ann"},{"NOT":[{"user_id":"bob"}]}]}`:         403,
		`{"AND":[{"user_id":"ann"},{"OR":[{"user_id":"bob"}]}]}`:         403,
		`{"user_id":{"in":["ann","bob"]},"NOT":[{"user_id":"bob"}]}`:     403,
		`{"AND":[{"NOT":[{"user_id":{"ne":"ann"}}]},{"user_id":"ann"}]}`: 200,
	} {
		r.do("POST", "/search", `{"query":"tea","agent_id":"dev","filters":`+filters+`}`).want(t, want, filters)
	}
}
