package mem0_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves MFW-7: an approved addition has arrived if its stamp is in the scope that it
// names; a list that may be incomplete is inconclusive.
func TestSeek(t *testing.T) {
	a := adapter(t)
	for path, want := range map[string]string{
		"/memories": "/memories?agent_id=dev&top_k=1000&user_id=ann", "/v1/memories/": "/v1/memories/?agent_id=dev&page=3&page_size=200&user_id=ann", "/v3/memories/add/": "/v1/memories/?agent_id=dev&page=3&page_size=200&user_id=ann",
	} {
		rt, req := routed(t, a, "POST "+path)
		op := decode(t, a, "POST "+path, `{"user_id":"ann","agent_id":"dev","messages":[{"role":"user","content":"x"}]}`)
		q, ok := a.StampSearchRequest(rt, req, op, 3)
		if !ok || q.EscapedPath+"?"+q.Query != want || q.Method != "GET" {
			t.Errorf("%s: %+v %v", path, q, ok)
		}
	}
	if _, ok := a.StampSearchRequest(memproxy.Route{ID: "mem0.v1.update"}, memproxy.Request{}, &memproxy.Operation{}, 1); ok {
		t.Error("a change is looked for by a stamp")
	}
	one := func(id, decision string) string {
		return fmt.Sprintf(`{"id":%q,"memory":"x","metadata":{"memproxy_id":%q,"memproxy_actor":"a","memproxy_trust":"authenticated","memproxy_confidence":0.7,"memproxy_source":"unstated","memproxy_attestation":"self-reported","memproxy_ts":"2026-01-01T00:00:00Z","memproxy_sha256":"","memproxy_sig":"s"}}`, id, decision)
	}
	several := func(n int) string { return strings.TrimSuffix(strings.Repeat(one("m1", "d1")+",", n), ",") }
	for name, tc := range map[string]struct {
		body     string
		of, ids  int
		more, ok bool
	}{
		"found":                    {`{"results":[` + one("m1", "d1") + `,` + one("m2", "d2") + `]}`, 0, 1, false, true},
		"not there":                {`[` + one("m1", "d1") + `]`, 0, 0, false, true},
		"a list that may go on":    {`[` + several(100) + `]`, 0, 0, false, false},
		"more than that was given": {`{"results":[` + several(101) + `]}`, 0, 0, false, true},
		"as many as were asked":    {`{"results":[` + several(1000) + `]}`, 0, 0, false, false},
		"a page":                   {`{"count":300,"next":"http://b/?page=2","previous":null,"results":[` + several(200) + `]}`, 300, 0, true, true},
		"the last page":            {`{"count":300,"next":null,"previous":"http://b/","results":[` + several(100) + `]}`, 300, 0, false, true},
	} {
		ids, of, more, err := a.ReadStampSearch(memproxy.Reply{Status: 200, Body: []byte(tc.body)}, "d2")
		if len(ids) != tc.ids || of != tc.of || more != tc.more || (err == nil) != tc.ok || tc.ids > 0 && ids[0] != "m2" {
			t.Errorf("%s: %v of %d, %v, %v", name, ids, of, more, err)
		}
	}
}
