package mem0_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/must"
)

func TestOptions(t *testing.T) {
	for _, opt := range []mem0.Options{
		{FieldKey: "memproxy_field"}, {ConfidenceKeys: []string{"MEMPROXY_c"}}, {ConfidenceKeys: []string{""}},
	} {
		if _, err := mem0.New(opt); err == nil {
			t.Errorf("New(%+v) is accepted", opt)
		}
	}
	a := must.Get(mem0.New(mem0.Options{FieldKey: "label", ConfidenceKeys: []string{"sure"}, MaxDepth: 4}))(t)
	if a.Name() != "mem0" {
		t.Error(a.Name())
	}
	op := decode(t, a, "POST", "/memories", `{"messages":[{"role":"user","content":"b"}],"metadata":{"label":"gotchas","sure":0.9,"importance":0.9,"field":"x"}}`)
	if op.Items[0].Field != "gotchas" || len(op.Items[0].Filed) > 0 || len(op.Hints) != 1 || op.Hints[0].Pointer != "/metadata/sure" {
		t.Errorf("%+v", op)
	}
	req := memproxy.Request{Method: "POST", EscapedPath: "/memories"}
	rt, _ := a.Route(req)
	if _, err := a.Decode(rt, req, []byte(`{"metadata":{"a":[[[1]]]}}`)); err == nil {
		t.Error("nested past MaxDepth and accepted")
	}
}

func decode(t *testing.T, a *mem0.Adapter, method, path, body string) *memproxy.Operation {
	t.Helper()
	req := memproxy.Request{Method: method, EscapedPath: path}
	rt, ok := a.Route(req)
	if !ok {
		t.Fatalf("%s %s: no route", method, path)
	}
	return must.Get(a.Decode(rt, req, []byte(body)))(t)
}

// Proves TRL-3: every number from 0 to 1 is read exactly, rounded up to the per mille,
// and an invalid one claims full confidence.
func TestHints(t *testing.T) {
	a := adapter(t)
	for raw, want := range map[string]memproxy.PerMille{
		`0`: 0, `-0.0`: 0, `0.0`: 0, `1`: 1000, `1.000`: 1000, `1e0`: 1000, `7E-1`: 700, `0.6999`: 700, `0.29`: 290, `700e-3`: 700,
		`0.7004999`: 701, `0.7000000000000000000000000001`: 701, `7.00000001e-1`: 701, `0.7006`: 701, `0.0001`: 1, `1e-300`: 1,
		`1.0000001`: 1000, `1.0000000000000000000001`: 1000, `2`: 1000, `-1e-9`: 1000, `"0.2"`: 1000, `[0.2]`: 1000, `{"v":0.2}`: 1000,
	} {
		op := decode(t, a, "POST", "/memories", `{"messages":[],"metadata":{"confidence":`+raw+`}}`)
		if len(op.Hints) != 1 || op.Hints[0].Claimed != want || op.Hints[0].Raw != raw {
			t.Errorf("%s reads as %+v", raw, op.Hints)
		}
	}
}

// Proves TRL-2: a stamp is read back as it was written, to the per mille and the
// second.
func TestStampRoundTrip(t *testing.T) {
	a := adapter(t)
	stamp := memproxy.Stamp{
		ID: "d\"1", Actor: "agent:<dév>", Trust: memproxy.TrustHuman, Source: memproxy.SourceVerified, Attestation: memproxy.LogAnchored,
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), SHA256: "ab", Signature: "s+/=",
	}
	for c := memproxy.PerMille(0); c <= memproxy.Full; c++ {
		stamp.Confidence = c
		req := memproxy.Request{Method: "POST", EscapedPath: "/memories"}
		rt, _ := a.Route(req)
		body := []byte(`{"messages":[],"id":"m1","memory":"a"}`)
		op := must.Get(a.Decode(rt, req, body))(t)
		op.Stamp = &stamp
		out, _, err := a.Encode(rt, req, body, op)
		if err != nil {
			t.Fatal(err)
		}
		rd, err := a.Read(memproxy.Route{ID: "mem0.server.get", Kind: memproxy.Recall}, memproxy.Request{}, memproxy.Reply{Status: 200, Body: out})
		if err != nil || len(rd.Memories) != 1 || rd.Memories[0].Stamp == nil || *rd.Memories[0].Stamp != stamp {
			t.Fatalf("%d: %s reads as %+v, %v", c, out, rd, err)
		}
	}
}

// An incomplete stamp is ignored, and a corrupt one fails verification.
func TestBrokenStamps(t *testing.T) {
	a := adapter(t)
	for meta, want := range map[string]bool{
		`{"memproxy_id":"d"}`:                    false,
		`{"memproxy_sig":"s"}`:                   false,
		`{"memproxy_id":"d","memproxy_sig":"s"}`: true,
		`{"memproxy_id":1,"memproxy_sig":[],"memproxy_ts":"yesterday","memproxy_confidence":"all"}`: true,
		`{"memproxy_id":"d","memproxy_sig":"s","memproxy_confidence":7}`:                            true,
	} {
		rd, err := a.Read(memproxy.Route{ID: "mem0.server.get", Kind: memproxy.Recall}, memproxy.Request{}, memproxy.Reply{Body: []byte(`{"id":"m","metadata":` + meta + `}`)})
		if err != nil || (rd.Memories[0].Stamp != nil) != want {
			t.Errorf("%s: %v", meta, err)
			continue
		}
		if s := rd.Memories[0].Stamp; s != nil && s.Confidence != 0 {
			t.Errorf("%s: confidence %d", meta, s.Confidence)
		}
	}
}

// Proves EDGE-2, MFW-3: a member means the same in an entry of a batch as in the update
// of one memory.
func TestEntriesOfABatchAreReadAsUpdates(t *testing.T) {
	const id = "11111111-2222-4333-8444-555555555555"
	a := adapter(t)
	read := func(path, body string) string {
		op := decode(t, a, "PUT", path, body)
		var items []string
		for _, it := range op.Items {
			items = append(items, fmt.Sprint(it.Kind, it.Pointer, it.Text, it.Field, it.Filed, it.Moved))
		}
		slices.Sort(items)
		all := fmt.Sprint(items, op.Backdated, op.Hints, op.Attributions, op.Reserved, op.Unclaimed, op.Steering, op.SourceClaim, op.LayerClaims, op.Keys, op.Scope, op.Targets)
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
		if one != entry {
			t.Errorf("%s:\n%s\nin a batch\n%s", member, one, entry)
		}
	}
}
