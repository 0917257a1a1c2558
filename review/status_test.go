package review_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
)

// Proves MFW-9: only failures count as faults, not exports that are still waiting. The
// most frequent reasons are shown.
func TestStatusCounts(t *testing.T) {
	answers := map[string]string{"/readyz": `{"status":"ready"}`, "/v1/holds": `{"holds":[]}`, "/v1/sessions": `{"sessions":[]}`, "/metrics": `# TYPE memproxy_decisions_total counter
memproxy_decisions_total{backend="a",kind="learn",reason="",verdict="allow",would="allow"} 7
memproxy_decisions_total{backend="a",kind="learn",reason="field.forbidden",verdict="deny",would="deny"} 2
memproxy_decisions_total{backend="b",kind="learn",reason="field.forbidden",verdict="deny",would="deny"} 1
memproxy_decisions_total{backend="b",kind="learn",reason="screen.risk",verdict="allow",would="deny"} 5
memproxy_telemetry_exports_total{result="offered",signal="spans"} 40
memproxy_telemetry_exports_total{result="ok",signal="spans"} 30
memproxy_telemetry_exports_total{result="failed",signal="spans"} 3
memproxy_reloads_total{result="ok"} 5
memproxy_reloads_total{result="refused"} 1
memproxy_ledger_errors_total 2
memproxy_unscreened_total{layer="judge",result="failed"} 6
memproxy_unscreened_total{layer="judge",result="refused"} 0
memproxy_audit_lag_records{state="queued"} 4
memproxy_rules_info{version="r\"1"} 1
something_else{a="b"} 9
not a sample
`}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, answers[r.URL.Path]) }))
	defer server.Close()
	code, out, errs := ran(t, time.Now, "token", server.URL, "status --json")
	var st review.Status
	must.Do(t, json.Unmarshal([]byte(out), &st), out, errs)
	must.Equal(t, code, cli.OK, out, errs)
	if st.Decisions["allow"] != 12 || len(st.Shadow) != 1 || st.Shadow["screen.risk"] != 5 || st.Decisions["deny"] != 3 || len(st.Reasons) != 1 || st.Reasons["field.forbidden"] != 3 || st.Lag["queued"] != 4 || st.Rules != `r\"1` {
		t.Errorf("%+v", st)
	}
	expect.Map(t, st.Faults, map[string]int64{"telemetry_exports failed": 3, "reloads refused": 1, "ledger": 2, "judge failed": 6}, "faults")
	for i := range 10 {
		answers["/metrics"] += fmt.Sprintf("memproxy_decisions_total{reason=\"r%d\",verdict=\"hold\"} %d\n", i, i)
	}
	if _, out, _ = ran(t, time.Now, "token", server.URL, "status"); !strings.Contains(out, "r9 9, r8 8, r7 7, r6 6, r5 5, r4 4, field.forbidden 3, r3 3\n") || !strings.Contains(out, "would have been for") || !strings.Contains(out, "faults since its start") {
		t.Errorf("%s", out)
	}
}
