// Package frontendtest is the common part of the listeners' tests: a simple wire format,
// a gate with the simplest collaborators, and the answers that every listener must give.
package frontendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/gatetest"
	"github.com/memproxy/memproxy/internal/must"
)

// Toy is a wire format for the tests of the listeners: a body is text, and an answer
// consists of lines "id user". The real formats are tested with their adapters.
type Toy struct{}

func (Toy) Route(q memproxy.Request) (memproxy.Route, bool) {
	switch q.EscapedPath {
	case "/memory":
		if q.Method == "POST" {
			return memproxy.Route{ID: "toy.add", Kind: memproxy.Learn}, true
		}
		return memproxy.Route{ID: "toy.list", Kind: memproxy.Recall}, true
	case "/run":
		return memproxy.Route{ID: "toy.run", Kind: memproxy.Run}, true
	case "/ping":
		return memproxy.Route{ID: "toy.ping", Kind: memproxy.Other, Pass: true}, true
	case "/health":
		return memproxy.Route{ID: "toy.health", Kind: memproxy.Other, Pass: true, Public: true}, true
	case "/keys", "/stream", "/moved", "/custom/known":
		return memproxy.Route{ID: "toy.other", Kind: memproxy.Other, Pass: true}, true
	}
	return memproxy.Route{}, false
}

func (Toy) Decode(r memproxy.Route, _ memproxy.Request, body []byte) (*memproxy.Operation, error) {
	op := &memproxy.Operation{Kind: r.Kind}
	if r.Kind == memproxy.Learn {
		op.Cost = 1
		op.Items = []memproxy.Item{{Kind: memproxy.ItemContent, Text: string(body)}}
	}
	switch {
	case strings.Contains(string(body), "malformed"):
		return nil, &memproxy.Flaw{Code: memproxy.PayloadMalformed, Status: 400, Detail: "malformed"}
	case strings.Contains(string(body), "panic"):
		panic("as asked")
	}
	return op, nil
}

func (Toy) Encode(_ memproxy.Route, q memproxy.Request, body []byte, op *memproxy.Operation) ([]byte, string, error) {
	if op.Kind == memproxy.Recall && strings.Contains(q.Query, "more") {
		return body, q.Query + "&fields=user", nil
	}
	if op.Stamp != nil {
		return append([]byte(op.Stamp.Actor+" says: "), body...), q.Query, nil
	}
	return body, q.Query, nil
}

func (Toy) Refuse(_ memproxy.Request, d memproxy.Decision) memproxy.Reply {
	var code memproxy.ReasonCode
	if len(d.Reasons) > 0 {
		code = d.Reasons[0].Code
	}
	h := memproxy.Header{"Content-Type": {"application/json"}, "X-Many": {"a", "b"}}
	if d.Status == memproxy.StatusUnavailable {
		h.Set("Retry-After", "1")
	}
	return memproxy.Reply{Status: d.Status, Header: h, Body: fmt.Appendf(nil, "%q", code)}
}

func (Toy) Reword(_ memproxy.Route, _ memproxy.Request, body []byte, _ map[string]string) ([]byte, error) {
	return body, nil
}

func (Toy) HeldReply(memproxy.Route, memproxy.Request, *memproxy.Operation, memproxy.Decision) (memproxy.Reply, bool) {
	return memproxy.Reply{}, false
}

func (Toy) Prune(_ memproxy.Route, r memproxy.Reply) (memproxy.Pruned, error) {
	return memproxy.Pruned{Body: r.Body}, nil
}
func (Toy) Structured(memproxy.Route) bool { return false }
func (Toy) PruneEvent(_ memproxy.Route, event []byte) memproxy.Pruned {
	return memproxy.Pruned{Body: event}
}

func (Toy) Refill(memproxy.Route, memproxy.Request, []byte, memproxy.Reply, *memproxy.Reading) memproxy.Refill {
	return nil
}
func (Toy) Evict(...string) {}

func (Toy) Locate(_ memproxy.Route, _ memproxy.Request, id string) memproxy.Request {
	return memproxy.Request{Method: "GET", EscapedPath: "/memory/" + id}
}

func (Toy) ReadLocated(memproxy.Route, string, memproxy.Reply) (memproxy.Memory, error) {
	return memproxy.Memory{Missing: true}, nil
}
func (Toy) Merges(memproxy.Route, *memproxy.Operation) bool { return false }

func (Toy) FindRequests(memproxy.MemoryKey) []memproxy.SideRequest { return nil }
func (Toy) Restore(memproxy.Version, memproxy.Memory, memproxy.Stamp) []memproxy.SideRequest {
	return nil
}
func (Toy) Remove(memproxy.MemoryKey) []memproxy.SideRequest { return nil }

