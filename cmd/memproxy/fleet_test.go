package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/policy"
)

// fleetRig is a control plane in this process, with its releases, keys and
// certificates in one directory.
type fleetRig struct {
	t      *testing.T
	dir    string
	public string
	plane  *plane
	addr   string
	log    *lockedBuffer
}

const planeConfig = `fleet: north
listen: LISTEN
admin: {listen: "127.0.0.1:0"}
tls: {cert: DIR/control.crt, key: DIR/control.key, client_ca: DIR/ca.crt}
releases: DIR/releases
keys: ["PUBLIC"]
poll: 5ms
report: 20ms
sidecars:
  - {spiffe: "spiffe://example.org/ns/acme/sa/*", tenant: acme, labels: {env: [prod, test]}}
rollout: {stages: []}
log: {level: warn}
`

const memberConfig = `policy:
  control:
    address: ADDR
    fleet: north
    keys: ["PUBLIC"]
    tls: {cert: FLEET/web.crt, key: FLEET/web.key, ca: FLEET/ca.crt}
    node: web-1
    tenant: acme
    labels: {env: prod}
`

func newFleetRig(t *testing.T) *fleetRig {
	t.Helper()
	f := &fleetRig{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", log: &lockedBuffer{}}
	if err := os.Mkdir(filepath.Join(f.dir, "releases"), 0o755); err != nil {
		t.Fatal(err)
	}
	code, out, errs := invoke(t, "control", "keygen", "-out", f.dir)
	if code != 0 {
		t.Fatal(errs)
	}
	f.public = regexp.MustCompile(`public key +(\S+)`).FindStringSubmatch(out)[1]
	if b, err := base64.StdEncoding.DecodeString(f.public); err != nil || len(b) != 32 {
		t.Fatalf("%q is not a key", f.public)
	}
	ca, err := xdstest.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	for name, uri := range map[string]string{"control": "spiffe://example.org/control", "web": "spiffe://example.org/ns/acme/sa/web"} {
		if err := ca.Write(f.dir, name, uri); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(f.stop)
	return f
}

// start runs the control plane, at the address that it had before.
func (f *fleetRig) start(change ...string) {
	f.t.Helper()
	text := strings.NewReplacer(change...).Replace(planeConfig)
	text = strings.NewReplacer("DIR", f.dir, "PUBLIC", f.public, "LISTEN", `"`+f.addr+`"`).Replace(text)
	cfg, err := config.ParseControlPlane("control.yaml", []byte(text), os.Getenv)
	if err != nil {
		f.t.Fatal(err)
	}
	a := &app{Stdout: io.Discard, Stderr: f.log, Getenv: os.Getenv, Version: "test"}
	if f.plane, err = a.openPlane(cfg); err != nil {
		f.t.Fatal(err)
	}
	if err := f.plane.start(context.Background()); err != nil {
		f.t.Fatal(err)
	}
	f.addr = f.plane.fleetAddr
}

func (f *fleetRig) stop() {
	if f.plane == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := f.plane.close(ctx); err != nil {
		f.t.Error(err)
	}
	f.plane = nil
}

// release signs a policy directory with one file as a release.
func (f *fleetRig) release(text string, args ...string) {
	f.t.Helper()
	dir := filepath.Join(f.t.TempDir(), "policies")
	writeBundle(f.t, dir, text)
	args = append([]string{"control", "sign", "-key", filepath.Join(f.dir, fleetKeyFile), "-policies", dir,
		"-releases", filepath.Join(f.dir, "releases"), "-fleet", "north"}, args...)
	if code, _, errs := invoke(f.t, args...); code != 0 {
		f.t.Fatal(errs)
	}
}

// sidecar runs one of the fleet's sidecars, with a state directory that may be
// that of an earlier one.
func (f *fleetRig) sidecar(change ...string) *rig {
	f.t.Helper()
	member := strings.NewReplacer("ADDR", f.addr, "PUBLIC", f.public, "FLEET", f.dir).Replace(memberConfig)
	return start(f.t, plain+member, change...)
}

// fleet is what the control plane shows.
func (f *fleetRig) fleet() (st xds.Status) {
	f.t.Helper()
	f.get("/fleet", &st)
	return st
}

func (f *fleetRig) sidecars() (list []xds.SidecarStatus) {
	f.t.Helper()
	f.get("/fleet/sidecars", &list)
	return list
}

func (f *fleetRig) get(path string, into any) {
	f.t.Helper()
	resp, err := http.Get("http://" + f.plane.adminAddr + path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		f.t.Fatalf("%s: %d %v", path, resp.StatusCode, err)
	}
	if s, ok := into.(*string); ok {
		*s = string(b)
	} else if err := json.Unmarshal(b, into); err != nil {
		f.t.Fatalf("%s: %v", b, err)
	}
}

// Proves CARD-9: a sidecar of a fleet refuses everything until its first
// release, rules by each that comes, and tells the control plane; what it does
// not take, it says with file and line.
func TestFleetRulesASidecar(t *testing.T) {
	f := newFleetRig(t)
	f.start()
	r := f.sidecar()
	if a := r.do("POST", "/memories", note); a.status != 403 || !strings.Contains(a.body, "policy.no_permit") {
		t.Errorf("before the first release: %d %s, want a refusal", a.status, a.body)
	}
	if a := r.get("/readyz"); a.status != 503 || !strings.Contains(a.body, "no release has come yet") {
		t.Errorf("before the first release: %d %s, want not ready", a.status, a.body)
	}
	f.release(harmless, "-note", "the first")
	r.eventually("the first release", func() bool { return r.do("POST", "/memories", note).status == 200 })
	if a := r.get("/readyz"); a.status != 200 || !strings.Contains(a.body, "release 000001-") {
		t.Errorf("under the first release: %d %s", a.status, a.body)
	}
	f.release(closed, "-tenant", "acme", "-label", "env=prod")
	r.eventually("the second release", func() bool {
		a := r.do("POST", "/memories", note)
		return a.status == 403 && strings.Contains(a.body, "own.closed")
	})
	// Others' releases are not this sidecar's.
	f.release(harmless, "-tenant", "other")
	f.release(harmless, "-tenant", "acme", "-label", "env=test")
	r.eventually("all four releases", func() bool { return len(f.fleet().Releases) == 4 })
	r.eventually("the reports", func() bool { return f.fleet().Releases[1].Tally.Refused > 0 })
	st := f.fleet()
	for i, want := range []struct {
		channel        string
		running        int
		decided, state string
	}{{"*", 0, "some", "current"}, {"tenant=acme,env=prod", 1, "some", "current"}, {"tenant=other", 0, "none", "current"}, {"tenant=acme,env=test", 0, "none", "current"}} {
		got := st.Releases[i]
		if got.Channel != want.channel || got.Running != want.running || got.State != want.state || (got.Tally.Decisions > 0) != (want.decided == "some") {
			t.Errorf("release %d is %+v, want %+v", i+1, got, want)
		}
	}
	if st.Releases[0].Note != "the first" || st.Connected != 1 || st.Behind != 0 {
		t.Errorf("the fleet is %+v", st)
	}
	var metrics string
	f.get("/metrics", &metrics)
	if want := fmt.Sprintf(`memproxy_fleet_release_sidecars{release="%s",state="running"} 1`, st.Releases[1].Name); !strings.Contains(metrics, want) {
		t.Errorf("no %s in\n%s", want, metrics)
	}
}

// Proves CARD-9: the control plane may go away; the sidecar rules on, starts
// again from what it had, and follows when the control plane is back.
func TestSidecarOutlivesItsControlPlane(t *testing.T) {
	f := newFleetRig(t)
	f.start()
	f.release(closed)
	state := filepath.Join(t.TempDir(), "state")
	r := f.sidecar("DIR/state", state)
	r.eventually("the first release", func() bool { return strings.Contains(r.do("POST", "/memories", note).body, "own.closed") })
	f.stop()
	r.eventually("degraded", func() bool { return strings.Contains(r.get("/readyz").body, "the control plane is away") })
	if a := r.do("POST", "/memories", note); a.status != 403 || !strings.Contains(a.body, "own.closed") {
		t.Errorf("without the control plane: %d %s", a.status, a.body)
	}
	r.stop()
	r = f.sidecar("DIR/state", state)
	if a := r.do("POST", "/memories", note); a.status != 403 || !strings.Contains(a.body, "own.closed") {
		t.Errorf("started without the control plane: %d %s", a.status, a.body)
	}
	if a := r.get("/readyz"); a.status != 200 {
		t.Errorf("started without the control plane: %d %s", a.status, a.body)
	}
	f.release(harmless)
	f.start()
	r.eventually("the second release", func() bool { return r.do("POST", "/memories", note).status == 200 })
	if list := f.sidecars(); len(list) != 1 || list[0].ID != "web-1" || list[0].Version != "test" {
		t.Errorf("the sidecars are %+v", list)
	}
}

// seal makes a release of policies that sign would not, and publishes it.
func (f *fleetRig) seal(number, floor uint64, text string) *policy.Release {
	f.t.Helper()
	key, err := readFleetKey(filepath.Join(f.dir, fleetKeyFile))
	if err != nil {
		f.t.Fatal(err)
	}
	b := policy.Builtin()
	b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: []byte(text)})
	r, err := policy.Seal(b, policy.Statement{Fleet: "north", Number: number, Floor: floor}, key)
	if err != nil {
		f.t.Fatal(err)
	}
	dir := filepath.Join(f.dir, "releases")
	store, err := xds.NewDir(dir, dir, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := store.Publish(r); err != nil {
		f.t.Fatal(err)
	}
	return r
}

// Proves CARD-9: a release that does not compile is refused with file and line,
// everywhere where somebody looks, and the last good one rules on; so is one
// that may no longer be gone back to.
func TestSidecarRefusesARelease(t *testing.T) {
	f := newFleetRig(t)
	f.start()
	f.seal(1, 1, closed)
	r := f.sidecar()
	denied := func() bool { return strings.Contains(r.do("POST", "/memories", note).body, "own.closed") }
	r.eventually("the first release", denied)
	f.seal(2, 1, broken)
	r.eventually("the refusal", func() bool {
		l := f.sidecars()
		return l[0].Rejected != nil && strings.Contains(l[0].Rejected.Reason, "own.cedar:2") && strings.HasPrefix(l[0].Running, "000001-")
	})
	if !denied() {
		t.Error("the last good release does not rule")
	}
	if a := r.get("/readyz"); a.status != 200 || !strings.Contains(a.body, "own.cedar:2") || !strings.Contains(a.body, `"status":"degraded"`) {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	if rec := r.audit("-type", "reload"); !strings.Contains(rec, "was not put in force") {
		t.Errorf("the refusal is not in the audit log: %s", rec)
	}
	f.seal(3, 3, harmless) // no way back
	r.eventually("the third release", func() bool { return r.do("POST", "/memories", note).status == 200 })
	if a := r.get("/readyz"); !strings.Contains(a.body, `"status":"ready"`) {
		t.Errorf("readyz after the mend: %s", a.body)
	}
	code, out, errs := invoke(t, "control", "stop", "-releases", filepath.Join(f.dir, "releases"), "-number", "3", "-reason", "a mistake")
	if code != 0 || !strings.Contains(out, "release 3 is stopped") {
		t.Fatal(errs)
	}
	r.eventually("the refusal to go back", func() bool {
		l := f.sidecars()
		return l[0].Rejected != nil && strings.Contains(l[0].Rejected.Reason, "is older than 3")
	})
	if st := f.fleet(); st.Releases[2].State != "stopped" || st.Releases[2].Reason != "a mistake" {
		t.Errorf("%+v", st.Releases[2])
	}
	if a := r.do("POST", "/memories", note); a.status != 200 {
		t.Errorf("%d %s: the sidecar went back", a.status, a.body)
	}
}

// Proves CARD-9, SYN-4: limits, ceilings and the screening pack of a release
// take the place of the configuration's.
func TestReleaseBringsItsTables(t *testing.T) {
	f := newFleetRig(t)
	f.start()
	dir := filepath.Join(t.TempDir(), "policies")
	writeBundle(t, dir, harmless)
	if err := os.WriteFile(filepath.Join(dir, "bundle.yaml"), []byte("budgets: {default: {writes_per_hour: 2}}\nconfidence: {principal: {authenticated: 0.25}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"control", "sign", "-key", filepath.Join(f.dir, fleetKeyFile), "-policies", dir, "-releases", filepath.Join(f.dir, "releases"),
		"-fleet", "north", "-pack", "../../screen/pack"}
	if code, out, errs := invoke(t, args...); code != 0 || !strings.Contains(out, "release 000001-") {
		t.Fatal(errs)
	}
	r := f.sidecar()
	r.eventually("the release", func() bool { return r.get("/readyz").status == 200 })
	claims := strings.Replace(note, `"infer":false`, `"infer":false,"metadata":{"confidence":0.9}`, 1)
	for i, want := range []int{200, 200, 429} {
		if a := r.do("POST", "/memories", claims); a.status != want {
			t.Errorf("write %d: %d %s, want %d", i+1, a.status, a.body, want)
		}
	}
	if rec := r.audit("-type", "decision"); !strings.Contains(rec, `"given":250`) {
		t.Errorf("the release's ceiling does not hold: %s", rec)
	}
}

// Proves CARD-3, CARD-9: no request is dropped or ruled on by two versions
// while releases come one after the other under load.
func TestReleasesUnderLoad(t *testing.T) {
	const releases = 30
	f := newFleetRig(t)
	f.start()
	f.seal(1, 1, harmless)
	r := f.sidecar("log: {level: info}", "log: {level: error}\nbudgets: {default: {writes_per_hour: 10000000, writes_total: 10000000, }, rapid_per_minute: 0}")
	r.eventually("the first release", func() bool { return r.get("/readyz").status == 200 })
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
		name := f.seal(n, n-1, fmt.Sprintf("%s\n// %d\n", text, n)).Name()
		r.eventually("release "+name, func() bool { return r.car.fleet.follower.State().Running == name })
	}
	stop.Store(true)
	wg.Wait()
	byVersion, decisions := map[string]string{}, int64(0)
	for _, line := range strings.Split(r.audit("-type", "decision"), "\n") {
		version, v := field(line, `"policy":"`), field(line, `"verdict":"`)
		if line == "" || version == "" {
			continue
		}
		if decisions++; v == "amend" {
			v = "allow" // stamped
		}
		if was, seen := byVersion[version]; seen && was != v {
			t.Fatalf("version %s gave both %s and %s", version, was, v)
		}
		byVersion[version] = v
	}
	if decisions != answered.Load() {
		t.Errorf("%d requests were answered, %d decisions recorded", answered.Load(), decisions)
	}
	if len(byVersion) < releases/2 {
		t.Errorf("%d versions ruled of %d: there was no load on most", len(byVersion), releases)
	}
}
