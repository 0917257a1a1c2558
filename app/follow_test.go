package app_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/upkeep"
)

// watching is a watcher whose polls the test triggers.
type watching struct {
	t    *testing.T
	look func()
	// refuse is the result of use. Events are "use TEXTS" (of the directory's own
	// files) and "failed ERROR".
	refuse error
	events []string
}

func watch(t *testing.T, d string) *watching {
	t.Helper()
	w := &watching{t: t}
	followed := upkeep.Files{
		Load: func() (string, func() error, error) {
			b, err := policy.Load(d)
			return b.Version(), func() error {
				if w.refuse != nil {
					return w.refuse
				}
				var own []string
				for _, s := range b.Policies {
					if !strings.HasPrefix(s.Name, "builtin/") {
						own = append(own, strings.TrimSpace(s.Text))
					}
				}
				w.events = append(w.events, "use "+strings.Join(own, "+"))
				return nil
			}, err
		},
		Failed: func(err error) { w.events = append(w.events, "failed "+strings.ReplaceAll(err.Error(), d, "DIR")) },
	}
	b := must.Get(policy.Load(d))(t)
	w.look = followed.Follow(b.Version())
	return w
}

// want polls more often than needed and compares the events.
func (w *watching) want(events ...string) {
	w.t.Helper()
	for range 5 {
		w.look()
	}
	expect.List(w.t, w.events, events)
	w.events = nil
}

// watched plays edits of a directory with two policies, whose watcher has seen them.
func watched(t *testing.T, play func(t *testing.T, d string, w *watching)) {
	d := t.TempDir()
	writeFile(t, filepath.Join(d, "a.cedar"), "// one")
	writeFile(t, filepath.Join(d, "b.cedar"), "// b")
	w := watch(t, d)
	w.want()
	play(t, d, w)
}

