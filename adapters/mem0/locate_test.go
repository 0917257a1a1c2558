package mem0_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-3: the target of an operation is requested from its dialect's path, and
// its id stays one segment.
func TestLocate(t *testing.T) {
	a := adapter(t)
	for _, tt := range []struct{ route, target, path string }{
		{"mem0.v1.update", "m1", "/v1/memories/m1/"},
		{"mem0.v1.batch.delete", "a b", "/v1/memories/a%20b/"},
		{"mem0.server.delete", "m1", "/memories/m1"},
		{"mem0.server.delete", "x/../y?z#", "/memories/x%2F..%2Fy%3Fz%23"},
		{"mem0.v1.event", "e1", "/v1/event/e1/"},
		{"mem0.v1.event", "m1", "/v1/memories/m1/"}, // a memory that the event made
	} {
		header := memproxy.Header{"Authorization": {"Token x"}}
		r := a.Locate(memproxy.Route{ID: tt.route, Params: map[string]string{"id": "e1"}}, memproxy.Request{Method: "PUT", Query: "q=1", Header: header, Base: "b"}, tt.target)
		if r.Method != "GET" || r.EscapedPath != tt.path || r.Query != "" || r.Header.Get("Authorization") != "Token x" {
			t.Errorf("%s %q: %+v", tt.route, tt.target, r)
		}
	}
}

// Proves EDGE-3: valid and invalid answers about one memory.
func TestLocated(t *testing.T) {
	a := adapter(t)
	for _, tt := range []struct {
		name, route string
		status      int
		body        string
		missing, ok bool
	}{
		{"found", "mem0.v1.update", 200, `{"id":"m1","memory":"a","user_id":"alice"}`, false, true},
		{"in capitals", "mem0.v1.update", 200, `{"id":"M1","memory":"a"}`, false, true},
		{"another memory", "mem0.v1.update", 200, `{"id":"m2","memory":"a"}`, false, false},
		{"a list of another", "mem0.v1.update", 200, `{"results":[{"id":"m2","memory":"a"}]}`, false, false},
		{"a list of two", "mem0.v1.update", 200, `[{"id":"m1"},{"id":"m1"}]`, false, false},
		{"not there", "mem0.v1.update", 404, `{"error":"Memory not found!"}`, true, true},
		{"no id at all", "mem0.v1.update", 400, `{"error":"bad uuid"}`, true, true},
		{"no uuid", "mem0.server.update", 422, `{"detail":[]}`, true, true},
		{"null", "mem0.server.update", 200, `null`, true, true},
		{"not allowed", "mem0.v1.update", 403, `{"detail":"no"}`, false, false},
		{"broken", "mem0.v1.update", 500, ``, false, false},
		{"moved", "mem0.v1.update", 301, ``, false, false},
		{"a sentence", "mem0.v1.update", 200, `{"message":"hello"}`, false, false},
		{"no JSON", "mem0.v1.update", 200, `<html>`, false, false},
		{"a receipt", "mem0.v1.event", 200, `{"id":"m1","payload":{"user_id":"alice"}}`, false, true},
		{"no receipt", "mem0.v1.event", 200, `{"id":"m2","memory":"a"}`, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := a.ReadLocated(memproxy.Route{ID: tt.route, Params: map[string]string{"id": "m1"}}, "m1", memproxy.Reply{Status: tt.status, Body: []byte(tt.body)})
			if (err == nil) != tt.ok || m.Missing != tt.missing {
				t.Errorf("%+v, %v", m, err)
			}
		})
	}
}

// The memory is requested for every update, because the update is written to the
// memory's field; the platform also needs its metadata to be sent.
func TestMerges(t *testing.T) {
	a := adapter(t)
	for id, want := range map[string]bool{
		"mem0.v1.update": true, "mem0.v1.batch.update": true, "mem0.server.update": true, "mem0.v1.batch.delete": false,
		"mem0.v1.feedback": false, "mem0.v1.get": false, "none": false,
	} {
		expect.Equal(t, a.Merges(memproxy.Route{ID: id}, nil), want, "Merges", id)
	}
}

