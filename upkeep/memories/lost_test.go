package memories_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/upkeep"
	"github.com/memproxy/memproxy/upkeep/memories"
)

// keeper returns a Maintainer with an audit log that has no changes.
func keeper(t *testing.T, opt memories.Options) *memories.Maintainer {
	dir := t.TempDir()
	log := must.Get(audit.Open(audit.Options{Dir: dir, Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)), Origin: "q", Reserve: 1 << 16}))(t)
	t.Cleanup(func() { _ = log.Close(context.Background()) })
	opt.Config = new(config.Config)
	m, never := &opt.Config.Memories, new(config.Duration)
	m.Validate, m.UncorrectedFor, m.Archive, m.Deleted = never, never, never, never
	opt.Integrity = integrity.New(integrity.Options{Config: opt.Config, Audit: log, AuditDir: dir})
	return memories.New(opt)
}

// once runs a round of a job.
func once(t *testing.T, k *memories.Maintainer, name string) error {
	jobs := k.Jobs()
	return jobs[slices.IndexFunc(jobs, func(j upkeep.Job) bool { return j.Name == name })].Once(t.Context(), time.Now())
}

// Proves EDGE-4: while the ledger cannot be used, changes without an answer keep waiting,
// and no more than a few of them are tried in a round.
func TestChangesWaitForTheLedger(t *testing.T) {
	l := must.Get(ledger.Open(ledger.Options{Timeout: ring.Limit, Clock: time.Now}))(t)
	must.Do(t, l.Close())
	var tried []string
	u := &memories.Unconfirmed{Log: slog.New(slog.DiscardHandler)}
	k := keeper(t, memories.Options{
		Ledger: l, Log: slog.New(slog.DiscardHandler), Unconfirmed: u,
		Backend: func(name string) *proxy.BackendClient { tried = append(tried, name); return &proxy.BackendClient{} },
	})
	for i := range 8 {
		u.Add(memproxy.Event{Decision: "d", Kind: memproxy.Forget, Backend: fmt.Sprint(i), Targets: []string{"m"}})
	}
	for range 5 {
		expect.Error(t, once(t, k, "outcomes"), "no error")
	}
	expect.Equal(t, strings.Join(tried, ""), "01234567012345670123")
}

// Changes of many targets do not fill the memory.
func TestUnconfirmedChangesAreBounded(t *testing.T) {
	const most = 1 << 16
	var log bytes.Buffer
	u, many := &memories.Unconfirmed{Log: slog.New(slog.NewTextHandler(&log, nil))}, make([]string, most/2)
	left := func() int { return strings.Count(log.String(), "too many unanswered changes") }
	for range 3 {
		u.Add(memproxy.Event{Targets: many})
		u.Add(memproxy.Event{Targets: many[:1]})
	}
	expect.Equal(t, left(), 2, "not taken: two of three")
	k := keeper(t, memories.Options{Log: u.Log, Unconfirmed: u, Backend: func(string) *proxy.BackendClient { return nil }})
	must.Do(t, once(t, k, "outcomes"))
	u.Add(memproxy.Event{Targets: many})
	expect.Equal(t, left(), 2, "none is taken after the last was asked about")
}

// A backlog of any size expires in one round.
func TestABacklogExpiresInOneRound(t *testing.T) {
	now := time.Now()
	l := must.Get(ledger.Open(ledger.Options{Timeout: ring.Limit, Clock: func() time.Time { return now }}))(t)
	t.Cleanup(func() { _ = l.Close() })
	var all memproxy.Entry
	for i := range 501 {
		all.States = append(all.States, memproxy.StateChange{
			MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: fmt.Sprint(i)}, Tenant: "acme", State: memproxy.StateValidated, Expires: now.Add(-time.Hour),
		})
	}
	must.Do(t, l.Commit(t.Context(), all))
	k := keeper(t, memories.Options{
		Ledger: l, Log: slog.New(slog.DiscardHandler), Rules: func() *gate.Rules { return new(gate.Rules) },
		ClockGuard: upkeep.NewClockGuard(func() time.Time { return now }, func() time.Duration { return 1000 * time.Hour }, nil, slog.New(slog.DiscardHandler)),
	})
	must.Do(t, once(t, k, "upkeep"))
	expect.Len(t, must.Get(l.Upkeep.Expire(t.Context(), now))(t), 0, "left")
}
