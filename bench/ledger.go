package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/panel"
)

// The aims of the ledger.
const (
	aimPoint = 100 * time.Microsecond
	aimRead  = 2 * time.Millisecond
	pageSize = 50
)

// fillBatch is how many memories one transaction of the filling takes.
const fillBatch = 2000

// noRecords stands for the audit log: what is measured is the ledger.
type noRecords struct{}

func (noRecords) Record(context.Context, memproxy.Event) error { return nil }
func (noRecords) RecordAsync(memproxy.Event) error             { return nil }

// benchLedger fills a ledger and measures what a check of one memory and of a
// page of them costs, by the ledger alone and on the way of a read.
func benchLedger(ctx context.Context, memories int, length time.Duration, report string) error {
	dir, err := os.MkdirTemp("", "memproxy-bench-ledger-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.db")
	began := time.Now()
	if err := fill(ctx, path, memories); err != nil {
		return err
	}
	filled := time.Since(began)
	size, err := os.Stat(path)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d memories, each with an owner and a state, filled in %.0f s, %.0f MiB of SQLite; %s, %d cores.\n\n",
		memories, filled.Seconds(), float64(size.Size())/(1<<20), runtime.Version(), runtime.NumCPU())
	b.WriteString("| | p50 µs | p99 µs | aim | |\n|---|--:|--:|--:|---|\n")
	for _, m := range []struct {
		name  string
		cache int
		ids   func() []string
		gated bool
		seen  bool // their metadata was compared before
		aim   time.Duration
	}{
		{"owner and state of one memory, hot", 0, func() []string { return []string{idOf(7)} }, false, false, aimPoint},
		{"owner and state of one memory, from the disk's pages", -1, func() []string { return anyOf(1, memories) }, false, false, aimPoint},
		{"owners and states of 50 memories, hot", 0, func() []string { return first(pageSize) }, false, false, aimRead},
		{"owners and states of 50 memories, from the disk's pages", -1, func() []string { return anyOf(pageSize, memories) }, false, false, aimRead},
		{"a read of one memory through the gate, whole, cold", -1, func() []string { return anyOf(1, memories) }, true, true, aimRead},
		{"a read of 50 memories through the gate, whole, hot", 0, func() []string { return first(pageSize) }, true, true, aimRead},
		{"a read of 50 memories through the gate, whole, cold", -1, func() []string { return anyOf(pageSize, memories) }, true, true, aimRead},
		{"the same, the first after their writes, which is noted for each", -1, func() []string { return anyOf(pageSize, memories) }, true, false, aimRead},
	} {
		took, err := measureLedger(ctx, path, m.cache, length, m.ids, m.gated, m.seen)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		p50, p99 := took[len(took)/2], took[min(len(took)-1, int(math.Ceil(float64(len(took))*0.99)))]
		word := "met"
		if p50 > m.aim {
			word = "**not met**"
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %s |\n", m.name, us(p50), us(p99), us(m.aim), word)
	}
	return publish(b.String(), report)
}

// idOf is an id as backends make them: random, so that neighbours in time are
// not neighbours in the index.
func idOf(n int) string {
	x := uint64(n+1) * 0x9e3779b97f4a7c15
	x ^= x >> 31
	y := x * 0xbf58476d1ce4e5b9
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", uint32(x), uint16(x>>32), uint16(x>>48)&0xfff, uint16(y)&0xfff, y>>16)
}

func first(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = idOf(i)
	}
	return out
}

func anyOf(n, of int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = idOf(mrand.IntN(of))
	}
	return out
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func textOf(id string) string {
	return "the memory " + id + " says something of ordinary length about tea"
}