// Every way to replace files takes effect once: also as a ConfigMap does, which is mounted
// as links into a directory that is itself a link, which is swapped atomically.
//
// Proves CARD-3
func TestWatchSeesEveryWayOfReplacing(t *testing.T) {
	swap := func(t *testing.T, d, version, text string) {
		t.Helper()
		must.Do(t, os.Mkdir(filepath.Join(d, version), 0o700))
		writeFile(t, filepath.Join(d, version, "a.cedar"), text)
		must.Do(t, os.Symlink(version, filepath.Join(d, "..data_tmp")))
		must.Do(t, os.Rename(filepath.Join(d, "..data_tmp"), filepath.Join(d, "..data")))
	}
	for name, replace := range map[string]func(t *testing.T, d, path string, w *watching){
		"written in place": func(t *testing.T, d, path string, _ *watching) { writeFile(t, path, "// two") },
		"renamed over": func(t *testing.T, d, path string, _ *watching) {
			must.Do(t, os.Rename(writeFile(t, filepath.Join(d, "a.tmp"), "// two"), path))
		},
		"as an editor does: backup, new file, backup removed": func(t *testing.T, d, path string, _ *watching) {
			must.Do(t, os.Rename(path, path+"~"))
			writeFile(t, path, "// two")
			must.Do(t, os.Remove(path+"~"))
		},
		"with the times of the old one": func(t *testing.T, d, path string, _ *watching) {
			info := must.Get(os.Stat(path))(t)
			writeFile(t, path, "// two")
			must.Do(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		},
		"as a ConfigMap does": func(t *testing.T, d, path string, w *watching) {
			swap(t, d, "..2026_01", "// one")
			must.Do(t, os.Remove(path))
			must.Do(t, os.Symlink(filepath.Join("..data", "a.cedar"), path))
			w.want()
			swap(t, d, "..2026_02", "// two")
		},
	} {
		watched(t, func(t *testing.T, d string, w *watching) {
			t.Log(name)
			path := filepath.Join(d, "a.cedar")
			replace(t, d, path, w)
			w.want("use // two+// b")
			w.want()
			must.Do(t, os.RemoveAll(filepath.Join(d, "..2026_01")))
			writeFile(t, path, "// two") // touched, not changed
			w.want()
		})
	}
}

// Proves CARD-3
func TestWatchKeepsTheLastGood(t *testing.T) {
	watched(t, func(t *testing.T, d string, w *watching) {
		path := filepath.Join(d, "a.cedar")
		must.Do(t, os.Remove(filepath.Join(d, "b.cedar")))
		w.want("use // one")

		// An unreadable file is reported once, and again if the error changes.
		writeFile(t, path, "")
		w.want("failed policy: DIR/a.cedar:1: the file is empty; for no policies, remove it")
		w.want()
		writeFile(t, path, "\xff")
		w.want("failed policy: DIR/a.cedar:1: not UTF-8")

		// A reverted edit calls use, so that the status shows no error.
		writeFile(t, path, "// one")
		w.want("use // one")
		w.want()

		// A readable but refused file is retried, and reported once.
		w.refuse = errors.New("does not compile")
		writeFile(t, path, "// three")
		w.want("failed does not compile")
		w.want()
		w.refuse = nil
		w.want("use // three")

		// Deleted: the file, then the directory.
		must.Do(t, os.Remove(path))
		w.want("failed policy: DIR: no *.cedar, *.cedarschema, bundle.yaml or screening.pack in it")
		must.Do(t, os.Remove(d))
		w.want("failed policy: open DIR: no such file or directory")
		must.Do(t, os.Mkdir(d, 0o700))
		writeFile(t, path, "// four")
		w.want("use // four")
	})
}

// A state seen by only one poll is a partial edit: neither applied nor reported as an
// error.
//
// Proves CARD-3
func TestWatchIgnoresPartialEdits(t *testing.T) {
	watched(t, func(t *testing.T, d string, w *watching) {
		path := filepath.Join(d, "a.cedar")
		for _, passing := range []string{"", "// tw", "\xff", "// two and then some"} {
			writeFile(t, path, passing)
			w.look()
			writeFile(t, path, "// one")
			w.look()
		}
		w.want()
		for _, written := range []string{"", "// t", "// tw", "// two"} { // a slow writer
			writeFile(t, path, written)
			w.look()
		}
		w.want("use // two+// b")
	})
}

// Proves GOV-6: a policy directory that leaves the built-in policies out weakens
// production: it is refused unless the environment allows it by name, also when it is
// edited, and is reported like a setting.
func TestBuiltinPoliciesAreLeftOutByName(t *testing.T) {
	dir := policyDir(t, holdingPolicy)
	bundle := func(text string) { writeFile(t, filepath.Join(dir, "bundle.yaml"), text) }
	p := newPaces()
	// edit edits the bundle of a sidecar and returns the readiness after it.
	edit := func(r *rig, text, log string) string {
		t.Helper()
		n := strings.Count(r.log.String(), log)
		bundle(text)
		r.within(p, time.Second, text, func() bool { return strings.Count(r.log.String(), log) > n })
		return r.get("/readyz").want(t, 200).body
	}
	const taken, refused = `"msg":"rules reloaded"`, "rules reload failed"
	bundle("builtin: true")
	r := startRig(&rig{t: t, clock: p.now, pace: p.ticker}, plain, "log: {level: info}", fmt.Sprintf("policy: {dir: %q}", dir))
	before := r.rules()
	expect.Text(t, edit(r, "builtin: false", refused), "an edit leaves them out").Has(config.BuiltinPolicies + " in " + config.UnsafeEnv)
	expect.Equal(t, r.rules(), before, "the rules in force")
	edit(r, "disable: [surface.bulk]", taken)
	edit(r, "builtin: false", refused)
	cfg := *r.car.cfg
	_, err := app.New(t.Context(), &cfg, app.Options{Log: r.log, Getenv: func(string) string { return "" }})
	expect.ErrorHas(t, err, filepath.Join(dir, "bundle.yaml")+": ", "a start leaves them out")
	expect.ErrorHas(t, err, config.UnsafeEnv+"="+config.BuiltinPolicies, "a start leaves them out")

	allowed := startRig(&rig{t: t, clock: p.now, pace: p.ticker}, plain, "log: {level: info}", fmt.Sprintf("policy: {dir: %q}", dir))
	allowed.get("/readyz").want(t, 200).has(t, config.BuiltinPolicies, "degraded")
	expect.Text(t, allowed.log.String(), "the log").Has("UNSAFE: ", `"setting":"policy.builtin"`)
	edit(allowed, "builtin: true", taken)
	edit(allowed, "builtin: false", taken)
	must.Do(t, allowed.car.Audit.Flush(t.Context())) // a reload's record is queued
	expect.Text(t, allowed.audit(), "the records").Has(`"unsafe":["policy.builtin"]`)
}
