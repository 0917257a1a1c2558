package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/wait"
)

// Proves EDGE-3, EDGE-13: a name that backends cut down to another one (gate/limits) is
// refused in writes and reads, wherever it stands.
func TestNamesThatAreCutAreRefused(t *testing.T) {
	for name, status := range map[string]int{"ann ": 400, "ann of sales": 0} {
		for _, kind := range []memproxy.Kind{memproxy.Learn, memproxy.Recall, memproxy.Forget} {
			op := memproxy.Operation{Kind: kind, Claims: []memproxy.Claim{pinned(memproxy.DimUser, "bob"), claim(memproxy.DimUser, memproxy.ClaimExclude, "x", name)}}
			a := newRig(t, nil).admit(op)
			expect.That(t, a.Decision.Status == status, "%q, %s: %+v", name, kind, a.Decision)
		}
	}
}

// refusalBound is what an answer and its record may come to together, in bytes.
const refusalBound = 64<<10 - 2<<10 // the rest is the log line: codes, and headers

// Proves EDGE-14: what a refusal costs in answers and records is bounded,
// whatever was sent.
func TestRefusalsAreBounded(t *testing.T) {
	long := strings.Repeat("\x00<\"", 20<<10)
	claims := func(n int, v string) (out []memproxy.Claim) {
		for i := range n {
			out = append(out, memproxy.Claim{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{v}, Pointer: fmt.Sprintf("/filters/%d/%s", i, long[:100])})
		}
		return out
	}
	ids := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("m%d-%s", i, strings.Repeat("\n", 900)))
		}
		return out
	}
	items := func(n int) (out []memproxy.Item) {
		for i := range n {
			out = append(out, memproxy.Item{Kind: memproxy.ItemContent, Field: fmt.Sprintf("%d%s", i, long[:1000]), Pointer: long})
		}
		return out
	}
	for name, c := range map[string]struct {
		op     memproxy.Operation
		status int
		code   memproxy.ReasonCode
	}{
		"45,000 bad claims":      {memproxy.Operation{Kind: memproxy.Recall, Claims: claims(45_000, "bob")}, 413, memproxy.PayloadTooMany},
		"2,000 bad claims":       {memproxy.Operation{Kind: memproxy.Recall, Claims: claims(2_000, "bob")}, 403, memproxy.IdentityUser},
		"a name of 60 kB":        {memproxy.Operation{Kind: memproxy.Recall, Claims: claims(1, long)}, 413, memproxy.PayloadTooMany},
		"15,000 ids":             {memproxy.Operation{Kind: memproxy.Forget, TargetKind: memproxy.TargetMemory, Targets: ids(15_000)}, 413, memproxy.PayloadTooMany},
		"1,000 long ids":         {memproxy.Operation{Kind: memproxy.Forget, TargetKind: memproxy.TargetMemory, Targets: ids(1_000), Claims: claims(1, "bob")}, 403, memproxy.IdentityUser},
		"30,000 long fields":     {memproxy.Operation{Kind: memproxy.Learn, Items: items(30_000), Claims: claims(1, "bob")}, 403, memproxy.IdentityUser},
		"a scope of 20 kB names": {memproxy.Operation{Kind: memproxy.Learn, Scope: memproxy.Scope{User: long, Agent: long, App: long, Run: long}, Claims: claims(1, "bob")}, 403, memproxy.IdentityUser},
	} {
		r := newRig(t, func(r *rig) { r.who.Users = only("ann") })
		call := r.decodes(c.op)
		call.Request.Method = long
		a := r.gate.Admit(t.Context(), call)
		if a.Reply == nil || a.Reply.Status != c.status {
			t.Errorf("%s: %+v", name, a.Reply)
			continue
		}
		wantCodesOnly(t, name, a.Decision.Reasons, c.code)
		record := must.Get(json.Marshal(r.recorder.last()))(t)
		n := len(a.Reply.Body) + len(record)
		expect.That(t, n <= refusalBound, "%s: an answer of %d bytes and a record of %d", name, len(a.Reply.Body), len(record))
	}
}

// wantCodesOnly holds reasons to a handful of one code.
func wantCodesOnly(t *testing.T, name string, rs []memproxy.Reason, code memproxy.ReasonCode) {
	t.Helper()
	expect.That(t, len(rs) > 0 && len(rs) <= 32, "%s: %d reasons", name, len(rs))
	for _, r := range rs {
		expect.Equal(t, r.Code, code, name, r)
	}
}