// fill writes memories as the gate would have left them.
func fill(ctx context.Context, path string, memories int) error {
	l, err := ledger.Open(ledger.Options{Path: path, CacheSize: -1, Timeout: time.Minute})
	if err != nil {
		return err
	}
	begun := time.Now()
	for at := 0; at < memories && err == nil; at += fillBatch {
		n := min(fillBatch, memories-at)
		rows, states := make([]memproxy.Ownership, n), make([]memproxy.StateChange, n)
		for i := range n {
			id := idOf(at + i)
			rows[i] = memproxy.Ownership{
				Backend: "mem0", Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: "acme", User: fmt.Sprint("user-", i%1000), Agent: "dev"},
				Actor: "agent:dev", Trust: memproxy.TrustAuthenticated, Confidence: 700, Source: memproxy.SourceUnstated,
				Decision: "d-" + id, SHA256: hashOf(textOf(id)), Written: begun,
			}
			states[i] = memproxy.StateChange{
				MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}, Tenant: "acme", State: memproxy.StateValidated,
				Decision: rows[i].Decision, Attestation: memproxy.SelfReported, Reason: "nothing was found in it", Rules: "bench",
			}
		}
		if err = l.Commit(ctx, memproxy.Entry{Queued: true, Owners: rows}); err == nil {
			_, err = l.SetState(ctx, states...)
		}
	}
	return errors.Join(err, l.Close())
}

