package gate_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// approved is a held write that reviewer eve approved.
func approved(route string) memproxy.HeldWrite {
	return memproxy.HeldWrite{ID: "d0", Backend: "mem", Route: route, Method: "POST", EscapedPath: "/call", Tenant: "acme", Principal: "agent:author", Trust: memproxy.TrustAuthenticated, Reviewer: "eve"}
}

func (r *rig) replay(h memproxy.HeldWrite, content memproxy.HoldContent) (*gate.Admission, error) {
	return r.gate.Reviewed().Replay(context.Background(), gate.Backend{Name: "mem", Adapter: r.adapter}, h, content)
}

// Proves MFW-7, TRL-4: an approved write is sent as it came, in its author's
// name, under its own decision and with a person's attestation; it pays; the
// record names the reviewer; policy and screening are not asked again.
func TestReplay(t *testing.T) {
	r, _, _ := holdRig(t, nil)
	r.fake.op, r.fake.knows = learn("x"), true
	held := approved("fake.route")
	a, err := r.replay(held, memproxy.HoldContent{Body: []byte("body")})
	must.That(t, err == nil && a.Reply == nil && a.Decision.ID == "d0" && a.Principal.ID == "agent:author" && r.budget.used == 1, "%+v %v, %d charged", a, err, r.budget.used)
	s := r.fake.stamp
	expect.That(t, s != nil && s.ID == "d0" && s.Actor == "agent:author" && s.Attestation == memproxy.HumanConfirmed, "stamp %+v", s)
	ev := r.recorder.last()
	expect.That(t, len(ev.Reasons) == 1 && ev.Reasons[0].Code == memproxy.ReviewApproved && ev.Reasons[0].Detail == "approved by eve" && ev.Decision == "d0", "%+v", ev)
	expect.Is(t, expect.Err(r.replay(approved("another"), memproxy.HoldContent{})), gate.ErrRouteGone)
	r.budget.limit = 1
	a, err = r.replay(held, memproxy.HoldContent{Body: []byte("body")})
	expect.That(t, err == nil && a.Reply != nil && a.Decision.Status == 429, "over the budget: %+v %v", a, err)
}

// Proves MFW-7, EDGE-5: what was approved for the object that a name meant is not sent to
// another that the name means by then, whoever that belongs to.
func TestApprovalsNameTheObjectThatWasHeld(t *testing.T) {
	for id, want := range map[string]int{"block-1": 0, "block-2": 404} {
		r, _, _ := holdRig(t, nil)
		r.fake.op, r.fake.knows = correct("x", "agent/human"), true
		r.fake.located = map[string]memproxy.Memory{"agent/human": {ID: id, Text: "as it was"}}
		b := gate.Backend{Name: "mem", Adapter: r.adapter, Fetch: r.fetch}
		a := must.Get(r.gate.Reviewed().Replay(t.Context(), b, approved("fake.route"), memproxy.HoldContent{
			Body: []byte("body"), Objects: map[string]string{"agent/human": "block-1"},
		}))(t)
		expect.Equal(t, a.Decision.Status, want, id, a.Decision.Reasons)
	}
}

// Proves TRL-6: an approved write is charged again after an attempt whose charge was
// refunded, even in the same instant: a store charges once for each id.
func TestReplaysAreChargedByAttempt(t *testing.T) {
	r, _, _ := holdRig(t, nil)
	r.fake.op, r.fake.knows = learn("x"), true
	ids := map[string]bool{}
	for range 2 {
		a, err := r.replay(approved("fake.route"), memproxy.HoldContent{Body: []byte("body"), Reserved: 1})
		must.That(t, err == nil && a.Reply == nil, "%+v %v", a, err)
		r.gate.AbandonUnsent(context.Background(), a, memproxy.StreamWhole)
	}
	for _, refund := range r.budget.released {
		ids[refund.ID] = true
	}
	expect.Len(t, ids, 2, "refunded", r.budget.released)
}

// listed is an adapter whose backend lists what writes made in pages of one.
type listed struct {
	backend.Fetcher
	noModel
	fakeReader
	decisions []string // of what is listed
	grows     bool     // by one after each page
}

