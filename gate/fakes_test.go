package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// The fakes here are the simplest collaborators that keep their contract; the
// real ones are put together in package proxy's tests and in cmd/memproxy.

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

type fakeAdapter struct {
	backend.Restorer
	op        memproxy.Operation
	decodeErr error
	encodeErr error
	readErr   error
	merges    bool
	memories  []memproxy.Memory
	events    []string
	made      []string // objects besides
	relations []string
	exact     bool // its answers name all that a write made
	located   map[string]memproxy.Memory
	stamp     *memproxy.Stamp   // of the last write
	knows     bool              // it has a route
	rd        *memproxy.Reading // the last that was rewritten
	gone      []string          // of its cache
}

func (f *fakeAdapter) Route(memproxy.Request) (memproxy.Route, bool) {
	return memproxy.Route{ID: "fake.route", Kind: f.op.Kind}, f.knows
}

func (f *fakeAdapter) Decode(memproxy.Route, memproxy.Request, []byte) (*memproxy.Operation, error) {
	if f.decodeErr != nil {
		return nil, f.decodeErr
	}
	op := f.op
	op.ConfidenceClaims = append([]memproxy.ConfidenceClaim(nil), f.op.ConfidenceClaims...)
	return &op, nil
}

func (f *fakeAdapter) Encode(_ memproxy.Route, req memproxy.Request, body []byte, op *memproxy.Operation) ([]byte, string, error) {
	if f.encodeErr != nil {
		return nil, "", f.encodeErr
	}
	if op.Stamp == nil {
		return body, req.Query, nil
	}
	f.stamp = op.Stamp
	return []byte("stamped by " + op.Stamp.Actor), req.Query, nil
}

func (f *fakeAdapter) Refuse(_ memproxy.Request, d memproxy.Decision) memproxy.Reply {
	b, _ := json.Marshal(d.Reasons)
	return memproxy.Reply{Status: d.Status, Body: b}
}

// fakeReader is a fakeAdapter whose answers can be taken apart.
type fakeReader struct{ fakeAdapter }

func (f *fakeReader) Read(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error) {
	if f.readErr != nil {
		return nil, f.readErr
	}
	rd := &memproxy.Reading{Memories: placed(f.memories), Events: f.events, Relations: f.relations, Settles: f.exact}
	for _, id := range f.made {
		rd.Created = append(rd.Created, memproxy.CreatedObject{ID: id})
	}
	return rd, nil
}

func (f *fakeReader) Rewrite(_ memproxy.Route, _ memproxy.Request, _ memproxy.Reply, rd *memproxy.Reading) ([]byte, error) {
	f.rd = rd
	var ids []string
	for _, m := range rd.Memories {
		if !m.Drop {
			ids = append(ids, m.ID)
		}
	}
	return []byte(strings.Join(ids, ",")), nil
}

func (f *fakeAdapter) Locate(_ memproxy.Route, _ memproxy.Request, id string) memproxy.Request {
	return memproxy.Request{Method: "GET", EscapedPath: "/" + id}
}

func (f *fakeAdapter) ReadLocated(_ memproxy.Route, id string, r memproxy.Reply) (memproxy.Memory, error) {
	if r.Status == 404 {
		return memproxy.Memory{Missing: true}, nil
	}
	if r.Status >= 400 {
		return memproxy.Memory{}, errors.New("not a memory")
	}
	return f.located[id], nil
}

func (f *fakeAdapter) Merges(memproxy.Route, *memproxy.Operation) bool { return f.merges }

type fakeFetch struct {
	backend.Fetcher // nil: nothing is sent with a body
	mu              sync.Mutex
	asked           []string
	status          int
	header          memproxy.Header
	err             error
}

func (f *fakeFetch) Fetch(_ context.Context, q memproxy.Request) (memproxy.Reply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, q.EscapedPath)
	return memproxy.Reply{Status: f.status, Header: f.header}, f.err
}

type identify func(context.Context, memproxy.Credentials) (memproxy.Principal, error)

func (f identify) Identify(ctx context.Context, c memproxy.Credentials) (memproxy.Principal, error) {
	return f(ctx, c)
}

type policy func(memproxy.Question) (memproxy.Ruling, error)

func (f policy) Rule(_ context.Context, q memproxy.Question) (memproxy.Ruling, error) { return f(q) }

