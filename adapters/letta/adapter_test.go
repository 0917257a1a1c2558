package letta_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func TestOptions(t *testing.T) {
	for _, key := range []string{"", "memproxy_confidence", "MEMPROXY_x"} {
		expect.Error(t, expect.Err(letta.New(letta.Options{ConfidenceKeys: []string{key}})), "the confidence key", key, "is taken")
	}
}

func TestKindOf(t *testing.T) {
	for id, want := range map[string]memproxy.TargetKind{
		"block-1": letta.TargetBlock, "agent-1": letta.TargetAgent, "agent-1/human": letta.TargetLabel, "passage-1": letta.TargetPassage,
		"archive-1": letta.TargetArchive, "conv-1": letta.TargetConversation, "source-1": letta.TargetFolder, "job-1": letta.TargetJob,
		"block-": "", "block": "", "": "", "block/1": "", "Block-1": "",
	} {
		expect.Equal(t, letta.KindOf(id), want, id)
	}
}

// Proves CARD-1: a refusal tells the SDKs not to retry, which they do by default, unless the
// request was not forwarded because something failed, which it may not do again.
func TestRefuse(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	a := must.Get(letta.New(letta.Options{Now: func() time.Time { return now }}))(t)
	for _, status := range []int{0, 400, 401, 403, 404, 413, 415, 422, 429, 502} {
		r := a.Refuse(memproxy.Request{}, memproxy.Decision{ID: "d-1", Verdict: memproxy.Deny, Status: status})
		if r.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%d may be repeated", status)
		}
	}
	for _, tc := range []struct {
		method        string
		status        int
		code          memproxy.ReasonCode
		detail        string
		repeat, after bool
	}{
		{"GET", 502, memproxy.UpstreamUnavailable, "", true, true},
		{"POST", 502, memproxy.UpstreamUnavailable, "", false, true},
		{"GET", 502, memproxy.UpstreamMalformed, "", false, false},
		{"PATCH", 502, memproxy.UpstreamMalformed, "", false, false},
		{"GET", 503, memproxy.LimitInFlight, "", true, true},
		{"POST", 503, memproxy.LimitInFlight, "", true, true},
		{"GET", 503, memproxy.UpstreamUnavailable, "", true, true},
		{"POST", 502, memproxy.UpstreamUnavailable, memproxy.NotReached, true, true},
		{"DELETE", 503, memproxy.LedgerUnavailable, "", true, true},
		{"POST", 504, memproxy.UpstreamUnavailable, "", false, true},
	} {
		r := a.Refuse(memproxy.Request{Method: tc.method}, memproxy.Decision{Verdict: memproxy.Deny, Status: tc.status, Reasons: []memproxy.Reason{{Code: tc.code, Detail: tc.detail}}})
		if repeat := r.Header.Get("X-Should-Retry") == ""; repeat != tc.repeat || (r.Header.Get("Retry-After") != "") != tc.after {
			t.Errorf("%+v: %v", tc, r.Header)
		}
	}
	d := memproxy.Decision{ID: "d-1", Verdict: memproxy.Deny, Status: 429, Allowance: &memproxy.Allowance{Refused: 0, Lines: []memproxy.LineState{{
		Line: memproxy.Line{Reason: memproxy.BudgetHour, Limit: 10}, Used: 10, Reset: now.Add(90*time.Second + time.Millisecond),
	}}}}
	r := a.Refuse(memproxy.Request{}, d)
	var body struct {
		Limit, Remaining *int64
		Reset            string
	}
	must.Do(t, json.Unmarshal(r.Body, &body))
	if r.Header.Get("Retry-After") != "91" || *body.Limit != 10 || *body.Remaining != 0 || body.Reset != "2026-09-01T12:01:30Z" {
		t.Errorf("%v %s", r.Header, r.Body)
	}
	// The SDKs of OpenAI show the message of the error alone.
	d = memproxy.Decision{ID: "d-1", Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Code: memproxy.RunUngated, Detail: "it cannot; backends[].ungated: compensate allows it"}}}
	for path, want := range map[string]string{
		"/v1/chat/completions": "it cannot; backends[].ungated: compensate allows it (run.ungated, decision d-1)", "/v1/voice-beta/agent-1/chat/completions": "it cannot; backends[].ungated: compensate allows it (run.ungated, decision d-1)",
		"/v1/agents/agent-1/messages": "",
	} {
		var told struct{ Error struct{ Message string } }
		body := a.Refuse(memproxy.Request{Method: "POST", EscapedPath: path}, d).Body
		if must.Do(t, json.Unmarshal(body, &told)); told.Error.Message != want {
			t.Errorf("%s: %s", path, body)
		}
	}
	d = memproxy.Decision{ID: "d-1", Verdict: memproxy.Hold}
	expect.Text(t, string(a.Refuse(memproxy.Request{}, d).Body)).Has(`"code":"memproxy_held"`)
}

