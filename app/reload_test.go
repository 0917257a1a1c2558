package app

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// writeBundle writes a policy next to the built-in ones, by rename as deployment tools
// do.
func writeBundle(t *testing.T, dir, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o755))
	tmp := filepath.Join(dir, ".own.cedar.tmp")
	must.Do(t, os.WriteFile(tmp, []byte(text), 0o644))
	must.Do(t, os.Rename(tmp, filepath.Join(dir, "own.cedar")))
}

const (
	harmless = `@id("own.none") forbid (principal, action, resource) when { false };`
	closed   = `@id("own.closed") @detail("closed today") forbid (principal, action == Action::"learn", resource);`
	broken   = "// a comment\n@id(\"own.broken\") forbid (principal, action, resource) when { context.nothing };\n"
)

// Proves CARD-3: an edit takes effect without a dropped request or one decided by two
// versions. A broken edit keeps the last good rules and is reported with file and line
// on /readyz, in the metrics and in the audit log.
func TestPoliciesReload(t *testing.T) {
	t.Parallel()
	bundle := filepath.Join(t.TempDir(), "policies")
	writeBundle(t, bundle, harmless)
	r := start(t, plain, "log: {level: info}", "log: {level: warn}\npolicy: {dir: \""+bundle+"\", poll: 10ms}\nbudgets: {default: {writes_per_hour: 1000000, writes_total: 1000000}}")
	open := r.car.gate.Rules().Version

	var wg sync.WaitGroup
	var stop atomic.Bool
	var allowed, denied atomic.Int64
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				switch a := r.do("POST", "/memories", note); a.status {
				case 200:
					allowed.Add(1)
				case 403:
					denied.Add(1)
					if !strings.Contains(a.body, "own.closed") {
						t.Errorf("refused for another reason: %s", a.body)
					}
				default:
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	ring.Until(r.t, "writes", func() bool { return allowed.Load() > 10 })
	for range 5 {
		writeBundle(t, bundle, closed)
		was := denied.Load()
		ring.Until(r.t, "the closing edit", func() bool { return denied.Load() > was+5 })
		writeBundle(t, bundle, harmless)
		was = allowed.Load()
		ring.Until(r.t, "the opening edit", func() bool { return allowed.Load() > was+5 })
	}
	stop.Store(true)
	wg.Wait()

	writeBundle(t, bundle, broken)
	ring.Until(r.t, "the broken edit on /readyz", func() bool { return strings.Contains(r.get("/readyz").body, "own.cedar") })
	ready := r.get("/readyz").body
	if a := r.get("/readyz"); a.status != 200 || !strings.Contains(ready, `"status":"degraded"`) {
		t.Errorf("%d %s: want ready and degraded, as the last good rules are in force", a.status, ready)
	}
	if !strings.Contains(ready, "own.cedar:2") || !strings.Contains(ready, open) {
		t.Errorf("readyz: %s\nwant file, line and the version that stays", ready)
	}
	r.do("POST", "/memories", note).want(t, 200)
	if m := r.get("/metrics").body; !strings.Contains(m, `memproxy_reloads_total{result="refused"}`) && !strings.Contains(m, `result="refused"`) {
		t.Error("no metric of the refused edit")
	}
	if rec := r.audit("--type", "reload"); !strings.Contains(rec, "an edit of policies was not put in force: ") || !strings.Contains(rec, "own.cedar:2") {
		t.Errorf("the audit log does not say why the edit is not in force: %s", rec)
	}
	writeBundle(t, bundle, harmless)
	ring.Until(r.t, "mended", func() bool { return strings.Contains(r.get("/readyz").body, `"status":"ready"`) })

	// The version in each record was in force, and its verdict is that version's.
	byVersion := map[string]string{}
	for _, line := range strings.Split(r.audit("--type", "decision"), "\n") {
		version := field(line, `"policy":"`)
		if line == "" || version == "" {
			continue
		}
		v := field(line, `"verdict":"`)
		if v == "amend" {
			v = "allow" // stamped
		}
		if was, seen := byVersion[version]; seen && was != v {
			t.Fatalf("version %s gave both %s and %s", version, was, v)
		}
		byVersion[version] = v
	}
	if len(byVersion) != 2 {
		t.Errorf("versions %v: want the open and the closed one", byVersion)
	}
}

func field(line, key string) string {
	_, rest, _ := strings.Cut(line, key)
	v, _, _ := strings.Cut(rest, `"`)
	return v
}
