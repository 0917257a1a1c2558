package app_test

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
	"testing"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/fleet"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/policy"
)

// fleetRig is a control plane in this process, with releases, keys and certificates in
// one directory.
type fleetRig struct {
	t      *testing.T
	dir    string
	public string
	plane  *fleet.Plane
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
	f := &fleetRig{t: t, dir: ring.Dir(t), addr: "127.0.0.1:0", log: &lockedBuffer{}}
	must.Do(t, os.Mkdir(filepath.Join(f.dir, "releases"), 0o755))
	code, out, errs := invoke(t, "control", "keygen", "--out", f.dir)
	must.Equal(t, code, 0, errs)
	f.public = regexp.MustCompile(`public key +(\S+)`).FindStringSubmatch(out)[1]
	kept := must.Get(os.ReadFile(filepath.Join(f.dir, "fleet.pub")))(t)
	if b, err := base64.StdEncoding.DecodeString(f.public); err != nil || len(b) != 32 || string(kept) != f.public+"\n" {
		t.Fatalf("%q is not a key", f.public)
	}
	ca := must.Get(xdstest.NewCA())(t)
	for name, uri := range map[string]string{"control": "spiffe://example.org/control", "web": "spiffe://example.org/ns/acme/sa/web"} {
		must.Do(t, ca.Write(f.dir, name, uri))
	}
	t.Cleanup(f.stop)
	return f
}

// start runs the control plane, at its previous address after a restart.
func (f *fleetRig) start(change ...string) {
	f.t.Helper()
	f.plane = must.Get(f.open(change...))(f.t)
	must.Do(f.t, f.plane.Start(context.Background()))
	f.addr = f.plane.FleetAddr
}

// open builds the control plane.
func (f *fleetRig) open(change ...string) (*fleet.Plane, error) {
	f.t.Helper()
	text := strings.NewReplacer(change...).Replace(planeConfig)
	text = strings.NewReplacer("DIR", f.dir, "PUBLIC", f.public, "LISTEN", `"`+f.addr+`"`).Replace(text)
	cfg := must.Get(config.ParseControlPlane("control.yaml", []byte(text), os.Getenv))(f.t)
	return fleet.Open(cfg, fleet.Options{Log: f.log, Getenv: os.Getenv})
}

func (f *fleetRig) stop() {
	if f.plane == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), ring.Limit)
	defer cancel()
	expect.OK(f.t, f.plane.Close(ctx))
	f.plane = nil
}

// release signs a policy directory with one file as a release.
func (f *fleetRig) release(text string, args ...string) {
	f.t.Helper()
	dir := filepath.Join(f.t.TempDir(), "policies")
	writeBundle(f.t, dir, text)
	f.sign(dir, args...)
}

// sign signs a policy directory as a release, and returns what is said about it.
func (f *fleetRig) sign(dir string, args ...string) string {
	f.t.Helper()
	code, out, errs := invoke(f.t, append([]string{"control", "sign", "--key", filepath.Join(f.dir, fleet.KeyFile), "--policies", dir,
		"--releases", filepath.Join(f.dir, "releases"), "--fleet", "north"}, args...)...)
	must.Equal(f.t, code, 0, errs)
	return out + errs
}

// sidecar runs a sidecar of the fleet, with a new or an earlier state directory.
func (f *fleetRig) sidecar(change ...string) *rig {
	f.t.Helper()
	public := "" // escaped, as a key may contain a placeholder of the rig: DIR, KEY
	for _, c := range []byte(f.public) {
		public += fmt.Sprintf(`\x%02x`, c)
	}
	member := strings.NewReplacer("ADDR", f.addr, "PUBLIC", public, "FLEET", f.dir).Replace(memberConfig)
	return start(f.t, plain+member, change...)
}

// fleet returns the status of the control plane.
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

// status runs the operator's status command.
func (f *fleetRig) status(args ...string) (code int, out, errs string) {
	f.t.Helper()
	return invoke(f.t, append([]string{"control", "status", "--url", "http://" + f.plane.AdminAddr}, args...)...)
}

func (f *fleetRig) get(path string, into any) {
	f.t.Helper()
	resp := must.Get(http.Get("http://" + f.plane.AdminAddr + path))(f.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(f.t)
	must.Equal(f.t, resp.StatusCode, http.StatusOK, path)
	if s, ok := into.(*string); ok {
		*s = string(b)
		return
	}
	must.Do(f.t, json.Unmarshal(b, into), b)
}

// seal publishes a release that the sign command would refuse to make.
func (f *fleetRig) seal(number, floor uint64, text string) *policy.Release {
	f.t.Helper()
	key := must.Get(fleet.ReadKey(filepath.Join(f.dir, fleet.KeyFile)))(f.t)
	b := policy.Builtin()
	b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: text})
	r := must.Get(policy.SignRelease(b, policy.Statement{Fleet: "north", Number: number, Floor: floor}, key))(f.t)
	dir := filepath.Join(f.dir, "releases")
	store := must.Get(xds.NewDir(dir, dir, nil))(f.t)
	must.Do(f.t, store.Publish(r))
	return r
}
