package mem0_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves TRL-6: an answer to an addition names all memories that it made, unless its
// receipt is still pending.
func TestWhichAnswersNameEverything(t *testing.T) {
	a := adapter(t)
	made := `[{"id":"m1","data":{"memory":"likes tea"},"event":"ADD"}]`
	for body, want := range map[string]bool{
		`{"status":"SUCCEEDED","event_id":"e1","results":` + made + `}`: true,
		`{"status":"SUCCEEDED","event_id":"e1"}`:                        false,
		`{"status":"PENDING","event_id":"e1","results":` + made + `}`:   false,
		`{"results":` + made + `}`:                                      true,
		`{"results":[{"status":"PENDING","event_id":"e1"}]}`:            false,
		`[{"status":"PENDING","event_id":"e1"}]`:                        false,
		made:                                                            true,
	} {
		rd := must.Get(a.Read(memproxy.Route{ID: "mem0.v3.add", Kind: memproxy.Learn}, memproxy.Request{}, memproxy.Reply{Status: 200, Body: []byte(body)}))(t)
		if rd.Settles != want {
			t.Errorf("%s: %v", body, rd.Settles)
		}
	}
}

// Proves EDGE-2: the platform's extracted memories are read from the finished event,
// and the server's from its answer; both can be undone.
func TestExtraction(t *testing.T) {
	a := adapter(t)
	add := memproxy.Request{Method: "POST", EscapedPath: "/v3/memories/add/", Base: "http://proxy"}
	if q := a.Receipt(memproxy.Route{}, add, "e/1"); q.Method != "GET" || q.EscapedPath != "/v1/event/e%2F1/" {
		t.Errorf("%+v", q)
	}
	for body, want := range map[string]struct {
		n     int
		state memproxy.HoldState
		bad   bool
	}{
		`{"id":"e1","status":"PENDING","results":[]}`: {state: memproxy.HoldPending},
		`{"id":"e1","status":"RUNNING"}`:              {state: memproxy.HoldPending},
		`{"id":"e1","status":"FAILED"}`:               {state: memproxy.HoldFailed},
		`{"id":"e1","status":"SUCCEEDED","results":[{"id":"m1","data":{"memory":"likes tea"},"event":"ADD"},{"id":"m2","memory":"x","event":"UPDATE"}]}`: {n: 2, state: memproxy.HoldDone},
		`{"id":"e1","status":"SUCCEEDED","results":["x"]}`: {state: memproxy.HoldDone, bad: true},
		`{`: {state: memproxy.HoldPending, bad: true},
	} {
		ms, state, err := a.ReadExtracted(memproxy.Reply{Status: 200, Body: []byte(body)})
		if len(ms) != want.n || state != want.state || (err != nil) != want.bad {
			t.Errorf("%s: %+v %v %v", body, ms, state, err)
		}
		if want.n == 2 && (ms[0].Text != "likes tea" || ms[0].Event != "ADD" || ms[1].ID != "m2") {
			t.Errorf("%+v", ms)
		}
	}
	for name, tc := range map[string]struct {
		route string
		m     memproxy.Memory
		want  string
		body  string
	}{
		"added":                         {"mem0.v3.add", memproxy.Memory{ID: "m1", Event: "ADD"}, "DELETE /v1/memories/m1/", ""},
		"added, server":                 {"mem0.server.add", memproxy.Memory{ID: "m1", Event: "ADD"}, "DELETE /memories/m1", ""},
		"replaced, server":              {"mem0.server.add", memproxy.Memory{ID: "m1", Event: "UPDATE", Before: "tea"}, "PUT /memories/m1", `{"text":"tea"}`},
		"replaced, by what nobody says": {"mem0.server.add", memproxy.Memory{ID: "m1", Event: "UPDATE"}, "", ""},
		"without an id":                 {"mem0.server.add", memproxy.Memory{Event: "ADD"}, "", ""},
	} {
		qs, ok := a.Undo(memproxy.Route{ID: tc.route}, add, tc.m)
		if ok != (tc.want != "") || ok && (qs[0].Request.Method+" "+qs[0].Request.EscapedPath != tc.want || string(qs[0].Body) != tc.body) {
			t.Errorf("%s: %+v %v", name, qs, ok)
		}
	}
	// The server's own answer contains the replaced text.
	rt, req := routed(t, a, "POST /memories")
	rd, err := a.Read(rt, req, memproxy.Reply{Status: 200, Body: []byte(`{"results":[{"id":"m1","memory":"b","event":"UPDATE","previous_memory":"a"}]}`)})
	if err != nil || rd.Memories[0].Before != "a" {
		t.Errorf("%+v %v", rd, err)
	}
}