// Proves CARD-2: an agent file that is a JSON string of JSON is read and patched inside
// the string.
func TestImportString(t *testing.T) {
	a := adapter(t)
	rt, req := route(t, "POST", "/v1/agents/import")
	inner := `{"blocks":[{"label":"human","value":"a \"b\" \u00e9","n":1.50,"metadata":{"confidence":1,"memproxy_id":"x"}}]}`
	body := must.Get(json.Marshal(inner))(t)
	op := must.Get(a.Decode(rt, req, body))(t)
	if len(op.ConfidenceClaims) != 1 || len(op.Reserved) != 1 || op.Items[1].Text != `a "b" é` || op.Items[1].Field != "human" {
		t.Errorf("%+v", op)
	}
	if out, _, err := a.Encode(rt, req, body, &memproxy.Operation{Kind: memproxy.Learn}); err != nil || &out[0] != &body[0] {
		t.Errorf("nothing was to change: %s, %v", out, err)
	}
	op.ConfidenceClaims[0].Effective = 700
	out, _, err := a.Encode(rt, req, body, op)
	must.Do(t, err)
	var got string
	must.Do(t, json.Unmarshal(out, &got))
	expect.Equal(t, got, `{"blocks":[{"label":"human","value":"a \"b\" \u00e9","n":1.50,"metadata":{"confidence":0.7}}]}`)
	op.Stamp = adaptertest.Stamp()
	if out, _, err = a.Encode(rt, req, body, op); err != nil || !strings.Contains(string(out), `memproxy_sig`) {
		t.Errorf("%s, %v", out, err)
	}
}

// Proves CARD-1: answers of routes without memory are not parsed, so that streams and
// empty answers pass.
func TestAnswersNotRead(t *testing.T) {
	a := adapter(t)
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/v1/agents/agent-1/messages", "data: {\"message_type\":\"ping\"}\n\ndata: [DONE]\n\n"},
		{"POST", "/v1/conversations/conv-1/messages", "data: [DONE]\n\n"},
		{"DELETE", "/v1/archives/archive-1", ""},
		{"DELETE", "/v1/blocks/block-1", "null"},
		{"GET", "/v1/agents/agent-1/export", `{"agents":[{"id":"agent-1"}]}`},
		{"POST", "/v1/agents/agent-1/recompile", `"the prompt"`},
		{"POST", "/v1/agents/agent-1/messages/capture", ""},
	} {
		rt, req := route(t, tt.method, tt.path)
		reply := memproxy.Reply{Status: 200, Body: []byte(tt.body)}
		rd, err := a.Read(rt, req, reply)
		if err != nil || len(rd.Memories) != 0 {
			t.Errorf("%s %s: %+v, %v", tt.method, tt.path, rd, err)
			continue
		}
		expect.Equal(t, string(must.Get(a.Rewrite(rt, req, reply, rd))(t)), tt.body, tt.method, tt.path)
	}
}

// Proves SYN-1: the limit and the label of every block that is read reach the
// gate.
func TestReadBlocks(t *testing.T) {
	a := adapter(t)
	rt, req := route(t, "GET", "/v1/agents/agent-1/core-memory/blocks")
	rd := must.Get(a.Read(rt, req, memproxy.Reply{Status: 200, Body: []byte(`[{"id":"block-1","label":"human","value":"v","limit":5},{"id":"block-2","limit":null}]`)}))(t)
	if m := rd.Memories; m[0].Field != "human" || m[0].Limit != 5 || m[1].Field != "" || m[1].Limit != 0 {
		t.Errorf("%+v", m)
	}
}
