package app

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves TRL-3, CARD-5, EDGE-13: explain lists the locks that apply to a write, with
// their state in the ledger of a running sidecar, and the filters for an answer.
func TestExplainShowsLocksAndFilters(t *testing.T) {
	t.Parallel()
	r := start(t, strings.Replace(plain, "log: {level: info}", "sessions: {max_rejections: 2}\nlog: {level: info}", 1))
	bad := `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"x"}]}`
	for range 3 {
		r.do("POST", "/memories", bad, "X-Memproxy-Session", "one").want(t, 403)
	}
	good := `{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"x"}]}`
	path, body := writeFile(t, filepath.Join(t.TempDir(), "memproxy.yaml"), r.conf), writeFile(t, filepath.Join(t.TempDir(), "body.json"), bad)
	args := []string{"explain", "--config", path, "--method", "POST", "--path", "/memories", "--body", body, "--as", "agent:dev"}
	ring.Until(r.t, "the lock", func() bool {
		_, out, _ := invoke(t, append(args, "--session", "one")...)
		return strings.Contains(out, "locked until")
	})
	var ex struct {
		Verdict string
		Locks   []struct {
			ID, Kind string
			Until    string `json:"locked_until"`
		}
		Filters []gate.Filter
	}
	ask := func(more ...string) {
		t.Helper()
		ex.Locks, ex.Filters = nil, nil
		code, out, errs := invoke(t, append(append(args, "--json"), more...)...)
		if err := json.Unmarshal([]byte(out), &ex); err != nil || code != 0 && code != 3 {
			t.Fatalf("exit %d, %v: %s %s", code, err, out, errs)
		}
	}
	ask("--session", "one")
	locked := 0
	for _, l := range ex.Locks {
		if l.Until != "" {
			locked++
		}
	}
	if len(ex.Locks) != 3 || locked != 1 {
		t.Errorf("%+v", ex.Locks)
	}
	if len(ex.Filters) != len(gate.Filters()) || ex.Filters[1].Name != "readable" || ex.Filters[1].What == "" {
		t.Errorf("%+v", ex.Filters)
	}
	writeFile(t, body, good)
	ask("--session", "another")
	for _, l := range ex.Locks {
		if l.Until != "" {
			t.Errorf("another session is locked: %+v", ex.Locks)
		}
	}
	_, out, _ := invoke(t, "explain", "--config", path, "--path", "/docs", "--as", "agent:dev")
	if !strings.Contains(out, "passed on unread") || strings.Contains(out, "\nlock ") {
		t.Errorf("%s", out)
	}
}
