package mem0_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves MFW-7: an approved addition has arrived if its stamp is in the scope that it
// names; a list that may be incomplete is inconclusive.
func TestSeek(t *testing.T) {
	a := must.Get(mem0.New(mem0.Options{}))(t)
	for path, want := range map[string]string{
		"/memories": "/memories?agent_id=dev&user_id=ann", "/v1/memories/": "/v1/memories/?agent_id=dev&user_id=ann", "/v3/memories/add/": "/v1/memories/?agent_id=dev&user_id=ann",
	} {
		req := memproxy.Request{Method: "POST", Path: path, EscapedPath: path, Header: memproxy.Header{"Content-Type": {"application/json"}}}
		rt, _ := a.Route(req)
		op := must.Get(a.Decode(rt, req, []byte(`{"user_id":"ann","agent_id":"dev","messages":[{"role":"user","content":"x"}]}`)))(t)
		q, ok := a.Seek(rt, req, op)
		if !ok || q.EscapedPath+"?"+q.Query != want || q.Method != "GET" {
			t.Errorf("%s: %+v %v", path, q, ok)
		}
	}
	if _, ok := a.Seek(memproxy.Route{ID: "mem0.v1.update"}, memproxy.Request{}, &memproxy.Operation{}); ok {
		t.Error("a change is looked for by a stamp")
	}
	one := func(id, decision string) string {
		return fmt.Sprintf(`{"id":%q,"memory":"x","metadata":{"memproxy_id":%q,"memproxy_actor":"a","memproxy_trust":"authenticated","memproxy_confidence":0.7,"memproxy_source":"unstated","memproxy_attestation":"self-reported","memproxy_ts":"2026-01-01T00:00:00Z","memproxy_sha256":"","memproxy_sig":"s"}}`, id, decision)
	}
	ids, err := a.Sought(memproxy.Reply{Status: 200, Body: []byte(`{"results":[` + one("m1", "d1") + `,` + one("m2", "d2") + `]}`)}, "d2")
	if err != nil || len(ids) != 1 || ids[0] != "m2" {
		t.Errorf("%v %v", ids, err)
	}
	if ids, err := a.Sought(memproxy.Reply{Status: 200, Body: []byte(`[` + one("m1", "d1") + `]`)}, "d2"); err != nil || len(ids) != 0 {
		t.Errorf("%v %v", ids, err)
	}
	many := strings.TrimSuffix(strings.Repeat(one("m1", "d1")+",", 100), ",")
	if _, err := a.Sought(memproxy.Reply{Status: 200, Body: []byte(`[` + many + `]`)}, "d2"); err == nil {
		t.Error("a list that may go on says that nothing is there")
	}
}
