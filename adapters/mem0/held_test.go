package mem0_test

import (
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves MFW-7: a held addition is answered in the asynchronous form of its route.
// Requests that clients take for completed at once have no such answer.
func TestHeld(t *testing.T) {
	a := adapter(t)
	const pending = `{"event_id":"d1","message":"The memory waits for review","status":"PENDING"}`
	for name, tc := range map[string]struct{ target, body, want string }{
		"platform":             {"POST /v3/memories/add/", `{"user_id":"ann","messages":[{"role":"user","content":"x"}]}`, pending},
		"older platform":       {"POST /v1/memories/", `{"user_id":"ann","messages":[{"role":"user","content":"x"}]}`, "[" + pending + "]"},
		"its later form":       {"POST /v1/memories/", `{"user_id":"ann","output_format":"v1.1","version":"v2","messages":[{"role":"user","content":"x"}]}`, `{"relations":[],"results":[` + pending + `]}`},
		"server":               {"POST /memories", `{"user_id":"ann","messages":[{"role":"user","content":"x"}]}`, `{"results":[]}`},
		"a change":             {"PUT /v1/memories/m1/", `{"text":"x"}`, ""},
		"a change, server":     {"PUT /memories/m1", `{"text":"x"}`, ""},
		"a deletion":           {"DELETE /v1/memories/m1/", ``, ""},
		"changes in one batch": {"PUT /v1/batch/", `{"memories":[{"memory_id":"m1","text":"x"}]}`, ""},
	} {
		rt, req := routed(t, a, tc.target)
		reply, ok := a.HeldReply(rt, req, decode(t, a, tc.target, tc.body), memproxy.Decision{ID: "d1", Verdict: memproxy.Hold})
		if ok != (tc.want != "") || string(reply.Body) != tc.want || ok && reply.Status != 200 {
			t.Errorf("%s: %v %d %s", name, ok, reply.Status, reply.Body)
		}
	}
}

// The receipt of a held write reports its state in the platform's terms.
func TestPolled(t *testing.T) {
	a := adapter(t)
	rt, req := routed(t, a, "GET /v1/event/d1/")
	must.Equal(t, a.ReceiptID(rt), "d1", "polls")
	if rt, _ := routed(t, a, "GET /v1/memories/m1/"); a.ReceiptID(rt) != "" {
		t.Errorf("a memory is taken for a receipt")
	}
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for state, want := range map[memproxy.HoldState]string{
		memproxy.HoldPending: `"status":"PENDING"`, memproxy.HoldApproved: `"status":"PENDING"`, memproxy.HoldReplaying: `"status":"PENDING"`,
		memproxy.HoldDone: `"results":[{"event":"ADD","id":"m1"}]`, memproxy.HoldRejected: `"error":"The memory was refused on review"`,
		memproxy.HoldFailed: `"status":"FAILED"`,
	} {
		h := memproxy.HeldWrite{ID: "d1", State: state, Created: at, Reviewed: at.Add(time.Minute), Result: memproxy.HoldResult{Memories: []string{"m1"}}}
		body := string(a.ReceiptReply(rt, req, h).Body)
		expect.Text(t, body, state).Has(want, `"id":"d1"`, `"created_at":"2026-09-01T12:00:00.000000Z"`)
		if strings.Contains(body, `"PENDING"`) != strings.Contains(body, `"completed_at":null`) {
			t.Errorf("%s: %s", state, body)
		}
	}
}
