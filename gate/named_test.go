package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// naming is a backend's adapter whose answers name objects: in a body, ids
// parted by commas.
type naming struct {
	noRuns
	fakeReader
	err error
}

func (f *naming) Rewrite(_ memproxy.Route, _ memproxy.Request, reply memproxy.Reply, _ *memproxy.Reading) ([]byte, error) {
	return reply.Body, nil
}

func (f *naming) Names(_ memproxy.Route, reply memproxy.Reply) ([]memproxy.Ref, error) {
	if strings.HasPrefix(string(reply.Body), "[") {
		return nil, errors.New("a list names nothing")
	}
	var out []memproxy.Ref
	for i, id := range strings.Split(string(reply.Body), ",") {
		ptr := fmt.Sprint("/", i)
		if id == "whole" {
			ptr = ""
		}
		out = append(out, memproxy.Ref{Kind: memproxy.TargetMemory, ID: id, Pointer: ptr})
	}
	return out, f.err
}

func (f *naming) RemovePointers(reply memproxy.Reply, gone []string) ([]byte, error) {
	ids := strings.Split(string(reply.Body), ",")
	for _, ptr := range gone {
		var i int
		if _, err := fmt.Sscanf(ptr, "/%d", &i); err != nil {
			return nil, err
		}
		ids[i] = "-"
	}
	return []byte(strings.Join(ids, ",")), nil
}

func named(t *testing.T, change func(*rig, *naming), rows ...memproxy.Ownership) *rig {
	f := &naming{}
	r := tenants(t, func(r *rig) {
		r.adapter = f
		if change != nil {
			change(r, f)
		}
	}, rows...)
	r.fake = &f.fakeAdapter
	return r
}

// Proves EDGE-3, EDGE-13: what an answer names of another tenant's is left out,
// whatever kind of operation it answers; where it is the whole answer, there is
// none. With one tenant nobody is asked.
func TestAnswersNameNothingOfOtherTenants(t *testing.T) {
	for _, kind := range memproxy.Kinds {
		r := named(t, nil, object("mine", "acme", "agent:a"), object("theirs", "globex", "agent:b"), object("whole", "globex", "agent:b"))
		a := r.admit(memproxy.Operation{Kind: kind})
		for body, want := range map[string]string{"mine,theirs,nobodys": "mine,-,nobodys", "mine,nobodys": "mine,nobodys", "": ""} {
			got := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte(body)})
			expect.That(t, got.Status == 200 && string(got.Body) == want, "%s: %q became %d %q, want %q", kind, body, got.Status, got.Body, want)
		}
		if got := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("whole")}); got.Status != 404 {
			t.Errorf("%s: an answer that is another's: %d %q", kind, got.Status, got.Body)
		}
	}
	r := named(t, func(r *rig, _ *naming) { r.rules.OneTenant, r.rules.Unattributed = true, access.Visible }, object("theirs", "globex", "agent:b"))
	a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
	expect.Equal(t, string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("theirs")}).Body), "theirs", "with one tenant")
}

// Proves EDGE-3: while nobody can say whose the objects of an answer are, it is
// withheld.
func TestAnswersThatCannotBeLookedThroughAreWithheld(t *testing.T) {
	r := named(t, nil)
	a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
	r.ledger.err = errors.New("away")
	got := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("x")})
	expect.That(t, got.Status == 502 && string(got.Body) != "x", "the ledger away: %d %q", got.Status, got.Body)
	r = named(t, func(_ *rig, f *naming) { f.err = errors.New("unreadable") })
	a = r.admit(memproxy.Operation{Kind: memproxy.Recall})
	got = r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("x")})
	expect.That(t, got.Status == 502, "an unreadable answer: %d %q", got.Status, got.Body)
}

