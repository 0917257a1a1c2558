package gate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves EDGE-18: a caller whom only memproxy's own credential keeps out is told whose it
// is, and does not take the backend's 401 for a judgement of its own key. A 401 for another
// reason, and one for a credential that the caller brought, is the backend's.
func TestARefusedCredentialIsMemproxys(t *testing.T) {
	for name, tc := range map[string]struct {
		lends, known, about bool
		want                int
	}{
		"memproxy's":     {true, true, true, 502},
		"the caller's":   {false, true, true, 401},
		"of no caller":   {true, false, true, 401},
		"not the access": {true, true, false, 401},
	} {
		r := newRig(t, nil)
		r.adapter = guarded{r.fake, tc.about}
		r.fake.op = learn("likes tea")
		call := r.call(r.fake.op)
		call.Backend.Lends = tc.lends
		a := r.gate.Admit(context.Background(), call)
		if !tc.known {
			a.Principal.ID = ""
		}
		reply := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 401, Body: []byte(`{"detail":"Unauthorized"}`)})
		if reply.Status != tc.want || strings.Contains(string(reply.Body), "backends[].credential") != (tc.want == 502) {
			t.Errorf("%s: %d %s", name, reply.Status, reply.Body)
		}
		if last := r.recorder.last(); last.Status != 401 {
			t.Errorf("%s: the backend answered %d in the record", name, last.Status)
		}
	}
}

// guarded tells whether a 401 is about the request's credential.
type guarded struct {
	*fakeAdapter
	about bool
}

func (g guarded) RefusesCredential(memproxy.Reply) bool { return g.about }

// Proves CARD-1: a client whose credential the backend refuses is told so, also if memproxy
// notices it first, while looking up the object that the request changes. It is not counted as a
// rejection of an unknown caller. A backend that fails is named with its status.
func TestARefusedLookUpIsTheBackends(t *testing.T) {
	for name, tc := range map[string]struct {
		lends  bool
		answer int
		want   int
		detail string
	}{
		"the caller's credential": {false, 401, 401, "does not accept this credential"},
		"memproxy's credential":   {true, 401, 502, "backends[].credential"},
		"a rate limit":            {false, 429, 503, "answered 429"},
		"a failure":               {false, 500, 503, "answered 500"},
	} {
		for _, kind := range []memproxy.Kind{memproxy.Correct, memproxy.Forget} {
			r := newRig(t, func(r *rig) { r.fetch.status, r.rejections = tc.answer, 5 })
			r.fake.op = byID(kind, "m1")
			call := r.call(r.fake.op)
			call.Backend.Lends = tc.lends
			for range 10 {
				a := r.gate.Admit(context.Background(), call)
				wantCodes(t, a.Decision, memproxy.Deny, memproxy.UpstreamUnavailable)
				if d := a.Decision; d.Status != tc.want || !strings.Contains(d.Reasons[0].Detail, tc.detail) {
					t.Fatalf("%s: %d %v", name, d.Status, d.Reasons)
				}
			}
		}
	}
}
