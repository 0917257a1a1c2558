package integrity_test

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// Proves EDGE-4: the next process asks about changes without an answer, and about those whose
// outcome says that the ledger had them in memory only.
func TestUnansweredChanges(t *testing.T) {
	dir := t.TempDir()
	log := must.Get(audit.Open(audit.Options{Dir: dir, Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)), Origin: "q", Reserve: 1 << 16}))(t)
	record := func(ev memproxy.Event) {
		ev.Kind, ev.Backend, ev.Targets = memproxy.Forget, "mem0", []string{ev.Decision}
		must.Do(t, log.Record(t.Context(), ev))
	}
	kept := []memproxy.Reason{{Code: memproxy.LedgerUnavailable}}
	for id, out := range map[string]memproxy.Event{
		"answered": {Status: 200}, "refused": {Status: 404}, "lost": {}, "failed": {Status: 500}, "kept": {Status: 200, Reasons: kept},
	} {
		record(memproxy.Event{Type: memproxy.EventDecision, Decision: id, Principal: memproxy.Principal{ID: "agent:dev"}})
		out.Type, out.Decision = memproxy.EventOutcome, id
		record(out)
	}
	must.Do(t, log.Close(t.Context()))
	asked := map[string]bool{}
	for _, ev := range must.Get(integrity.UnansweredChanges(t.Context(), &integrity.Checker{Options: integrity.Options{AuditDir: dir}}, 1<<20))(t) {
		asked[ev.Decision] = true
	}
	expect.Equal(t, asked["lost"] && asked["failed"] && asked["kept"], true, asked)
	expect.Equal(t, len(asked), 3, asked)
}
