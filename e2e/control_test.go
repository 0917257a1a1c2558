//go:build e2e

package e2e

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

// fleet is memproxy control, as the binary, with one directory for its files.
type fleet struct {
	t           *testing.T
	dir         string
	addr, admin string
	key         ed25519.PrivateKey
	store       *xds.Dir
	binary      string
	*process
}

func newFleet(t *testing.T, binary string) *fleet {
	t.Helper()
	f := &fleet{t: t, binary: binary, dir: t.TempDir(), addr: freeport.Addr(t), admin: freeport.Addr(t)}
	var err error
	_, f.key, err = ed25519.GenerateKey(nil)
	must.That(t, err == nil, "%v", err)
	ca := must.Get(xdstest.NewCA())(t)
	for name, uri := range map[string]string{"control": "spiffe://example.org/control", "web": "spiffe://example.org/ns/acme/sa/web"} {
		must.Do(t, ca.Write(f.dir, name, uri))
	}
	releases := filepath.Join(f.dir, "releases")
	must.Do(t, os.Mkdir(releases, 0o700))
	f.store = must.Get(xds.NewDir(releases, releases, nil))(t)
	f.run()
	return f
}

func (f *fleet) public() string {
	return base64.StdEncoding.EncodeToString(f.key.Public().(ed25519.PublicKey))
}

// run starts the control plane.
func (f *fleet) run() {
	f.t.Helper()
	path := filepath.Join(f.dir, "control.yaml")
	conf := fmt.Sprintf(`fleet: north
listen: %s
admin: {listen: %s}
tls: {cert: %[3]s/control.crt, key: %[3]s/control.key, client_ca: %[3]s/ca.crt}
releases: %[3]s/releases
keys: ["%[4]s"]
poll: 10ms
sidecars: [{spiffe: "spiffe://example.org/ns/acme/sa/*", tenant: acme}]
rollout: {stages: []}
`, f.addr, f.admin, f.dir, f.public())
	must.Do(f.t, os.WriteFile(path, []byte(conf), 0o600))
	f.process = start(f.t, f.binary, "control", "--config", path)
	waitFor(f.t, "the control plane listening", accepts(f.admin))
}

// member is the configuration of a sidecar of the fleet, for serve.
func (f *fleet) member(backend string) string {
	return shared(backend, "k", 100000, "") + fmt.Sprintf(`policy:
  control: {address: "%s", fleet: north, keys: ["%s"], node: web-1, tenant: acme, tls: {cert: %[3]s/web.crt, key: %[3]s/web.key, ca: %[3]s/ca.crt}}
`, f.addr, f.public(), f.dir)
}

// publish makes a release; odd ones let writes pass, even ones refuse them.
func (f *fleet) publish(number uint64) {
	f.t.Helper()
	text := "// open\n"
	if number%2 == 0 {
		text = `@id("own.closed") forbid (principal, action == Action::"learn", resource);`
	}
	b := policy.Builtin()
	b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: fmt.Sprintf("// %d\n%s\n", number, text)})
	r := must.Get(policy.SignRelease(b, policy.Statement{Fleet: "north", Number: number, Floor: number}, f.key))(f.t)
	must.Do(f.t, f.store.Publish(r))
}

// running is the number of the release that the sidecar says it runs.
func (f *fleet) running() (number uint64) {
	f.t.Helper()
	a, _ := tryCall("GET", "http://"+f.admin+"/fleet/sidecars", "", "") // without an answer, none
	_, _ = fmt.Sscanf(firstOf(a.body, "running"), "%06d-", &number)
	return number
}

// Proves CARD-9: a sidecar that is killed while releases come starts from the
// last one that ruled, without a control plane, and never from half of one.
func TestKilledWhileReleasesCome(t *testing.T) {
	t.Parallel()
	f := newFleet(t, memproxyBinary(t))
	f.publish(1)
	dir := t.TempDir()
	conf := f.member(startMem0(t).url)
	number := uint64(1)
	for round := range 5 {
		car := serve(t, dir, conf)
		waitFor(t, "the newest release", func() bool { return f.running() == number })
		for range 5 + round {
			number++
			f.publish(number)
		}
		car.kill() // somewhere among them
	}
	f.kill()
	car := serve(t, dir, conf)
	call(t, "GET", car.admin+"/readyz", "", "").want(t, 200, "started without the control plane").has(t, "release 0000")
	a := call(t, "POST", car.base+"/memories", "k", add)
	expect.That(t, a.status == 200 || strings.Contains(a.body, "own.closed"), "%d %s: ruled by something else than a release", a.status, a.body)
}
