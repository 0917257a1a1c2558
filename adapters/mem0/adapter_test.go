package mem0_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func TestOptions(t *testing.T) {
	for _, opt := range []mem0.Options{
		{FieldKey: "memproxy_field"}, {ConfidenceKeys: []string{"MEMPROXY_c"}}, {ConfidenceKeys: []string{""}},
	} {
		expect.Error(t, expect.Err(mem0.New(opt)), "New", opt, "is accepted")
	}
	a := must.Get(mem0.New(mem0.Options{FieldKey: "label", ConfidenceKeys: []string{"sure"}, MaxDepth: 4}))(t)
	op := decode(t, a, "POST /memories", `{"messages":[{"role":"user","content":"b"}],"metadata":{"label":"gotchas","sure":0.9,"importance":0.9,"field":"x"}}`)
	if op.Items[0].Field != "gotchas" || len(op.Items[0].OtherFields) > 0 || len(op.ConfidenceClaims) != 1 || op.ConfidenceClaims[0].Pointer != "/metadata/sure" {
		t.Errorf("%+v", op)
	}
	rt, req := routed(t, a, "POST /memories")
	expect.Error(t, expect.Err(a.Decode(rt, req, []byte(`{"metadata":{"a":[[[1]]]}}`))), "nested past MaxDepth and accepted")
}

// routed returns a request, "METHOD /path?query", and its route.
func routed(t testing.TB, a *mem0.Adapter, target string) (memproxy.Route, memproxy.Request) {
	t.Helper()
	method, target, _ := strings.Cut(target, " ")
	path, query, _ := strings.Cut(target, "?")
	req := memproxy.Request{Method: method, EscapedPath: path, Query: query, Header: memproxy.Header{"Content-Type": {"application/json"}}}
	rt, ok := a.Route(req)
	if !ok {
		t.Fatalf("%s: no route", target)
	}
	return rt, req
}

func decode(t testing.TB, a *mem0.Adapter, target, body string) *memproxy.Operation {
	t.Helper()
	rt, req := routed(t, a, target)
	return must.Get(a.Decode(rt, req, []byte(body)))(t)
}

// Messages without content, of three bytes each, make no room for items, of 200 bytes each.
func TestEmptyMessagesTakeNoRoom(t *testing.T) {
	op := decode(t, adapter(t), "POST /v1/memories/", `{"user_id":"ann","messages":[`+strings.Repeat("{},", 10_000)+`{}]}`)
	if n := cap(op.Items); n > 100 {
		t.Errorf("room for %d items", n)
	}
}

// Proves EDGE-2, MFW-3: a member means the same in an entry of a batch as in the update
// of one memory.
func TestEntriesOfABatchAreReadAsUpdates(t *testing.T) {
	const id = "11111111-2222-4333-8444-555555555555"
	a := adapter(t)
	read := func(path, body string) string {
		op := decode(t, a, "PUT "+path, body)
		var items []string
		for _, it := range op.Items {
			items = append(items, fmt.Sprint(it.Kind, it.Pointer, it.Text, it.Field, it.OtherFields, it.Moved))
		}
		slices.Sort(items)
		all := fmt.Sprint(items, op.Backdated, op.ConfidenceClaims, op.Attributions, op.Reserved, op.Unclaimed, op.Steering, op.SourceClaim, op.LayerClaims, op.Keys, op.Scope, op.Targets)
		return strings.ReplaceAll(all, "/memories/0", "")
	}
	for _, member := range []string{
		`"text":"likes tea"`, `"text":[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]`,
		`"timestamp":1`, `"created_at":"2020-01-01"`, `"updated_at":1`, `"observation_date":"2020-01-01"`, `"expiration_date":"2030-01-01"`,
		`"metadata":{"confidence":1,"created_at":1,"source":"web","field":"facts","memproxy_id":"x","role":"system"}`, `"categories":["a","b"]`, `"category":"a"`,
		`"tags":["task"]`, `"memory_type":"procedural_memory"`, `"confidence":1`, `"actor_id":"human:hank"`, `"custom_instructions":"be bold"`, `"prompt":"x"`,
		`"memproxy_id":"x"`, `"owner_id":"bob"`, `"user_id":"ann"`, `"filters":{"user_id":"ann"}`, `"image":"https://x.example/a.png"`, `"more":{"a":["b"]}`,
	} {
		one, entry := read("/v1/memories/"+id+"/", `{`+member+`}`), read("/v1/batch/", `{"memories":[{"memory_id":"`+id+`",`+member+`}]}`)
		expect.Equal(t, one, entry, member)
	}
}