// Proves EDGE-3: what came to be next to a write is its caller's, and what was
// somebody's stays so.
func TestObjectsCreatedAlongWithAWriteAreAdopted(t *testing.T) {
	r := named(t, func(_ *rig, f *naming) { f.made = []string{"new", "theirs"} }, object("theirs", "globex", "agent:b"))
	a := r.admit(memproxy.Operation{Kind: memproxy.Correct, Cost: 1})
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
	row := r.ledger.rows["new"]
	expect.That(t, row.Scope.Tenant == "acme" && row.Actor == r.who.ID, "new: %+v", row)
	row = r.ledger.rows["theirs"]
	expect.That(t, row.Scope.Tenant == "globex" && row.Actor == "agent:b", "theirs: %+v", row)
}

// Proves EDGE-3: an addition's answer shows the memories of an owner that it made; a change's
// does not show those of an owner that may have been there before.
func TestOnlyAdditionsShowWhatTheyMade(t *testing.T) {
	for kind, want := range map[memproxy.Kind]int{memproxy.Learn: 0, memproxy.Correct: 1} {
		r := named(t, func(r *rig, f *naming) {
			r.who.Users = only("ann")
			f.made, f.memories = []string{"bob"}, []memproxy.Memory{{ID: "bobs", Scope: memproxy.Scope{User: "bob"}}}
		})
		a := r.admit(memproxy.Operation{Kind: kind, Cost: 1, Scope: memproxy.Scope{User: "ann"}})
		r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("x")})
		expect.Equal(t, r.recorder.events[1].Filtered, want, kind)
	}
}

// Proves EDGE-3, CARD-1: an object of which nothing is recorded is of the tenant
// that what it belongs to is of, also over one step of which nothing is recorded
// either; what the backend ships is everybody's; and each parent is asked for
// once.
func TestObjectsAreAttributedByDescent(t *testing.T) {
	in := func(ids ...string) []memproxy.Ref {
		var out []memproxy.Ref
		for _, id := range ids {
			out = append(out, memproxy.Ref{Kind: memproxy.TargetMemory, ID: id})
		}
		return out
	}
	r := tenants(t, func(r *rig) {
		f := &fakeReader{}
		r.adapter = f
		f.memories = []memproxy.Memory{
			{ID: "of-mine", Parents: in("agent-mine")}, {ID: "of-theirs", Parents: in("agent-theirs")},
			{ID: "over-mine", Parents: in("run-mine")}, {ID: "over-mine-2", Parents: in("run-mine")}, {ID: "over-theirs", Parents: in("run-theirs")},
			{ID: "of-both", Parents: in("agent-mine", "agent-theirs")}, {ID: "over-both", Parents: in("agent-mine", "run-theirs")},
			{ID: "of-nobody"}, {ID: "over-nobody", Parents: in("run-nobody")}, {ID: "shipped", BuiltIn: true},
		}
		f.located = map[string]memproxy.Memory{
			"run-mine": {ID: "run-mine", Parents: in("agent-mine")}, "run-theirs": {ID: "run-theirs", Parents: in("agent-theirs")},
			"run-nobody": {ID: "run-nobody", Parents: in("agent-nobody")},
		}
		r.fetch.status = 200
	}, object("agent-mine", "acme", "agent:a"), object("agent-theirs", "globex", "agent:b"))
	r.fake = &r.adapter.(*fakeReader).fakeAdapter
	a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
	got := string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200}).Body)
	expect.Equal(t, got, "of-mine,over-mine,over-mine-2,shipped", "shown")
	n := len(r.fetch.asked)
	expect.That(t, n != 0 && n <= 3, "%d side requests: %q", n, r.fetch.asked)
	r.fetch.err = errBroken
	got = string(r.gate.Return(context.Background(), r.admit(memproxy.Operation{Kind: memproxy.Recall}), memproxy.Reply{Status: 200}).Body)
	expect.Text(t, got, "while the backend does not say").Has("of-mine", "shipped").Lacks("over-mine", "theirs", "nobody")
}

