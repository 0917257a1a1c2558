package review

import "testing"

// Proves MFW-9: of what is counted only what failed is a fault; what was
// offered to an exporter and waits is none.
func TestStatusCounts(t *testing.T) {
	var st Status
	st.count(`# TYPE memproxy_decisions_total counter
memproxy_decisions_total{backend="a",kind="learn",reason="",verdict="allow",would="allow"} 7
memproxy_decisions_total{backend="a",kind="learn",reason="field.forbidden",verdict="deny",would="deny"} 2
memproxy_decisions_total{backend="b",kind="learn",reason="field.forbidden",verdict="deny",would="deny"} 1
memproxy_telemetry_exports_total{result="offered",signal="spans"} 40
memproxy_telemetry_exports_total{result="ok",signal="spans"} 30
memproxy_telemetry_exports_total{result="failed",signal="spans"} 3
memproxy_reloads_total{result="ok"} 5
memproxy_reloads_total{result="refused"} 1
memproxy_ledger_errors_total 2
memproxy_audit_lag_records{state="queued"} 4
memproxy_rules_info{version="r\"1"} 1
something_else{a="b"} 9
not a sample
`)
	if st.Decisions["allow"] != 7 || st.Decisions["deny"] != 3 || len(st.Reasons) != 1 || st.Reasons["field.forbidden"] != 3 || st.Lag["queued"] != 4 || st.Rules != `r\"1` {
		t.Errorf("%+v", st)
	}
	want := map[string]int64{"telemetry_exports failed": 3, "reloads refused": 1, "ledger": 2}
	if len(st.Faults) != len(want) {
		t.Errorf("faults %v, want %v", st.Faults, want)
	}
	for what, n := range want {
		if st.Faults[what] != n {
			t.Errorf("%s: %d, want %d", what, st.Faults[what], n)
		}
	}
	if got := tally(map[string]int64{"a": 1, "b": 3, "c": 2, "d": 0}, 2); got != "b 3, c 2" {
		t.Errorf("%q", got)
	}
}