// Proves EDGE-3, EDGE-5: whatever else a body names, the memories that a request changes
// are looked up as memories, or the request is refused.
func TestNoMemberMakesATargetAnotherObject(t *testing.T) {
	const id, other = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
	a := adapter(t)
	for target, body := range map[string]string{
		"PUT /memories/" + id:          `{"text":"tea",MEMBER}`,
		"PUT /v1/memories/" + id + "/": `{MEMBER,"text":"tea"}`,
		"POST /v1/feedback/":           `{"memory_id":"` + id + `","feedback":"POSITIVE",MEMBER}`,
		"PUT /v1/batch/":               `{"memories":[{"memory_id":"` + id + `","text":"tea",MEMBER}],MEMBER}`,
		"DELETE /v1/batch/":            `{MEMBER,"memories":[{MEMBER,"memory_id":"` + id + `"}]}`,
	} {
		rt, req := routed(t, a, target)
		for _, name := range []string{
			"memory_export_id", "export_id", "memory_id", "memory_ids", "event_id", "event", "job", "job_id", "id", "ids", "entity_id", "entity_type", "entities",
			"source_id", "target_id", "webhook_id", "schema", "type", "kind", "filters", "run_id", "memories",
		} {
			for _, value := range []string{`"` + id + `"`, `"` + other + `"`, `["` + other + `"]`, `{"id":"` + other + `"}`} {
				op, err := a.Decode(rt, req, []byte(strings.ReplaceAll(body, "MEMBER", `"`+name+`":`+value)))
				if err == nil && (op.TargetKind != memproxy.TargetMemory || !slices.Contains(op.Targets, id)) {
					t.Errorf("%s with %s %s is about %s %q", target, name, value, op.TargetKind, op.Targets)
				}
			}
		}
	}
}

// Proves EDGE-3: an export is named by the route that reads one. Elsewhere the member is
// removed from the request, because memproxy does not look up whose export it is there.
func TestAnExportIsNamedWhereOneIsRead(t *testing.T) {
	const id = "11111111-2222-4333-8444-555555555555"
	a := adapter(t)
	for target, body := range map[string]string{
		"POST /memories":                      `{"messages":[{"role":"user","content":"tea"}],"user_id":"ann",MEMBER}`,
		"POST /v3/memories/add/":              `{MEMBER,"messages":[{"role":"user","content":"tea"}],"user_id":"ann"}`,
		"POST /v1/agent-rush/memories/":       `{"messages":[{"role":"user","content":"tea"}],MEMBER}`,
		"POST /v1/apps/":                      `{"user_id":"ann",MEMBER}`,
		"PUT /memories/" + id:                 `{"text":"tea",MEMBER}`,
		"POST /v2/memories/search/":           `{"query":"tea","filters":{"user_id":"ann"},MEMBER}`,
		"POST /v1/exports/get/":               `{"user_id":"ann",MEMBER}`,
		"POST /v1/feedback/":                  `{"memory_id":"` + id + `","feedback":"POSITIVE",MEMBER}`,
		"POST /v1/memories/search/?user_id=a": `{"query":"tea","user_id":"ann",MEMBER}`,
	} {
		const other = "99999999-2222-4333-8444-555555555555"
		rt, req := routed(t, a, target)
		body := strings.ReplaceAll(body, "MEMBER", `"memory_export_id":"`+other+`"`)
		op := must.Get(a.Decode(rt, req, []byte(body)))(t)
		sent, _, err := a.Encode(rt, req, []byte(body), op)
		must.Do(t, err, target)
		if read := op.TargetKind == memproxy.TargetExport; read != strings.Contains(string(sent), other) || read != strings.Contains(target, "exports") {
			t.Errorf("%s is about %s, and %s is sent", target, op.TargetKind, sent)
		}
	}
}