// measureLedger times one kind of check.
func measureLedger(ctx context.Context, path string, cache int, length time.Duration, ids func() []string, gated, seen bool) ([]time.Duration, error) {
	l, err := ledger.Open(ledger.Options{Path: path, CacheSize: cache})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	check := func(ids []string) (time.Duration, error) {
		start := time.Now()
		records, err := ledger.ByID(ctx, l, "mem0", memproxy.TargetMemory, ids...)
		if err == nil && len(records) == 0 {
			err = errors.New("nothing was found")
		}
		return time.Since(start), err
	}
	if gated {
		return measureReads(ctx, l, length, ids, seen)
	}
	var took []time.Duration
	for end := time.Now().Add(length); len(took) < 200 || time.Now().Before(end); {
		d, err := check(ids())
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	return took, nil
}

// maxReads bounds the answers that are made before they are read.
const maxReads = 1000

// measureReads times reads of lists. The answers are made before, so that what
// they leave to the garbage collector is not counted, which is set as memproxy
// sets it.
func measureReads(ctx context.Context, l *ledger.Ledger, length time.Duration, ids func() []string, seen bool) ([]time.Duration, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	answer, read, err := reading(l)
	if err != nil {
		return nil, err
	}
	var answers [][]byte
	var counts []int
	for range maxReads {
		list := ids()
		body, err := answer(ctx, list)
		if err != nil {
			return nil, err
		}
		answers, counts = append(answers, body), append(counts, len(list))
		if !seen {
			continue
		}
		if _, err := read(ctx, body, len(list)); err != nil {
			return nil, err
		}
	}
	runtime.GC()
	var took []time.Duration
	for end := time.Now().Add(length); len(took) < maxReads && (len(took) < 200 || time.Now().Before(end)); {
		d, err := read(ctx, answers[len(took)], counts[len(took)])
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	return took, nil
}

// reading is a list that a gate admits and filters, with everything real but
// the audit log's disk: what memproxy adds to a read besides HTTP.
func reading(l *ledger.Ledger) (answer func(context.Context, []string) ([]byte, error), read func(context.Context, []byte, int) (time.Duration, error), err error) {
	adapter, err := mem0.New(mem0.Options{})
	if err != nil {
		return nil, nil, err
	}
	rules, err := cedar.Compile(policy.Builtin())
	if err != nil {
		return nil, nil, err
	}
	base, err := screen.New(screen.Options{Pack: screen.Default(), Sensitivity: "medium"})
	if err != nil {
		return nil, nil, err
	}
	screener, err := panel.New(panel.Options{Base: base, Secrets: true, Clock: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	all := memproxy.Limit{All: true}
	callers, err := identity.New(identity.Options{Keys: []identity.Key{{SHA256: config.Sum(benchKeyHash), Principal: memproxy.Principal{
		ID: "agent:dev", Kind: memproxy.KindAgent, Tenant: "acme", Trust: memproxy.TrustAuthenticated, ActsAs: all, Users: all, Apps: all, Runs: all,
	}}}})
	if err != nil {
		return nil, nil, err
	}
	counts, err := budgets.NewMemory("")
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "memproxy-bench-keys-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	stamps, err := keys.LoadOrCreate(dir)
	if err != nil {
		return nil, nil, err
	}
	signer, err := keys.NewSigner(stamps)
	if err != nil {
		return nil, nil, err
	}
	decision := "01a1fcff-e2ef-79a4-a087-adbeaa5b63b2"
	g, err := gate.New(gate.Options{
		Identifier: callers, Ledger: l, Budget: counts, Recorder: noRecords{}, Signer: signer,
		Clock: time.Now, NewID: func() string { return decision },
	}, &gate.Rules{
		Version: "bench", Profile: gate.Production, Policy: rules, Ceilings: memproxy.DefaultCeilings(), Enforce: true,
		Unattributed: access.Visible, Screener: screener, Withhold: 800, Changed: gate.ChangedReport,
		Lines: func(memproxy.Principal, memproxy.Kind, string, []string) []memproxy.Line { return nil },
	})
	if err != nil {
		return nil, nil, err
	}
	req := memproxy.Request{
		Method: "GET", EscapedPath: "/memories", Query: "user_id=ann",
		Header: memproxy.Header{"X-Api-Key": {"m0sk_bench"}},
	}
	route, known := adapter.Route(req)
	// metadata is what a write of the memory puts next to it, with its stamp. Its
	// text is another, so that no screening of the read is remembered from it.
	add := req
	add.Method, add.Query = "POST", ""
	addRoute, _ := adapter.Route(add)
	metadata := func(ctx context.Context, id string) (json.RawMessage, error) {
		defer func(was string) { decision = was }(decision)
		decision = "d-" + id
		a := g.Admit(ctx, &gate.Call{
			Backend: gate.Backend{Name: "mem0", Adapter: adapter}, Request: add, Route: addRoute, Known: true, Credentials: memproxy.Credentials{Header: req.Header},
			Body: []byte(`{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"x"}],"metadata":{"about":"work","page":3,"confidence":0.7}}`),
		})
		var sent struct{ Metadata json.RawMessage }
		if err := json.Unmarshal(a.Body, &sent); err != nil || a.Reply != nil {
			return nil, fmt.Errorf("not admitted: %+v %w", a.Decision, err)
		}
		return sent.Metadata, nil
	}
	answer = func(ctx context.Context, ids []string) ([]byte, error) {
		body := []byte(`{"results":[`)
		for i, id := range ids {
			if i > 0 {
				body = append(body, ',')
			}
			meta, err := metadata(ctx, id)
			if err != nil {
				return nil, err
			}
			body = fmt.Appendf(body, `{"id":%q,"memory":%q,"user_id":"ann","metadata":%s,"created_at":"2026-03-01T12:00:00+00:00"}`, id, textOf(id), meta)
		}
		return append(body, "]}"...), nil
	}
	read = func(ctx context.Context, body []byte, n int) (time.Duration, error) {
		start := time.Now()
		a := g.Admit(ctx, &gate.Call{
			Backend: gate.Backend{Name: "mem0", Adapter: adapter}, Request: req, Route: route, Known: known,
			Credentials: memproxy.Credentials{Header: req.Header},
		})
		if a.Reply != nil {
			return 0, fmt.Errorf("not admitted: %+v", a.Decision)
		}
		got := g.Return(ctx, a, memproxy.Reply{Status: 200, Body: body})
		took := time.Since(start)
		if len(a.Unverified) > 0 {
			return 0, fmt.Errorf("accused: %v", a.Unverified)
		}
		if got.Status != 200 || strings.Count(string(got.Body), `"memory"`) != n {
			return 0, fmt.Errorf("%d: %.200s", got.Status, got.Body)
		}
		return took, nil
	}
	return answer, read, nil
}
