package app_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves CARD-9, EDGE-9: a sidecar of a fleet refuses everything until its first release,
// applies each release, and reports to the control plane; a refused release is reported
// with file and line. What a release loosens is on record, as what an edit does; the first
// loosens nothing.
func TestFleetRulesASidecar(t *testing.T) {
	t.Parallel()
	f := newFleetRig(t)
	f.start()
	r := f.sidecar()
	r.do("POST", "/memories", note).want(t, 403, "before the first release").has(t, "policy.no_permit", "a sidecar of a fleet gets them with its first release")
	r.get("/readyz").want(t, 503, "before the first release").has(t, "no release received yet")
	f.release(harmless, "--note", "the first")
	ring.Until(r.t, "the first release", func() bool { return r.do("POST", "/memories", note).status == 200 })
	r.get("/readyz").want(t, 200).has(t, "release 000001-")
	f.release(harmless+"\n"+closed, "--tenant", "acme", "--label", "env=prod")
	ring.Until(r.t, "the second release", func() bool {
		a := r.do("POST", "/memories", note)
		return a.status == 403 && strings.Contains(a.body, "own.closed")
	})
	// Releases for other tenants are ignored.
	f.release(harmless, "--tenant", "other")
	f.release(harmless, "--tenant", "acme", "--label", "env=test")
	ring.Until(r.t, "all four releases", func() bool { return len(f.fleet().Releases) == 4 })
	ring.Until(r.t, "the reports", func() bool { // of decisions and of the running release, in any order
		second := f.fleet().Releases[1]
		return second.Counts.Refused > 0 && second.Running == 1
	})
	st := f.fleet()
	for i, want := range []struct {
		channel        string
		running        int
		decided, state string
	}{{"*", 0, "some", "current"}, {"tenant=acme,env=prod", 1, "some", "current"}, {"tenant=other", 0, "none", "current"}, {"tenant=acme,env=test", 0, "none", "current"}} {
		got := st.Releases[i]
		expect.Equal(t, got.Channel == want.channel && got.Running == want.running && got.State == want.state && (got.Counts.Decisions > 0) == (want.decided == "some"), true, "release", i+1, "is", got, "want", want)
	}
	expect.Equal(t, st.Releases[0].Note == "the first" && st.Connected == 1 && st.Behind == 0, true, "the fleet is", st)
	var metrics string
	f.get("/metrics", &metrics)
	expect.Text(t, metrics, "no").Has(fmt.Sprintf(`memproxy_fleet_release_sidecars{release="%s",state="running"} 1`, st.Releases[1].Name))
	f.release(harmless, "--tenant", "acme", "--label", "env=prod")
	reloads := ""
	ring.Until(r.t, "what the release loosens", func() bool {
		reloads = r.audit("--type", "reload")
		return strings.Contains(reloads, "an edit of the rules loosens: policy own.closed (deny) was removed")
	})
	expect.Equal(t, strings.Count(reloads, "loosens"), 1, reloads)
}

// following starts a control plane with a release and a sidecar that has taken it, with
// its state directory.
func following(t *testing.T) (f *fleetRig, r *rig, state string) {
	t.Helper()
	f, state = newFleetRig(t), filepath.Join(ring.Dir(t), "state")
	f.start()
	f.release(closed)
	r = f.sidecar("DIR/state", state)
	ring.Until(r.t, "the first release", func() bool { return strings.Contains(r.do("POST", "/memories", note).body, "own.closed") })
	return f, r, state
}

// Proves CARD-9: a sidecar continues without its control plane, restarts from the
// stored release, and follows again when the control plane returns.
func TestSidecarRunsWithoutItsControlPlane(t *testing.T) {
	t.Parallel()
	f, r, state := following(t)
	f.stop()
	ring.Until(r.t, "degraded", func() bool { return strings.Contains(r.get("/readyz").body, "the control plane is unavailable") })
	r.do("POST", "/memories", note).want(t, 403).has(t, "own.closed")
	r.stop()
	r = f.sidecar("DIR/state", state)
	r.do("POST", "/memories", note).want(t, 403).has(t, "own.closed")
	r.get("/readyz").want(t, 200)
	f.release(harmless)
	f.start()
	ring.Until(r.t, "the second release", func() bool { return r.do("POST", "/memories", note).status == 200 })
	list := f.sidecars()
	expect.Equal(t, len(list) == 1 && list[0].ID == "web-1" && list[0].Version == "test", true, "the sidecars are", list)
}

// lastGoodFile is the file of the current release, in the state directory.
const lastGoodFile = "rules.last-good"

