package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves EDGE-4, TRL-7, TRL-8: a chain break found while old versions are pruned is
// recorded, counted and logged once, without a sweep. Pruning of intact chains reports
// nothing.
func TestBreaksFoundByPruningAreReported(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]memproxy.FaultClass{"nothing": "", "tamper": memproxy.FaultTamper, "forge": memproxy.FaultForge, "delete-middle": memproxy.FaultDelete} {
		t.Run(name, func(t *testing.T) {
			r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
			id := r.written("Ann has a cat.", "")
			change := func(n int) {
				t.Helper()
				r.do("PUT", "/memories/"+id, fmt.Sprintf(`{"text":"Ann has %d cats."}`, n)).want(t, 200)
			}
			for n := range 9 {
				change(n + 2)
			}
			ring.Until(r.t, "ten versions", func() bool { return strings.Count(r.audit("--type", "version"), `"type":"version"`) == 10 })
			r.vandal(damage[name]...)
			for n := range 4 { // writing the third version prunes the second
				change(n + 20)
			}
			ring.Until(r.t, "fourteen versions", func() bool { return strings.Count(r.audit("--type", "version"), `"type":"version"`) == 14 })
			if want == "" {
				ring.Until(r.t, "texts given up", func() bool { return strings.Contains(r.audit("--type", "compaction"), `"before":3,`) })
				if out := r.audit("--type", "chain_break"); out != "" {
					t.Error(out)
				}
				return
			}
			detail := `"detail":"` + string(want) + ": "
			ring.Until(r.t, "the break is on record", func() bool { return strings.Contains(r.audit("--type", "chain_break"), detail) })
			ring.Until(r.t, "the break is counted", func() bool {
				return strings.Contains(r.metrics(t), `memproxy_audit_records_total{type="chain_break"} `) && !strings.Contains(r.metrics(t), `memproxy_audit_records_total{type="chain_break"} 0`)
			})
			if log := r.log.String(); !strings.Contains(log, "the chain of versions is broken") {
				t.Errorf("the program's log: %s", log)
			}
			known := r.audit("--type", "chain_break")
			change(30)
			if r.once("breaks", time.Now().Add(time.Hour)); r.audit("--type", "chain_break") != known {
				t.Error("named again")
			}
		})
	}
}