// Proves EDGE-14: one request makes a bounded number of side requests, about its targets
// or what it merely refers to. A batch as large as SDKs send works, because the ledger
// knows whose its memories are.
func TestSideRequestsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		ids    int
		known  int
		listed int // of the unknown ones, those that the backend held when it was sealed
		merges bool
		refers bool
		status int // of the refusal, 0 for none
		asked  int
	}{
		"64 unknown ids":                        {ids: 64, asked: 64},
		"65 unknown ids":                        {ids: 65, status: 422},
		"15,000 ids":                            {ids: 15_000, status: 413},
		"a batch of 1,000":                      {ids: 1000, known: 1000},
		"a batch of 1,000, a few unknown":       {ids: 1000, known: 990, asked: 10},
		"an update of 1,000, which is merged":   {ids: 1000, known: 1000, merges: true, asked: 1000},
		"a merged update of unknown ids":        {ids: 1000, known: 900, merges: true, status: 422},
		"a batch of 1,000 from before memproxy": {ids: 1000, listed: 1000, asked: 1000},
		"some of them came behind memproxy":     {ids: 1000, listed: 935, status: 422},
		"64 references":                         {ids: 64, refers: true, asked: 64},
		"65 references":                         {ids: 65, refers: true, status: 422},
	} {
		r := newRig(t, nil)
		r.fake.merges, r.fake.located, r.ledger.listed = c.merges, map[string]memproxy.Memory{}, map[string]struct{}{}
		op := memproxy.Operation{Kind: memproxy.Forget, TargetKind: memproxy.TargetMemory}
		if c.refers {
			op = memproxy.Operation{Kind: memproxy.Recall}
		}
		for i := range c.ids {
			id := fmt.Sprintf("m%d", i)
			r.fake.located[id] = memproxy.Memory{ID: id, Scope: memproxy.Scope{User: "ann", Agent: "dev", Tenant: "acme"}}
			if i < c.known {
				row := owned(id, "acme", "dev")
				row.Actor = "agent:dev"
				r.ledger.rows[id] = row
			} else if i < c.known+c.listed {
				r.ledger.listed[id] = struct{}{}
			}
			if c.refers {
				op.Refs = append(op.Refs, memproxy.Ref{Kind: memproxy.TargetMemory, ID: id, Pointer: "/block_ids/0"})
			} else {
				op.Targets = append(op.Targets, id)
			}
		}
		call := r.decodes(op)
		call.Request.Method = "DELETE"
		a := r.gate.Admit(t.Context(), call)
		expect.Equal(t, a.Decision.Status, c.status, name, a.Decision.Reasons)
		expect.Len(t, r.fetch.asked, c.asked, name, a.Decision.Reasons)
		if c.status == 422 {
			wantCodesOnly(t, name, a.Decision.Reasons, memproxy.LimitSideRequests)
		}
	}
}

// slowFetch answers side requests after a while.
type slowFetch struct {
	backend.Fetcher
	takes time.Duration
}

func (f slowFetch) Fetch(ctx context.Context, _ memproxy.Request) (memproxy.Reply, error) {
	return memproxy.Reply{Status: 200}, wait.Sleep(ctx, f.takes)
}

// Proves EDGE-14: a batch as large as SDKs send works with a backend as slow as those
// across the Internet, and one that hangs costs it one deadline.
func TestLargeBatchesOnSlowBackends(t *testing.T) {
	for takes, status := range map[time.Duration]int{200 * time.Millisecond: 0, time.Hour: 503} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			r.fake.merges, r.fake.located = true, map[string]memproxy.Memory{}
			op := memproxy.Operation{Kind: memproxy.Forget, TargetKind: memproxy.TargetMemory}
			for i := range 1000 {
				id := fmt.Sprintf("m%d", i)
				r.fake.located[id] = memproxy.Memory{ID: id, Scope: memproxy.Scope{User: "ann", Agent: "dev", Tenant: "acme"}}
				r.ledger.rows[id] = owned(id, "acme", "dev")
				op.Targets = append(op.Targets, id)
			}
			call := r.decodes(op)
			call.Backend.Fetch = slowFetch{call.Backend.Fetch, takes}
			began := time.Now()
			a := r.gate.Admit(t.Context(), call)
			expect.Equal(t, a.Decision.Status, status, takes, a.Decision.Reasons)
			took := time.Since(began)
			expect.That(t, status == 0 || took == gate.DefaultFetchTimeout, "a backend that hangs costs %v", took)
		})
	}
}