// Proves CARD-9: /readyz says that the stored release is not used, and that the control
// plane refuses the sidecar, which is not an outage.
func TestSidecarSaysWhyItHasNoRelease(t *testing.T) {
	t.Parallel()
	f, r, state := following(t)
	r.stop()
	kept := filepath.Join(state, lastGoodFile)
	text := must.Get(os.ReadFile(kept))(t)
	must.Do(t, os.WriteFile(kept, bytes.Replace(text, []byte("own.closed"), []byte("own.opened"), 1), 0o600))
	r = f.sidecar("DIR/state", state, "tenant: acme\n    labels", "tenant: other\n    labels")
	ring.Until(r.t, "the refusal", func() bool {
		return strings.Contains(r.get("/readyz").body, "the control plane rejected this sidecar: ")
	})
	a := r.get("/readyz")
	a.want(t, 503).has(t, "the stored release is not used: policy: release: the bundle is not the one that was signed; no release received yet")
	a.about("a refusal reads as an outage").lacks(t, "away")
	r.do("POST", "/memories", note).want(t, 403)
}

// Proves CARD-9: a release that does not compile, or that is older than the floor, is
// refused and reported with file and line everywhere, until it is withdrawn; the last good
// release stays in force.
func TestSidecarRefusesBrokenReleases(t *testing.T) {
	t.Parallel()
	f := newFleetRig(t)
	f.start()
	f.seal(1, 1, closed)
	r := f.sidecar()
	denied := func() bool { return strings.Contains(r.do("POST", "/memories", note).body, "own.closed") }
	ring.Until(r.t, "the first release", denied)
	f.seal(2, 1, broken)
	ring.Until(r.t, "the refusal", func() bool {
		l := f.sidecars()
		return l[0].Rejected != nil && strings.Contains(l[0].Rejected.Reason, "own.cedar:2") && strings.HasPrefix(l[0].Running, "000001-")
	})
	code, out, errs := f.status()
	expect.Equal(t, code, cli.Failed, errs)
	expect.Text(t, out, "control status").Has("web-1 runs 000001-", "refused 000002-", "own.cedar:2")
	expect.Equal(t, denied(), true, "the last good release rules")
	r.get("/readyz").want(t, 200).has(t, "own.cedar:2", `"status":"degraded"`)
	expect.Text(t, r.audit("--type", "reload"), "the refusal is not in the audit log").Has("was not put in force: ", "own.cedar:2")
	says(t, 0, "release 2 is stopped", "control", "stop", "--releases", filepath.Join(f.dir, "releases"), "--number", "2")
	ring.Until(r.t, "the refused release withdrawn", func() bool { return strings.Contains(r.get("/readyz").body, `"status":"ready"`) })
	f.seal(3, 3, harmless) // older than the floor
	ring.Until(r.t, "the third release", func() bool { return r.do("POST", "/memories", note).status == 200 })
	ring.Until(r.t, "the sidecar to say so", func() bool {
		code, out, _ := f.status()
		return code == cli.OK && strings.Contains(out, "sidecars: 1 connected, 0 behind") && !strings.Contains(out, "refused 000002-")
	})
	r.get("/readyz").about("readyz after the mend").has(t, `"status":"ready"`)
	says(t, 0, "release 3 is stopped", "control", "stop", "--releases", filepath.Join(f.dir, "releases"), "--number", "3", "--reason", "a mistake")
	f.refused("is older than 3")
	ring.Until(r.t, "the refusal being on record", func() bool { return strings.Contains(r.audit("--type", "reload"), "is older than 3") })
	expect.Text(t, r.get("/metrics").body).Has(`memproxy_reloads_total{result="refused"} 2`)
	expect.Equal(t, f.fleet().Releases[2].State, "stopped")
	expect.Equal(t, f.fleet().Releases[2].Reason, "a mistake")
	r.do("POST", "/memories", note).want(t, 200)
	f.stop()
	ring.Until(r.t, "both to be said", func() bool {
		a := r.get("/readyz")
		return strings.Contains(a.body, "is older than 3") && strings.Contains(a.body, "the control plane is unavailable")
	})
}