// says is a policy with one ruling.
func says(v memproxy.Verdict, codes ...memproxy.ReasonCode) policy {
	return func(memproxy.Question) (memproxy.Ruling, error) {
		ruling := memproxy.Ruling{Verdict: v}
		for _, c := range codes {
			ruling.Reasons = append(ruling.Reasons, memproxy.Reason{Code: c})
		}
		return ruling, nil
	}
}

// deniesBad is a policy that refuses the text "bad".
func deniesBad(q memproxy.Question) (memproxy.Ruling, error) {
	if len(q.Operation.Items) > 0 && q.Operation.Items[0].Text == "bad" {
		return says(memproxy.Deny, memproxy.ScreenRisk)(q)
	}
	return memproxy.Ruling{}, nil
}

// deniesFindings is a policy that refuses what screening found something in.
func deniesFindings(q memproxy.Question) (memproxy.Ruling, error) {
	if len(q.Findings) > 0 {
		return says(memproxy.Deny, memproxy.ScreenRisk)(q)
	}
	return memproxy.Ruling{}, nil
}

type fakeBudget struct {
	mu       sync.Mutex
	used     int64
	limit    int64
	released []memproxy.Charge
	degraded bool
	err      error
}

func (b *fakeBudget) Charge(_ context.Context, c memproxy.Charge) (memproxy.Allowance, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return memproxy.Allowance{}, b.err
	}
	a := memproxy.Allowance{Granted: b.used+c.Cost <= b.limit, Refused: -1, Degraded: b.degraded}
	switch {
	case !a.Granted:
		a.Refused = 0
	case !c.Peek:
		b.used += c.Cost
	}
	for _, l := range c.Lines {
		a.Lines = append(a.Lines, memproxy.LineState{Line: l, Used: b.used, Warn: a.Granted && b.used*10 == b.limit*8})
	}
	return a, nil
}

func (b *fakeBudget) Release(ctx context.Context, c memproxy.Charge) error {
	if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
		return errBroken
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released = append(b.released, c)
	b.used -= c.Cost
	return nil
}

type fakeRecorder struct {
	hangs  bool
	mu     sync.Mutex
	events []memproxy.Event
	err    error
}