// Proves EDGE-3, MFW-8: a message that names nothing it belongs to, such as an agent's first, is
// accepted as the cursor of a page, and as nothing else. What is another's is no cursor.
func TestInitialMessagesAreCursors(t *testing.T) {
	for name, tc := range map[string]struct {
		pointer string
		m       memproxy.Memory
		ok      bool
	}{
		"after a message":     {"query:after", memproxy.Memory{Layer: memproxy.Episodic}, true},
		"before a message":    {"query:before", memproxy.Memory{Layer: memproxy.Episodic}, true},
		"elsewhere":           {"/message_id", memproxy.Memory{Layer: memproxy.Episodic}, false},
		"of another's run":    {"query:after", memproxy.Memory{Layer: memproxy.Episodic, Parents: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "theirs"}}}, false},
		"of another's agent":  {"query:after", memproxy.Memory{Layer: memproxy.Episodic, Scope: memproxy.Scope{Agent: "theirs"}}, false},
		"that does not exist": {"query:after", memproxy.Memory{Missing: true}, false},
		"a block of nobody's": {"query:after", memproxy.Memory{}, false},
	} {
		r := tenants(t, func(r *rig) {
			f := &fakeReader{}
			r.adapter, f.located = f, map[string]memproxy.Memory{"x": tc.m}
			r.fetch.status = 200
		}, object("theirs", "globex", "agent:other"))
		r.fake = &r.adapter.(*fakeReader).fakeAdapter
		a := r.admit(memproxy.Operation{Kind: memproxy.Recall, Refs: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "x", Pointer: tc.pointer}}})
		expect.Equal(t, !a.Decision.Verdict.Stops(), tc.ok, name)
	}
}

// Proves EDGE-13, EDGE-3: of each object that the events of a stream name the
// ledger is asked once, and what is another tenant's is left out of every event.
func TestTheLedgerIsAskedOnceAStream(t *testing.T) {
	ctx := context.Background()
	r := named(t, nil, object("{mine", "acme", "agent:a"), object("theirs", "globex", "agent:b"))
	a := r.admit(memproxy.Operation{Kind: memproxy.Run})
	before := r.ledger.asked
	for range 100 {
		must.Equal(t, string(r.gate.Event(ctx, a, []byte("data: {mine,theirs,nobodys\n\n"))), "data: {mine,-,nobodys\n\n")
	}
	expect.Equal(t, r.ledger.asked-before, 1, "the ledger was asked")
	for _, space := range []string{" ", "\ndata: ", "\rdata:", "\r\rdata: "} { // in front of JSON it means nothing to clients
		expect.Equal(t, string(r.gate.Event(ctx, a, []byte("data: "+space+"{mine,theirs,nobodys\n\n"))), "data: {mine,-,nobodys\n\n", fmt.Sprintf("%q", space))
	}
	expect.Equal(t, string(r.gate.Event(ctx, a, []byte("data: [DONE]\n\n"))), "data: [DONE]\n\n", "the mark of the end became")
	expect.Equal(t, string(r.gate.Event(ctx, a, []byte("data: {mine,theirs,another\n\n"))), "data: {mine,-,another\n\n")
	expect.Equal(t, r.ledger.asked-before, 2)
	for i := range 9000 { // more than is remembered
		r.gate.Event(ctx, a, fmt.Appendf(nil, "data: {mine,n%d\n\n", i))
	}
	expect.Equal(t, string(r.gate.Event(ctx, a, []byte("data: {mine,theirs\n\n"))), "data: {mine,-\n\n")
}

// Proves TRL-8: the record of an answer that is withheld after its memories were looked at
// names none of them as shown.
func TestAWithheldAnswerShowedNothing(t *testing.T) {
	f := &naming{err: errBroken}
	r := tenants(t, func(r *rig) { r.adapter, r.fake = f, &f.fakeAdapter })
	r.fake.memories = []memproxy.Memory{{ID: "m1", Text: "tea", TextAt: "/text", Scope: memproxy.Scope{User: "ann"}}}
	row := owned("m1", "acme", "dev")
	row.SHA256 = "of another text"
	r.ledger.rows["m1"], r.rules.Changed = row, gate.ChangedReport
	must.Do(t, r.gate.Use(r.rules))
	a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
	got := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("m1")})
	expect.Equal(t, got.Status, 502)
	expect.Len(t, r.recorder.last().Memories, 0, "shown")
	expect.Len(t, a.Memories, 0, "shown")
	expect.Len(t, a.Unverified, 0, "shown although it was changed")
}