// Proves GOV-6, CARD-9: production refuses a release without the built-in policies, like a
// directory with builtin: false, unless its environment allows it by name; every record
// then has that name.
func TestReleaseKeepsTheBuiltinPolicies(t *testing.T) {
	t.Parallel()
	f, r, state := following(t)
	dir := policyDir(t, `@id("own.open") permit (principal, action, resource);`)
	writeFile(t, filepath.Join(dir, "bundle.yaml"), "builtin: false\n")
	writeFile(t, filepath.Join(dir, "access.cedar"), "// has the name of a built-in file\n")
	expect.Text(t, f.sign(dir)).Has(": builtin: false leaves the built-in policies out")
	f.refused(config.BuiltinPolicies + " in " + config.UnsafeEnv)
	r.do("POST", "/memories", note).want(t, 403).has(t, "own.closed")

	r.stop()
	release := must.Get(os.ReadFile(filepath.Join(f.dir, "releases", "000002.release")))(t)
	writeFile(t, filepath.Join(state, lastGoodFile), "{\"floor\":1}\n"+string(release))
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(r.conf), os.Getenv))(t)
	named := allowing(cfg)(config.UnsafeEnv)
	getenv := func(string) string { return named }
	for what, start := range map[string]func() error{
		"start": func() error { _, err := app.New(t.Context(), cfg, app.Options{Log: r.log, Getenv: getenv}); return err },
		"check": func() error { _, err := app.Check(t.Context(), cfg, getenv); return err },
	} {
		expect.ErrorHas(t, start(), "bundle.yaml of release 000002-", what)
	}
	named += "," + config.BuiltinPolicies
	if result, err := app.Check(t.Context(), cfg, getenv); err != nil || !slices.Contains(result.Unsafe, config.BuiltinPolicies) {
		t.Errorf("allowed by name: %+v, %v", result, err)
	}
}

// Proves CARD-9: what prevents a control plane from starting names its setting.
func TestControlPlaneNamesTheSetting(t *testing.T) {
	t.Parallel()
	f := newFleetRig(t)
	for path, setting := range map[string]string{"DIR/ca.crt": "tls.client_ca: ", "DIR/control.crt": "tls.cert or tls.key: ", "DIR/releases": "releases or progress: "} {
		expect.ErrorHas(t, expect.Err(f.open(path, "DIR/absent")), setting, "without", path)
	}
}

// Proves CARD-9, SYN-4: a release's limits, ceilings and screening pack replace the
// configuration's.
func TestReleaseBringsItsTables(t *testing.T) {
	t.Parallel()
	f := newFleetRig(t)
	f.start()
	dir := filepath.Join(t.TempDir(), "policies")
	writeBundle(t, dir, harmless)
	must.Do(t, os.WriteFile(filepath.Join(dir, "bundle.yaml"), []byte("budgets: {default: {writes_per_hour: 2}}\nconfidence: {principal: {authenticated: 0.25}}\n"), 0o600))
	expect.Text(t, f.sign(dir, "--pack", "../screen/pack")).Has("release 000001-")
	r := f.sidecar()
	ring.Until(r.t, "the release", func() bool { return r.get("/readyz").status == 200 })
	claims := strings.Replace(note, `"infer":false`, `"infer":false,"metadata":{"confidence":0.9}`, 1)
	for i, want := range []int{200, 200, 429} {
		r.do("POST", "/memories", claims).want(t, want, "write", i+1)
	}
	expect.Text(t, r.audit("--type", "decision"), "the release's ceiling does not hold").Has(`"given":250`)
}

// Proves CARD-3, CARD-9: no request is dropped or decided by two versions while
// releases follow each other under load, also when the control plane is away in the middle.
func TestReleasesUnderLoad(t *testing.T) {
	t.Parallel()
	const releases = 30
	f := newFleetRig(t)
	f.start()
	f.seal(1, 1, harmless)
	r := f.sidecar("log: {level: info}", "log: {level: error}\nbudgets: {default: {writes_per_hour: 10000000, writes_total: 10000000, }, rapid_per_minute: 0}")
	ring.Until(r.t, "the first release", func() bool { return r.get("/readyz").status == 200 })
	var wg sync.WaitGroup
	var stop atomic.Bool
	var answered atomic.Int64
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				a := r.do("POST", "/memories", note)
				if answered.Add(1); a.status != 200 && !(a.status == 403 && strings.Contains(a.body, "own.closed")) {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	for n := uint64(2); n <= releases; n++ {
		text := harmless
		if n%2 == 0 {
			text = closed
		}
		if n == releases/2 {
			f.stop()
			f.start()
		}
		name := f.seal(n, n-1, fmt.Sprintf("%s\n// %d\n", text, n)).Name()
		ring.Until(r.t, "release "+name, func() bool { return strings.Contains(r.get("/readyz").body, `"release `+name) })
		was := answered.Load() // at least one of the next five began under this release
		ring.Until(r.t, "a request under "+name, func() bool { return answered.Load() >= was+5 })
	}
	stop.Store(true)
	wg.Wait()
	byVersion, decisions := r.verdicts()
	expect.Equal(t, decisions, answered.Load())
	expect.Equal(t, len(byVersion) >= releases-1, true, len(byVersion), "versions ruled of", releases) // the load may have begun after the first release was replaced
}
