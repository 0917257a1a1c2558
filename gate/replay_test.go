package gate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// Proves MFW-7, TRL-4: an approved write is sent as it came, in its author's
// name, under its own decision and with a person's attestation; it pays; the
// record names the reviewer; policy and screening are not asked again.
func TestReplay(t *testing.T) {
	r, _, _ := holdRig(t, nil)
	r.fake.op, r.fake.knows = learn("x"), true
	c := r.call(r.fake.op)
	held := memproxy.HeldWrite{ID: "d0", Backend: "mem", Route: "fake.route", Method: "POST", EscapedPath: "/call", Tenant: "acme", Principal: "agent:author", Trust: memproxy.TrustAuthenticated, Reviewer: "eve"}
	a, err := r.gate.Reviewed().Replay(context.Background(), c.Backend, held, memproxy.HoldContent{Body: []byte("body")})
	if err != nil || a.Reply != nil || a.Decision.ID != "d0" || a.Principal.ID != "agent:author" || r.budget.used != 1 {
		t.Fatalf("%+v %v, %d charged", a, err, r.budget.used)
	}
	if s := r.fake.stamp; s == nil || s.ID != "d0" || s.Actor != "agent:author" || s.Attestation != memproxy.HumanConfirmed {
		t.Errorf("stamp %+v", s)
	}
	ev := r.recorder.events[len(r.recorder.events)-1]
	if len(ev.Reasons) != 1 || ev.Reasons[0].Code != memproxy.ReviewApproved || ev.Reasons[0].Detail != "approved by eve" || ev.Decision != "d0" {
		t.Errorf("%+v", ev)
	}
	held.Route = "another"
	if _, err := r.gate.Reviewed().Replay(context.Background(), c.Backend, held, memproxy.HoldContent{}); !errors.Is(err, gate.ErrGone) {
		t.Errorf("%v", err)
	}
	held.Route = "fake.route"
	r.budget.limit = 1
	if a, err := r.gate.Reviewed().Replay(context.Background(), c.Backend, held, memproxy.HoldContent{Body: []byte("body")}); err != nil || a.Reply == nil || a.Decision.Status != 429 {
		t.Errorf("over the budget: %+v %v", a, err)
	}
}
