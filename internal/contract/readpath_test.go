package contract_test

import (
	"context"
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// plain is every collaborator of a gate in its simplest form.
type plain struct{ frontendtest.Parts }

func (*plain) Identify(context.Context, memproxy.Credentials) (memproxy.Principal, error) {
	all := memproxy.Limit{All: true}
	return memproxy.Principal{ID: "service:x", Kind: memproxy.KindService, Tenant: "acme", ActsAs: all, Users: all, Apps: all, Runs: all}, nil
}

// The adapters, with requests that are always understood: this is about answers.
type (
	mem0Answers  struct{ *mem0.Adapter }
	lettaAnswers struct{ *letta.Adapter }
)

func (mem0Answers) Decode(rt memproxy.Route, _ memproxy.Request, _ []byte) (*memproxy.Operation, error) {
	return &memproxy.Operation{Kind: rt.Kind, Derived: rt.Derived}, nil
}

func (lettaAnswers) Decode(rt memproxy.Route, _ memproxy.Request, _ []byte) (*memproxy.Operation, error) {
	return &memproxy.Operation{Kind: rt.Kind, Derived: rt.Derived}, nil
}

// Turn gates no run: its answer goes through the filters all the same.
func (lettaAnswers) Turn(memproxy.Route, memproxy.Request, []byte) (memproxy.Turn, error) {
	return nil, nil
}

// Proves EDGE-13: the answer of every row of both route tables goes through
// every filter of the read path: whole, refused, as a piece and as an event of a
// run. A new row cannot miss one.
func TestEveryRouteIsFiltered(t *testing.T) {
	m := must.Get(mem0.New(mem0.Options{}))(t)
	l := must.Get(letta.New(letta.Options{}))(t)
	var every, body []string // the filters, and those of what cannot be taken apart
	for _, f := range gate.Filters() {
		if every = append(every, f.Name); !f.Memories() {
			body = append(body, f.Name)
		}
	}
	var passed []string
	rules := frontendtest.Rules(&plain{})
	rules.OneTenant = true
	g := frontendtest.NewGate(t, &plain{}, &rules, func(o *gate.Options) {
		o.Filtered = func(_ memproxy.Route, name string) { passed = append(passed, name) }
	})
	ctx := context.Background()
	for adapter, table := range map[backend.Adapter]func(func(string, memproxy.Route) bool){mem0Answers{m}: m.Routes(), lettaAnswers{l}: l.Routes()} {
		for at, rt := range table {
			backend := gate.Backend{Name: "x", Adapter: adapter}
			page := !adapter.Structured(rt) // it streams: nothing in it could be claimed
			expect.That(t, !page || rt.Pass == rt.Public, "%s answers with a page, and is not public", at)
			if rt.Public {
				inspects, byStatus := g.InspectsPublic(backend, rt)
				expect.That(t, inspects != page && byStatus == page, "%s: what no row claims passes", at)
				continue
			}
			admit := func() *gate.Admission {
				return g.Admit(ctx, &gate.Call{Backend: backend, Route: rt, Known: true, NoMemoryAccess: rt.Pass, Request: memproxy.Request{Method: "GET"}})
			}
			a := admit()
			if a.Reply != nil {
				t.Errorf("%s: refused: %+v", at, a.Decision)
				continue
			}
			went, withheld := false, 0
			for _, answer := range []string{`{"results":[]}`, `[]`, `{}`, `null`, `"s"`} {
				passed = nil
				got := g.Return(ctx, a, memproxy.Reply{Status: 200, Body: []byte(answer)})
				if got.Status == 200 && slices.Equal(passed, every) {
					went = true
					break
				}
				if got.Status == memproxy.StatusBadGateway {
					withheld++ // not even what it answers with is known: nothing of it passes
				}
				a = admit()
			}
			expect.That(t, went || withheld >= 5, "%s: the last answer went through %v", at, passed)
			passed = nil
			g.Return(ctx, admit(), memproxy.Reply{Status: 500, Body: []byte(`{"detail":"d","evil":"canary"}`)})
			expect.List(t, passed, body, at, "an error went through")
			passed = nil
			g.Event(ctx, admit(), []byte("data: {\"message_type\":\"assistant_message\",\"content\":\"a\"}\n\n"))
			expect.That(t, len(passed) > 0 && slices.Equal(passed, body[:len(passed)]), "%s: an event went through %v, want %v", at, passed, body)
		}
	}
}