func (f *fakeRecorder) Record(ctx context.Context, ev memproxy.Event) error {
	if f.hangs {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	f.events = append(f.events, ev)
	return nil
}

func (f *fakeRecorder) RecordAsync(ev memproxy.Event) error {
	return f.Record(context.Background(), ev)
}

func (f *fakeRecorder) types() []memproxy.EventType {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []memproxy.EventType
	for _, ev := range f.events {
		out = append(out, ev.Type)
	}
	return out
}

type fakeSigner struct{}

func (fakeSigner) Sign(s memproxy.Stamp) memproxy.Stamp {
	s.Signature = "signed for " + s.Tenant
	return s
}
func (fakeSigner) Verify(s memproxy.Stamp) bool { return s.Signature == "signed for "+s.Tenant }

var errBroken = errors.New("broken")

// rig holds a gate and everything around it.
type rig struct {
	recordTimeout time.Duration
	clock         func() time.Time // nil: noon
	rejections    int
	sweeper       gate.Ledger // nil: ledger itself
	adapter       backend.Adapter
	fake          *fakeAdapter
	ledger        *fakeLedger
	budget        *fakeBudget
	recorder      *fakeRecorder
	fetch         *fakeFetch
	rules         *gate.Rules
	who           memproxy.Principal
	identify      identify
	gate          *gate.Gate
	holds         gate.HoldStore
	refuseHolds   bool
	shared        gate.Budget // nil: budget
	filtered      func(memproxy.Route, string)
	unconfirmed   []memproxy.Event
	checks        []memproxy.Ownership // that the sweep is to make
	meter         gate.Meter           // nil: none
	log           *slog.Logger         // nil: none
}

func all() memproxy.Limit                                 { return memproxy.Limit{All: true} }
func only(values ...string) memproxy.Limit                { return memproxy.Limit{Values: values} }
func allowAll(memproxy.Question) (memproxy.Ruling, error) { return memproxy.Ruling{}, nil }

// hourAndTotal are an hourly and a total line of the principal.
func hourAndTotal(limit int64) func(memproxy.Principal, memproxy.Kind, string, []string) []memproxy.Line {
	return func(p memproxy.Principal, _ memproxy.Kind, _ string, _ []string) []memproxy.Line {
		return []memproxy.Line{
			{Reason: memproxy.BudgetHour, Key: "principal/" + p.ID, Window: memproxy.WindowHour, Limit: limit},
			{Reason: memproxy.BudgetTotal, Key: "principal/" + p.ID, Window: memproxy.WindowTotal, Limit: limit},
		}
	}
}

// anyAgent is a rig whose caller may act for every agent, and its ledger.
func anyAgent(t *testing.T, change func(*rig)) (*rig, *fakeLedger) {
	t.Helper()
	r := newRig(t, func(r *rig) {
		r.who.ActsAs = all()
		if change != nil {
			change(r)
		}
	})
	return r, r.ledger
}

func newRig(t *testing.T, change func(*rig)) *rig {
	t.Helper()
	reader := &fakeReader{}
	r := &rig{
		adapter: reader, fake: &reader.fakeAdapter,
		ledger:   newLedger(),
		budget:   &fakeBudget{limit: 10},
		recorder: &fakeRecorder{},
		fetch:    &fakeFetch{status: 200},
		who: memproxy.Principal{
			ID: "agent:dev", Kind: memproxy.KindAgent, Tenant: "acme", Trust: memproxy.TrustAuthenticated,
			ActsAs: only("dev"), Users: all(), Apps: all(), Runs: all(),
		},
		rules: &gate.Rules{
			Version: "v1", Profile: gate.Production, Policy: policy(allowAll), Ceilings: memproxy.DefaultCeilings(),
			Lines:   hourAndTotal(10),
			Enforce: true, Unattributed: access.Visible, OneTenant: true,
		},
	}
	r.identify = func(context.Context, memproxy.Credentials) (memproxy.Principal, error) { return r.who, nil }
	if change != nil {
		change(r)
	}
	if r.clock == nil {
		r.clock = func() time.Time { return noon }
	}
	n := 0
	g := must.Get(gate.New(gate.Options{
		Identifier: r.identify, Ledger: r.store(), Budget: r.counts(), Recorder: r.recorder, Signer: fakeSigner{},
		Clock: r.clock, Rejections: r.rejections, Filtered: r.filtered,
		StoreTimeout: r.recordTimeout, Holds: r.holds, RefuseHolds: r.refuseHolds, Meter: r.meter, Log: r.log,
		Unconfirmed: func(ev memproxy.Event) { r.unconfirmed = append(r.unconfirmed, ev) },
		Check:       func(row memproxy.Ownership) bool { r.checks = append(r.checks, row); return true },
		NewID:       func() string { n++; return fmt.Sprintf("d%d", n) },
	}, r.rules))(t)
	r.gate = g
	return r
}

func (r *rig) counts() gate.Budget {
	if r.shared != nil {
		return r.shared
	}
	return r.budget
}

func (r *rig) store() gate.Ledger {
	if r.sweeper != nil {
		return r.sweeper
	}
	return r.ledger
}

func (r *rig) admit(op memproxy.Operation) *gate.Admission { return r.admitIn("", op) }

// admitIn admits an operation in a session.
func (r *rig) admitIn(session string, op memproxy.Operation) *gate.Admission {
	r.fake.op = op
	c := r.call(op)
	c.Session = memproxy.NameSession(session)
	return r.gate.Admit(context.Background(), c)
}

// last is the newest record.
func (f *fakeRecorder) last() memproxy.Event { return f.events[len(f.events)-1] }

func (r *rig) call(op memproxy.Operation) *gate.Call {
	return &gate.Call{
		Backend: gate.Backend{Name: "mem", Adapter: r.adapter, Fetch: r.fetch},
		Request: memproxy.Request{Method: "POST", EscapedPath: "/call"},
		Route:   memproxy.Route{ID: "fake.route", Kind: op.Kind}, Known: true, Body: []byte("body"),
	}
}

func wantCodes(t *testing.T, d memproxy.Decision, verdict memproxy.Verdict, codes ...memproxy.ReasonCode) {
	t.Helper()
	expect.Equal(t, d.Verdict, verdict, "verdict", d.Recorded())
	var got []memproxy.ReasonCode
	for _, r := range d.Recorded() {
		got = append(got, r.Code)
	}
	expect.Equal(t, fmt.Sprint(got), fmt.Sprint(codes), "reasons", got, codes)
}
