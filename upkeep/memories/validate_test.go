package memories_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/upkeep"
	"github.com/memproxy/memproxy/upkeep/memories"
)

// fails is a screener that fails for some texts.
type fails struct{ gate.Screener }

func (fails) Screen(_ context.Context, s memproxy.Screening) ([]memproxy.Finding, error) {
	if strings.Contains(s.Operation.Items[0].Text, "fails") {
		return nil, errors.New("not screened")
	}
	return nil, nil
}

// Proves DOL-3: a memory that cannot be judged, in every round, delays no others.
func TestMemoriesThatCannotBeJudgedDelayNoOthers(t *testing.T) {
	l := must.Get(ledger.Open(ledger.Options{Clock: ledgertest.NewClock().Now, Vault: ledgertest.Vault(t), Timeout: ring.Limit}))(t)
	t.Cleanup(func() { _ = l.Close() })
	for id, state := range map[string]memproxy.MemoryState{"1": memproxy.StateUntrusted, "2": memproxy.StateUntrusted, "3": memproxy.StateFlagged} {
		text := map[string]string{"1": "fails", "2": "likes tea", "3": "has a cat"}[id]
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version(id, text)}}))
		must.Get(l.SetState(t.Context(), memproxy.StateChange{MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}, Tenant: "acme", State: state}))(t)
	}
	now := func() time.Time { return time.Unix(1e9, 0) }
	k := keeper(t, memories.Options{
		Ledger: l, Log: slog.New(slog.DiscardHandler), Rules: func() *gate.Rules { return &gate.Rules{Version: "r", Screener: fails{}} },
		Backend:    func(string) *proxy.BackendClient { return nil },
		ClockGuard: upkeep.NewClockGuard(now, func() time.Duration { return 0 }, func(context.Context, time.Duration) (time.Time, error) { return time.Time{}, nil }, slog.New(slog.DiscardHandler)),
	})
	expect.ErrorHas(t, once(t, k, "upkeep"), "not screened", "the first round")
	must.Do(t, once(t, k, "upkeep"))
	records := must.Get(ledger.ByID(t.Context(), l, "mem0", memproxy.TargetMemory, "1", "2", "3"))(t)
	for id, want := range map[string]memproxy.MemoryState{"1": memproxy.StateUntrusted, "2": memproxy.StateValidated, "3": memproxy.StateValidated} {
		expect.Equal(t, records[id].Status.State, want, "memory", id)
	}
}