// Proves EDGE-3: whether a limited caller made the object that it names cannot be looked up
// while the ledger is unavailable, which is no refusal of the caller.
func TestOwnObjectsWithoutALedger(t *testing.T) {
	r := newRig(t, nil)
	op := learn("tea")
	op.Claims = []memproxy.Claim{pinned(memproxy.DimAgent, "agent-1")}
	a := r.admit(op)
	expect.Equal(t, a.Decision.Status, 403, "the ledger answers: it is not the caller's")
	r.ledger.err = errBroken
	a = r.admit(op)
	wantCodes(t, a.Decision, memproxy.Deny, memproxy.LedgerUnavailable)
	expect.Equal(t, a.Decision.Status, 503)
}

// Proves EDGE-3: a message whose agent is unknown, because the backend did not answer for its
// run, there are too many of them, or it names none, is not shown to a caller limited to some
// agents. Of a page of messages, the nearest objects are asked for first.
func TestMessagesOfUnknownAgentsAreNotShown(t *testing.T) {
	within := func(ids ...string) (refs []memproxy.Ref) {
		for _, id := range ids {
			refs = append(refs, memproxy.Ref{Kind: memproxy.TargetMemory, ID: id})
		}
		return refs
	}
	for name, tc := range map[string]struct {
		agent, want string
		n           int
		broken      error
	}{
		"too many":      {"agent-theirs", "mine,folder", maxParentsAsked + 2, nil},
		"no answer":     {"agent-theirs", "mine,folder", 2, errBroken},
		"two parents":   {"agent-mine", strings.Repeat("message,", maxParentsAsked*3/4) + "mine,folder", maxParentsAsked * 3 / 4, nil},
		"ledger failed": {"agent-theirs", "mine,folder", 2, nil},
	} {
		r := newRig(t, func(r *rig) {
			r.rules.OneTenant, r.rules.Unattributed = true, access.Visible
			r.who.ActsAs = memproxy.Limit{Values: []string{"agent-mine"}}
			f := &fakeReader{}
			r.adapter, f.located, r.fetch.status, r.fetch.err = f, map[string]memproxy.Memory{}, 200, tc.broken
			for i := range tc.n {
				run, step := fmt.Sprint("run-", i), fmt.Sprint("step-", i)
				f.memories = append(f.memories, memproxy.Memory{ID: "message", Layer: memproxy.Episodic, Parents: within(run, step)})
				f.located[run] = memproxy.Memory{ID: run, Scope: memproxy.Scope{Agent: tc.agent}}
				f.located[step] = memproxy.Memory{ID: step, Scope: memproxy.Scope{Agent: tc.agent}}
			}
			f.memories = append(f.memories, memproxy.Memory{ID: "prompt", Layer: memproxy.Episodic},
				memproxy.Memory{ID: "mine", Layer: memproxy.Episodic, Scope: memproxy.Scope{Agent: "agent-mine"}, Parents: within("run-x")},
				memproxy.Memory{ID: "folder"})
		})
		r.fake = &r.adapter.(*fakeReader).fakeAdapter
		c := r.call(memproxy.Operation{Kind: memproxy.Recall})
		c.Backend.Tenant, r.fake.op = "acme", memproxy.Operation{Kind: memproxy.Recall}
		a := r.gate.Admit(context.Background(), c)
		if name == "ledger failed" {
			r.ledger.err = errBroken
		}
		got := string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200}).Body)
		expect.Equal(t, got, tc.want, name)
	}
}