func (l *listed) StampSearchRequest(_ memproxy.Route, _ memproxy.Request, _ *memproxy.Operation, page int) (memproxy.Request, bool) {
	return memproxy.Request{Method: "GET", EscapedPath: "/list", Query: strconv.Itoa(page)}, true
}

func (l *listed) Fetch(_ context.Context, q memproxy.Request) (memproxy.Reply, error) {
	return memproxy.Reply{Status: 200, Body: []byte(q.Query)}, nil
}

func (l *listed) ReadStampSearch(reply memproxy.Reply, decision string) (ids []string, of int, more bool, err error) {
	page, err := strconv.Atoi(string(reply.Body))
	if of = len(l.decisions); l.decisions[page-1] == decision {
		ids = []string{"m"}
	}
	if l.grows {
		l.decisions = append(l.decisions, "another")
	}
	return ids, of, page < of, err
}

// Proves MFW-7: a write is looked for on every page; a list that changes meanwhile, or
// does not end, says nothing.
func TestSeekReadsEveryPage(t *testing.T) {
	r, _, _ := holdRig(t, nil)
	r.fake.op, r.fake.knows = learn("x"), true
	held := approved("fake.route")
	for name, tc := range map[string]struct {
		decisions           []string
		grows, known, there bool
	}{
		"on the last page":      {[]string{"a", "b", "d0"}, false, true, true},
		"on none":               {[]string{"a", "b", "c"}, false, true, false},
		"one came meanwhile":    {[]string{"a", "b", "c"}, true, false, false},
		"more pages than these": {slices.Repeat([]string{"a"}, 51), false, false, false},
	} {
		l := &listed{fakeReader: fakeReader{fakeAdapter: *r.fake}, decisions: tc.decisions, grows: tc.grows}
		ids, known, err := r.gate.Reviewed().FindWrite(t.Context(), gate.Backend{Name: "mem", Adapter: l, Fetch: l}, held, memproxy.HoldContent{Body: []byte("body")})
		expect.That(t, known == tc.known && (err == nil) == tc.known && (len(ids) == 1) == tc.there, "%s: %v, %v, %v", name, ids, known, err)
	}
}

// Proves MFW-7: the text of a change's target tells whether it arrived only if it is the text
// that the change replaces, of the object for which it was held.
func TestTextsThatDoNotTell(t *testing.T) {
	was, is := memproxy.Hash("tea"), memproxy.Hash("gin")
	keeps := correct("gin", "human")
	keeps.Items[0].Target = "" // a name or a description
	for name, tc := range map[string]struct {
		op     memproxy.Operation
		now    memproxy.Memory
		before string
		want   string // the ids, and whether it is known
	}{
		"as before":              {correct("gin", "human"), memproxy.Memory{ID: "block-1", Text: "tea"}, was, "[] true"},
		"as it was to be":        {correct("gin", "human"), memproxy.Memory{ID: "block-1", Text: "gin"}, was, "[block-1] true"},
		"as neither":             {correct("gin", "human"), memproxy.Memory{ID: "block-1", Text: "ale"}, was, "[] false"},
		"the same text":          {correct("gin", "human"), memproxy.Memory{ID: "block-1", Text: "gin"}, is, "[] false"},
		"not known before":       {correct("gin", "human"), memproxy.Memory{ID: "block-1", Text: "gin"}, "", "[] false"},
		"another object":         {correct("gin", "human"), memproxy.Memory{ID: "block-2", Text: "tea"}, was, "[] false"},
		"another text of it":     {keeps, memproxy.Memory{ID: "block-1", Text: "tea"}, was, "[] false"},
		"an agent":               {correct("gin", "human"), memproxy.Memory{ID: "block-1", Text: "tea", IsContainer: true}, was, "[] false"},
		"gone":                   {correct("gin", "human"), memproxy.Memory{ID: "block-1", Missing: true}, was, "[] false"},
		"to be deleted, there":   {byID(memproxy.Forget, "human"), memproxy.Memory{ID: "block-1", Text: "tea"}, was, "[] true"},
		"to be deleted, gone":    {byID(memproxy.Forget, "human"), memproxy.Memory{ID: "block-1", Missing: true}, was, "[block-1] true"},
		"to be deleted, unknown": {byID(memproxy.Forget, "human"), memproxy.Memory{ID: "block-1"}, was, "[] false"},
	} {
		r, _, _ := holdRig(t, nil)
		r.fake.op, r.fake.knows, r.fetch.status = tc.op, true, 200
		r.fake.located = map[string]memproxy.Memory{"human": tc.now}
		ids, known, err := r.gate.Reviewed().FindWrite(t.Context(), gate.Backend{Name: "mem", Adapter: r.adapter, Fetch: r.fetch}, approved("fake.route"),
			memproxy.HoldContent{Body: []byte("body"), Objects: map[string]string{"human": "block-1"}, Before: map[string]string{"block-1": tc.before}})
		expect.Equal(t, fmt.Sprint(ids, known, err), tc.want+" <nil>", name)
	}
}

