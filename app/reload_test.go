package app_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/screen"
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
	open := r.rules()

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
					a.about("refused for another reason").has(t, "own.closed")
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
	r.get("/readyz").want(t, 200)
	expect.Text(t, ready).Has(`"status":"degraded"`)
	expect.Text(t, ready, "readyz").Has("own.cedar:2", open)
	r.do("POST", "/memories", note).want(t, 200)
	r.get("/metrics").has(t, `memproxy_reloads_total{result="refused"}`)
	expect.Text(t, r.audit("--type", "reload"), "the audit log does not say why the edit is not in force").Has("an edit of policies was not put in force: ", "own.cedar:2")
	writeBundle(t, bundle, harmless)
	ring.Until(r.t, "mended", func() bool { return strings.Contains(r.get("/readyz").body, `"status":"ready"`) })

	byVersion, _ := r.verdicts()
	expect.Len(t, byVersion, 2, "versions")
}

// verdicts are the verdicts on record by the version of the rules, of which each has one, and
// the number of decisions.
func (r *rig) verdicts() (byVersion map[string]string, decisions int64) {
	r.t.Helper()
	byVersion = map[string]string{}
	for line := range strings.Lines(r.audit("--type", "decision")) {
		version, v := field(line, `"policy":"`), field(line, `"verdict":"`)
		if version == "" {
			continue
		}
		if decisions++; v == "amend" {
			v = "allow" // stamped
		}
		must.Equal(r.t, v, cmp.Or(byVersion[version], v), "of version", version)
		byVersion[version] = v
	}
	return byVersion, decisions
}

func field(line, key string) string {
	_, rest, _ := strings.Cut(line, key)
	v, _, _ := strings.Cut(rest, `"`)
	return v
}

// Proves CARD-3: SIGHUP does not end the process: it loads edits of the policies that
// were not polled yet, unless they are broken. Not parallel: the signal reaches the
// whole process, including synctest bubbles.
func TestHangupReloadsPolicies(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "policies")
	writeBundle(t, dir, harmless)
	r := start(t, plain, "log: {level: info}", "log: {level: warn}\npolicy: {dir: \""+dir+"\", poll: 24h}")
	r.do("POST", "/memories", note).want(t, 200)
	writeBundle(t, dir, closed)
	ring.HangUp(t)
	ring.Until(r.t, "the edit", func() bool { return r.do("POST", "/memories", note).status == 403 })
	writeBundle(t, dir, broken)
	ring.HangUp(t)
	ring.Until(r.t, "the broken edit is named", func() bool { return strings.Contains(r.get("/readyz").body, "the newest edit is broken") })
	r.do("POST", "/memories", note).want(t, 403)
}

// hangsUp is a log that sends SIGHUP at a given line, and stops the server once it has
// started.
type hangsUp struct {
	t       *testing.T
	started func()
}

func (w hangsUp) Write(line []byte) (int, error) {
	for _, at := range [...]string{"held writes are reviewed", "stopping"} {
		if bytes.Contains(line, []byte(at)) {
			ring.HangUp(w.t)
		}
	}
	if bytes.Contains(line, []byte(`"started"`)) || bytes.Contains(line, []byte("msg=started")) {
		w.started()
	}
	return len(line), nil
}

// Proves CARD-3: SIGHUP while the process starts or stops does not end it.
func TestHangupDuringStartAndStop(t *testing.T) {
	text := fmt.Sprintf(`state: %s
admin: {listen: "127.0.0.1:0"}
backends: [{name: mem0, kind: mem0, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:1"}]
`, ring.Dir(t))
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := false
	getenv := func(string) string {
		if !began {
			began = true
			ring.HangUp(t)
		}
		return ""
	}
	expect.OK(t, app.Serve(ctx, cfg, app.Options{Log: hangsUp{t, cancel}, Getenv: getenv, Version: "test", TimeoutFactor: 10}, nil))
}

// Everything that affects decisions changes the rules' version, which records contain
// and which triggers validation of memories. Locations of stores and packs do not.
func TestRulesVersionCoversAllSettings(t *testing.T) {
	t.Parallel()
	version := func(more string) string {
		text := "profile: development\nbackends:\n  - {name: mem0, kind: mem0, listen: \"127.0.0.1:0\", upstream: \"http://127.0.0.1:1\"}\n" + more
		cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), func(string) string { return "" }))(t)
		return must.Get(app.Check(t.Context(), cfg, func(string) string { return "" }))(t).Version
	}
	pack := t.TempDir()
	must.Do(t, os.CopyFS(pack, screen.Files()))
	usual := version("")
	for more, same := range map[string]bool{
		"log: {level: debug}":                                           true,
		"budgets: {redis: {url: \"redis://127.0.0.1:1\"}}":              true,
		"screening: {pack: " + pack + "}":                               true,
		"enforce: false":                                                false,
		"ownership: {changed: ignore}":                                  false,
		"answers: {headers: drop}":                                      false,
		"budgets: {together: 3}":                                        false,
		"confidence: {clamp: false}":                                    false,
		"memories: {rewrite: hard}":                                     false,
		"sources: {names: {wiki: trusted}}":                             false,
		"screening: {approved: [" + sha("a text") + "]}":                false,
		"screening: {similar: {url: \"http://127.0.0.1:1\", model: m}}": false,
		"screening: {judge: {url: \"http://127.0.0.1:1\", model: m}}":   false,
		"screening: {baseline: {learn: 7}}":                             false,
		"identity: {established: {facts: 7}}":                           false,
	} {
		got := version(more)
		expect.Equal(t, got == usual, same, more, "the version is the same")
	}
}