// Proves EDGE-3, CARD-1: messages of an agent that was not made through the proxy are shown to the
// callers of whose limits the agent's name is one, and whose tenant has the name: the
// run, the step or the request names the agent. Those of other agents stay hidden, also where
// nothing names the agent, where no limit does, and where the nearest object is not known.
func TestMessagesOfExistingAgents(t *testing.T) {
	in := func(ids ...string) (refs []memproxy.Ref) {
		for _, id := range ids {
			refs = append(refs, memproxy.Ref{Kind: memproxy.TargetMemory, ID: id})
		}
		return refs
	}
	name := func(agent, tenant string) memproxy.Ownership {
		return memproxy.Ownership{Kind: memproxy.TargetEntity, ID: memproxy.OwnerID(memproxy.DimAgent, agent), Scope: memproxy.Scope{Tenant: tenant}}
	}
	for what, tc := range map[string]struct {
		one  bool // tenant
		acts memproxy.Limit
		uses memproxy.Limit
		want string
	}{
		"one tenant":                 {true, only("mine"), all(), "of-mine,in-mine,in-mixed"}, // a group is its leader's
		"one tenant, limited users":  {true, all(), only("ann"), ""},
		"two tenants":                {false, only("mine"), all(), "of-mine,in-mine,in-group"},
		"two tenants, every agent":   {false, all(), all(), "of-mine,in-mine,in-group"},
		"two tenants, another's too": {false, only("mine", "theirs", "nobodys"), all(), "of-mine,in-mine,in-group"},
		"two tenants, limited users": {false, all(), only("ann"), "of-mine,in-mine,in-group"},
	} {
		r := tenants(t, func(r *rig) {
			f := &fakeReader{}
			r.adapter, r.fetch.status, r.who.ActsAs, r.who.Users = f, 200, tc.acts, tc.uses
			if tc.one {
				r.rules.OneTenant, r.rules.Unattributed = true, access.Visible
			}
			f.located = map[string]memproxy.Memory{"silent": {ID: "silent"}}
			for _, agent := range []string{"mine", "theirs", "nobodys"} {
				run, step := "run-"+agent, "step-"+agent
				f.memories = append(f.memories, memproxy.Memory{ID: "of-" + agent, Layer: memproxy.Episodic, Parents: in(run, step)},
					memproxy.Memory{ID: "in-" + agent, Layer: memproxy.Episodic, Parents: in(agent, "silent")})
				for _, id := range []string{run, step, agent} {
					f.located[id] = memproxy.Memory{ID: id, Scope: memproxy.Scope{Agent: agent}, Parents: in(agent)}
				}
			}
			f.memories = append(f.memories, memproxy.Memory{ID: "in-group", Layer: memproxy.Episodic, Parents: in("group-mine", "silent")},
				memproxy.Memory{ID: "in-mixed", Layer: memproxy.Episodic, Parents: in("group-mixed")},
				memproxy.Memory{ID: "of-both", Layer: memproxy.Episodic, Parents: in("run-theirs", "step-mine")},
				memproxy.Memory{ID: "prompt", Layer: memproxy.Episodic}, memproxy.Memory{ID: "of-silent", Layer: memproxy.Episodic, Parents: in("silent")})
			f.located["group-mine"] = memproxy.Memory{ID: "group-mine", Scope: memproxy.Scope{Agent: "mine"}, Parents: in("mine")}
			f.located["group-mixed"] = memproxy.Memory{ID: "group-mixed", Scope: memproxy.Scope{Agent: "mine"}, Parents: in("mine", "theirs")}
		})
		r.fake = &r.adapter.(*fakeReader).fakeAdapter
		for _, row := range []memproxy.Ownership{name("mine", "acme"), name("theirs", "globex")} {
			if !tc.one {
				r.ledger.rows[row.ID] = row
			}
		}
		read := func() string {
			a := r.admit(memproxy.Operation{Kind: memproxy.Recall})
			return string(r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200}).Body)
		}
		expect.Equal(t, read(), tc.want, what)
		r.fetch.err = errBroken
		expect.Equal(t, read(), "", what, "while the backend does not say")
	}
}

// maxParentsAsked is how many objects are looked up for one answer.
const maxParentsAsked = 64