// Proves EDGE-14, CARD-7: a flood of rejections costs a bounded number of
// records; how many more there were is recorded. Callers that are identified
// are not taken for those who are not, and refusals by policy are recorded each.
func TestFloodsOfRejections(t *testing.T) {
	now := noon
	r := newRig(t, func(r *rig) {
		r.clock = func() time.Time { return now }
		r.rejections = 5
		r.who.Users = only("ann")
		r.identify = func(_ context.Context, c memproxy.Credentials) (memproxy.Principal, error) { return r.byKey(c) }
	})
	admit := func(peer, key string, op memproxy.Operation) *gate.Admission {
		call := r.decodes(op)
		call.Credentials = memproxy.Credentials{Header: memproxy.Header{}, Peer: peer}
		if key != "" {
			call.Credentials.Header.Set("Authorization", key)
		}
		return r.gate.Admit(t.Context(), call)
	}
	read := memproxy.Operation{Kind: memproxy.Recall}
	for i := range 1000 {
		a := admit("10.0.0.1", "", read)
		want := map[bool]int{false: 401, true: 429}[i >= 5]
		must.That(t, a.Reply != nil && a.Reply.Status == want && a.RateLimited == (i >= 5), "rejection %d: %+v", i, a.Reply)
	}
	must.Equal(t, len(r.recorder.events), 5)
	if a := admit("10.0.0.1", "key", read); a.Reply != nil {
		t.Errorf("a caller at the same address is refused: %+v", a.Reply)
	}
	foreign := memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{"bob"}}}}
	before := len(r.recorder.events)
	for range 20 {
		a := admit("10.0.0.1", "key", foreign)
		must.That(t, a.Reply.Status == 403, "%v", a.Reply)
	}
	expect.Equal(t, len(r.recorder.events)-before, 20)
	now = now.Add(30 * time.Second)
	r.gate.SummariseRejections(t.Context())
	last := r.recorder.last()
	expect.That(t, last.Type == memproxy.EventRejections && last.Items == 995 && strings.Contains(last.Detail, "995 more rejections of 10.0.0.1 since 2026-03-14T12:00:00Z"), "%+v", last)
	n := len(r.recorder.events)
	r.gate.SummariseRejections(t.Context())
	expect.Len(t, r.recorder.events, n, "a summary of nothing")
	// However many addresses there are (gate/flood), one summary of those beyond 32.
	for i := range 5000 {
		admit(fmt.Sprint("10.1.0.", i), "", read)
	}
	r.gate.SummariseRejections(t.Context())
	n = len(r.recorder.events)
	expect.That(t, n <= 200, "%d records", n)
}

// Proves EDGE-14: who calls is known before a body is read, and asked once.
func TestCallersAreIdentifiedFirst(t *testing.T) {
	asked := 0
	r := newRig(t, func(r *rig) {
		r.identify = func(_ context.Context, c memproxy.Credentials) (memproxy.Principal, error) {
			asked++
			return r.byKey(c)
		}
	})
	call := r.decodes(memproxy.Operation{Kind: memproxy.Recall})
	expect.That(t, !r.gate.Identify(t.Context(), call), "nobody is somebody")
	a := r.gate.Admit(t.Context(), call)
	expect.That(t, a.Reply != nil && a.Reply.Status == 401 && asked == 1, "%+v after %d questions", a.Reply, asked)
	call = r.decodes(memproxy.Operation{Kind: memproxy.Recall})
	call.Credentials.Header = memproxy.Header{"Authorization": {"key"}}
	expect.That(t, r.gate.Identify(t.Context(), call), "a known caller is nobody")
	a = r.gate.Admit(t.Context(), call)
	expect.That(t, a.Reply == nil && asked == 2, "%+v after %d questions", a.Reply, asked)
}

// byKey is the caller of the rig for a request with a key.
func (r *rig) byKey(c memproxy.Credentials) (memproxy.Principal, error) {
	if c.Header.Get("Authorization") == "" {
		return memproxy.Principal{}, &memproxy.CredentialError{Code: memproxy.IdentityMissing}
	}
	return r.who, nil
}

// decodes is a call whose payload is an operation.
func (r *rig) decodes(op memproxy.Operation) *gate.Call {
	r.fake.op = op
	return r.call(op)
}
