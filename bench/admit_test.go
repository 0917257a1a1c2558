//go:build slow

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
)

// still stands for what does I/O: the audit log and the ledger's file.
type still struct{}

func (still) Record(context.Context, memproxy.Event) error { return nil }
func (still) RecordAsync(memproxy.Event) error             { return nil }

// admitting is a gate with everything real but I/O, and a call of 600 bytes.
func admitting(tb testing.TB) (*gate.Gate, *gate.Call) {
	tb.Helper()
	adapter := must.Get(mem0.New(mem0.Options{}))(tb)
	rules := must.Get(cedar.Compile(policy.Builtin()))(tb)
	who := memproxy.Principal{
		ID: "agent:dev", Kind: memproxy.KindAgent, Tenant: "acme", Trust: memproxy.TrustAuthenticated, Roles: []string{"dev"},
		ActsAs: memproxy.Limit{Values: []string{"dev"}}, Users: memproxy.Limit{All: true}, Apps: memproxy.Limit{All: true}, Runs: memproxy.Limit{All: true},
	}
	callers := must.Get(identity.New(identity.Options{Keys: []identity.Key{{SHA256: config.Sum(benchKeyHash), Principal: who}}}))(tb)
	mem := must.Get(budgets.NewMemory(""))(tb)
	led := must.Get(ledger.Open(ledger.Options{}))(tb)
	tb.Cleanup(func() { _ = led.Close() })
	stamps := must.Get(keys.LoadOrCreate(tb.TempDir()))(tb)
	signer := must.Get(keys.NewSigner(stamps))(tb)
	limits := memproxy.Limits{Default: memproxy.WriteLimit{PerHour: 1e12, Total: 1e12}, RapidPerMinute: 30}
	g := must.Get(gate.New(gate.Options{
		Identifier: callers, Ledger: led, Budget: mem, Recorder: still{}, Signer: signer,
		Clock: time.Now, NewID: func() string { return "01a1fcff-e2ef-79a4-a087-adbeaa5b63b2" },
	}, &gate.Rules{
		Version: "bench", Profile: gate.Production, Policy: rules, Ceilings: memproxy.DefaultCeilings(), Enforce: true,
		Unattributed: access.Visible,
		Lines: func(p memproxy.Principal, kind memproxy.Kind, user string, fields []string) []memproxy.Line {
			return budgets.Lines(limits, p, kind, user, fields)
		},
	}))(tb)
	_, body, _ := strings.Cut(string(request(fact)), "\r\n\r\n")
	req := memproxy.Request{
		Method: "POST", EscapedPath: "/memories",
		Header: memproxy.Header{"Content-Type": {"application/json"}, "X-Api-Key": {"m0sk_bench"}},
	}
	route, known := adapter.Route(req)
	return g, &gate.Call{
		Backend: gate.Backend{Name: "mem0", Adapter: adapter}, Request: req, Route: route, Known: known, Body: []byte(body),
		Credentials: memproxy.Credentials{Header: req.Header},
	}
}

// The benchmark measures what it says: an add that is clamped, stamped,
// charged and would be forwarded.
func TestAdmitIsWhatIsMeasured(t *testing.T) {
	g, call := admitting(t)
	a := g.Admit(context.Background(), call)
	if a.Decision.Verdict != memproxy.Amend || a.Reply != nil || !a.Changed || a.Decision.Allowance == nil {
		t.Errorf("%+v", a.Decision)
	}
	if n := len(call.Body); n < 550 || n > 650 {
		t.Errorf("the body has %d bytes, want about 600", n)
	}
}

func BenchmarkAdmit(b *testing.B) {
	g, call := admitting(b)
	b.ReportAllocs()
	for b.Loop() {
		if a := g.Admit(context.Background(), call); a.Reply != nil {
			b.Fatal(a.Decision)
		}
	}
}