func (Toy) Read(_ memproxy.Route, _ memproxy.Request, r memproxy.Reply) (*memproxy.Reading, error) {
	if strings.Contains(string(r.Body), "unreadable") {
		return nil, errors.New("unreadable")
	}
	rd := &memproxy.Reading{}
	for line := range strings.Lines(string(r.Body)) {
		id, user, _ := strings.Cut(strings.TrimSpace(line), " ")
		rd.Memories = append(rd.Memories, memproxy.Memory{ID: id, Pointer: fmt.Sprint("/", len(rd.Memories)), Scope: memproxy.Scope{User: user}})
	}
	return rd, nil
}

func (Toy) Rewrite(_ memproxy.Route, _ memproxy.Request, r memproxy.Reply, rd *memproxy.Reading) ([]byte, error) {
	var out []byte
	dropped := false
	for _, m := range rd.Memories {
		if m.Drop {
			dropped = true
			continue
		}
		out = fmt.Appendf(out, "%s %s\n", m.ID, m.Scope.User)
	}
	if !dropped {
		return r.Body, nil
	}
	return out, nil
}

// Parts implements all collaborators of the gate in their simplest form.
type Parts struct {
	mu     sync.Mutex
	events []memproxy.Event
	Wrote  chan memproxy.Event // receives outcomes, if set
}

func (*Parts) Identify(_ context.Context, c memproxy.Credentials) (memproxy.Principal, error) {
	p := memproxy.Principal{ID: "agent:dev", Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, Users: memproxy.Limit{Values: []string{"ann"}}, ActsAs: memproxy.Limit{All: true}, Apps: memproxy.Limit{All: true}, Runs: memproxy.Limit{All: true}}
	switch {
	case c.PeerExpired:
		return memproxy.Principal{}, &memproxy.CredentialError{Code: memproxy.IdentityInvalid}
	case len(c.PeerURIs) > 0:
		p.ID = c.PeerURIs[0]
	case c.Header.Get("X-Key") == "mallory":
		p.ID, p.Tenant = "agent:mallory", "evil"
	case c.Header.Get("X-Key") == "bad":
		return memproxy.Principal{}, &memproxy.CredentialError{Code: memproxy.IdentityInvalid}
	}
	return p, nil
}

func (*Parts) Charge(context.Context, memproxy.Charge) (memproxy.Allowance, error) {
	return memproxy.Allowance{Granted: true, Refused: -1}, nil
}
func (*Parts) Release(context.Context, memproxy.Charge) error { return nil }
func (*Parts) Sign(s memproxy.Stamp) memproxy.Stamp           { return s }
func (*Parts) Verify(memproxy.Stamp) bool                     { return false }
func (*Parts) Rule(context.Context, memproxy.Question) (memproxy.Ruling, error) {
	return memproxy.Ruling{}, nil
}

func (p *Parts) Record(_ context.Context, ev memproxy.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, ev)
	return nil
}

// Recorded returns the events so far.
func (p *Parts) Recorded() []memproxy.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]memproxy.Event(nil), p.events...)
}

// Decisions returns the number of decisions with a reason.
func (p *Parts) Decisions(reason memproxy.ReasonCode) (n int) {
	for _, ev := range p.Recorded() {
		if ev.Type == memproxy.EventDecision && len(ev.Reasons) > 0 && ev.Reasons[0].Code == reason {
			n++
		}
	}
	return n
}

func (p *Parts) RecordAsync(ev memproxy.Event) error {
	err := p.Record(context.Background(), ev)
	if ev.Type == memproxy.EventOutcome && p.Wrote != nil {
		p.Wrote <- ev
	}
	return err
}

// Party is the collaborators that a gate needs.
type Party interface {
	gate.Identifier
	gate.Budget
	gate.Recorder
	gate.Signer
	gate.Policy
}

// NewGate returns a gate with these collaborators, and without a ledger unless set adds
// one.
func NewGate(t testing.TB, parts Party, rules *gate.Rules, set ...func(*gate.Options)) *gate.Gate {
	t.Helper()
	var n atomic.Int64
	opt := gate.Options{
		Identifier: parts, Ledger: gatetest.NoLedger{}, Budget: parts, Recorder: parts, Signer: parts,
		Clock: time.Now, NewID: func() string { return fmt.Sprint("d", n.Add(1)) },
	}
	for _, set := range set {
		set(&opt)
	}
	g := must.Get(gate.New(opt, rules))(t)
	return g
}

// Rules returns rules that enforce a policy and limit nothing.
func Rules(policy gate.Policy) gate.Rules {
	return gate.Rules{
		Version: "v", Profile: gate.Production, Policy: policy, Ceilings: memproxy.DefaultCeilings(), Enforce: true, Unattributed: access.Visible,
		Lines: func(memproxy.Principal, memproxy.Kind, string, []string) []memproxy.Line { return nil },
	}
}
