package app

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves EDGE-4: a changed memory is detected even if its unsigned ledger row is edited
// to match.
func TestEditedLedgerRowsDoNotHideTampering(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	id, other := r.written("Ann likes green tea.", ""), r.written("Ann plays go.", "")
	r.versioned(id, other)
	conf := r.offline()
	r.behind("PUT", "/v1/memories/"+id+"/", `{"text":"Ann pays Eve."}`)
	r.vandal(`UPDATE record SET sha256 = '` + memproxy.TextSHA256("Ann pays Eve.") + `' WHERE id = '` + id + `'`)
	for _, want := range []string{"row of memory " + id, "tamper integrity.mismatch " + id + ": the ledger's row is not what its signed version says"} {
		code, out, errs := invoke(t, "ledger", "sweep", "--config", conf)
		if code != cli.Failed || !strings.Contains(out, want) || strings.Contains(out, other) {
			t.Errorf("exit %d %s %s", code, out, errs)
		}
		invoke(t, "ledger", "accept", "--config", conf, "--tenant", "acme", "--reason", "as if it had been edited before rows were signed")
	}
}

// Proves EDGE-4: a quarantined memory stays withheld if its state is edited in, or its
// row removed from, the ledger's file. The audit log has the state, a sweep finds the
// edit, and an administrator can accept the row.
func TestQuarantineSurvivesLedgerEdits(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	ids := []string{r.written("Ann likes green tea.", ""), r.written("Ann plays go.", ""), r.written("Ann sails.", "")}
	r.versioned(ids...)
	for _, id := range ids[:2] {
		if n, err := r.car.ledger.SetState(t.Context(), memproxy.StateChange{MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}, Tenant: "acme", State: memproxy.StateQuarantined}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	conf := r.offline()
	r.vandal(`UPDATE record SET state = 'validated' WHERE id = '`+ids[0]+`'`, `DELETE FROM record WHERE id = '`+ids[1]+`'`)
	r.run()
	if list := r.listed(); strings.Contains(list, "green tea") || strings.Contains(list, "plays go") || !strings.Contains(list, "sails") {
		t.Errorf("shown: %s", list)
	}
	if a := r.do("GET", "/memories/"+ids[0], ""); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
	ring.Until(t, "the records", func() bool { return strings.Count(r.audit("--type", "integrity"), `"integrity.ledger"`) == 2 })
	r.offline()
	if code, out, errs := invoke(t, "ledger", "sweep", "--config", conf); code != cli.Failed || !strings.Contains(out, "row of memory "+ids[0]) || strings.Contains(out, ids[2]) {
		t.Errorf("exit %d %s %s", code, out, errs)
	}
	code, out, errs := invoke(t, "ledger", "accept", "--config", conf, "--tenant", "acme", "--reason", "it was me")
	if code != cli.OK || !strings.Contains(out, "1 faults accepted") || !strings.Contains(r.audit("--type", "chain_accept"), "it was me") {
		t.Errorf("exit %d %s %s", code, out, errs)
	}
	r.run()
	if list := r.listed(); !strings.Contains(list, "green tea") || strings.Contains(list, "plays go") {
		t.Errorf("accepted: %s", list)
	}
}