// Proves MFW-7, EDGE-17: what the present rules make of a held write is what they would make of
// it now. It waits on where they say something conditional, and a step that fails says nothing.
// Nothing is charged or recorded.
func TestHeldWritesAreReevaluated(t *testing.T) {
	limited := memproxy.Principal{ID: "agent:author", Tenant: "acme", Users: only("ann")}
	for name, tc := range map[string]struct {
		set     func(*rig)
		content memproxy.HoldContent
		want    memproxy.Verdict
		fails   bool
	}{
		"allowed":                {func(*rig) {}, memproxy.HoldContent{}, memproxy.Allow, false},
		"denied":                 {func(r *rig) { r.rules.Policy = says(memproxy.Deny, memproxy.ScreenRisk) }, memproxy.HoldContent{}, memproxy.Deny, false},
		"held":                   {func(r *rig) { r.rules.Policy = says(memproxy.Hold, memproxy.ScreenRisk) }, memproxy.HoldContent{}, memproxy.Hold, false},
		"a policy fails":         {func(r *rig) { r.rules.Policy = says(memproxy.Deny, memproxy.PolicyError) }, memproxy.HoldContent{}, memproxy.Hold, false},
		"set aside":              {func(r *rig) { r.rules.Policy, r.rules.NeverRefuse = says(memproxy.Deny, memproxy.ScreenRisk), true }, memproxy.HoldContent{}, memproxy.Hold, false},
		"rewritten, and allowed": {func(*rig) {}, memproxy.HoldContent{Rewritten: []memproxy.HeldText{{Pointer: "/a"}}}, memproxy.Hold, false},
		"rewritten, and denied":  {func(r *rig) { r.rules.Policy = says(memproxy.Deny, memproxy.ScreenRisk) }, memproxy.HoldContent{Rewritten: []memproxy.HeldText{{Pointer: "/a"}}}, memproxy.Deny, false},
		"screening fails":        {func(r *rig) { r.rules.Screener = screener{err: errBroken} }, memproxy.HoldContent{}, 0, true},
		"the policy does not answer": {func(r *rig) {
			r.rules.Policy = policy(func(memproxy.Question) (memproxy.Ruling, error) { return memproxy.Ruling{}, errBroken })
		}, memproxy.HoldContent{}, 0, true},
		"as its author": {func(r *rig) {
			r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
				expect.Equal(t, q.Principal.Users.All, false, "the author's limits")
				return memproxy.Ruling{}, nil
			})
		}, memproxy.HoldContent{Author: &limited}, memproxy.Allow, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &echoer{}
			r, _ := anyAgent(t, func(r *rig) { r.adapter, r.fake = b, &b.fakeAdapter; tc.set(r) })
			r.fake.op, r.fake.knows = learn("x"), true
			tc.content.Body = []byte("body")
			got, err := r.gate.Reviewed().Reevaluate(t.Context(), gate.Backend{Name: "mem", Adapter: r.adapter}, approved("fake.route"), tc.content)
			must.Equal(t, err != nil, tc.fails, err)
			expect.Equal(t, got.Verdict, tc.want)
			expect.Equal(t, r.budget.used, 0)
			expect.Len(t, r.recorder.events, 0)
		})
	}
}
