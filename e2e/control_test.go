//go:build e2e

package e2e

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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
	if _, f.key, err = ed25519.GenerateKey(nil); err != nil {
		t.Fatal(err)
	}
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
	conf := fmt.Sprintf(strings.Replace(sharedConfig, `, redis: {url: "%s"}`, "", 1), backend, sha("k"), 100000000)
	conf = strings.Replace(conf, "writes_total: 100000}", "writes_total: 100000000}", 1)
	return conf + fmt.Sprintf(`policy:
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
	if number > 10 { // nobody can go back there any more
		for _, kind := range [...]string{"release", "done"} {
			_ = os.Remove(filepath.Join(f.dir, "releases", fmt.Sprintf("%06d.%s", number-10, kind))) // may not have been marked
		}
	}
}

// running is the number of the release that the sidecar says it runs.
func (f *fleet) running() (number uint64) {
	f.t.Helper()
	a, err := tryCall("GET", "http://"+f.admin+"/fleet/sidecars", "", "")
	if err != nil {
		return 0
	}
	var list []xds.SidecarStatus
	must.Do(f.t, json.Unmarshal([]byte(a.body), &list))
	for _, s := range list {
		_, _ = fmt.Sscanf(s.Running, "%06d-", &number)
	}
	return number
}

// serveWith is serve with another binary.
func serveWith(t *testing.T, binary, dir, config string) *sidecar {
	t.Helper()
	s := &sidecar{dir: dir}
	listen, admin := freeport.Addr(t), freeport.Addr(t)
	path := filepath.Join(dir, "memproxy.yaml")
	must.Do(t, os.WriteFile(path, fmt.Appendf(nil, config, listen, admin, filepath.Join(dir, "state")), 0o600))
	s.base, s.admin = "http://"+listen, "http://"+admin
	s.process = start(t, binary, "serve", "--config", path)
	waitFor(t, "memproxy listening", accepts(listen))
	return s
}

// Proves CARD-3, CARD-9: a thousand releases under load. Every request is
// answered, by one version; the control plane is killed on the way and nobody
// notices.
func TestThousandReleases(t *testing.T) {
	t.Parallel()
	const releases = 1000
	// Without the race detector, under which a release takes half a second; the
	// same with thirty releases and the detector is a quick test of cmd/memproxy.
	fast := filepath.Join(t.TempDir(), "memproxy")
	if out, code := run(t, nil, "go", "build", "-o", fast, "github.com/memproxy/memproxy/cmd/memproxy"); code != 0 {
		t.Fatal(out)
	}
	f := newFleet(t, fast)
	f.publish(1)
	dir := t.TempDir()
	car := serveWith(t, fast, dir, f.member(startBackend(t)))
	waitFor(t, "the first release", func() bool { return f.running() == 1 })
	var stop atomic.Bool
	var answered atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				a, err := tryCall("POST", car.base+"/memories", "k", add)
				if err != nil {
					t.Errorf("dropped: %v", err)
					return
				}
				if answered.Add(1); a.status != 200 && !(a.status == 403 && strings.Contains(a.body, "own.closed")) {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
	for n := uint64(2); n <= releases; n++ {
		f.publish(n)
		if n == releases/2 {
			f.kill()
			f.run()
		}
		waitFor(t, fmt.Sprintf("release %d", n), func() bool { return f.running() == n })
	}
	stop.Store(true)
	wg.Wait()
	car.stop()
	audit := filepath.Join(dir, "state", "audit")
	if out, code := run(t, nil, memproxyBinary(t), "audit", "verify", "--dir", audit); code != 0 {
		t.Fatalf("verify: exit %d, %s", code, out)
	}
	out, code := run(t, nil, memproxyBinary(t), "audit", "query", "--dir", audit, "--type", "decision", "--json")
	must.Equal(t, code, 0, "query: exit")
	verdicts, decisions := map[string]string{}, int64(0)
	for _, line := range lines(out) {
		var rec struct{ Policy, Verdict string }
		must.Do(t, json.Unmarshal([]byte(line), &rec), line)
		if decisions++; rec.Verdict == "amend" {
			rec.Verdict = "allow" // stamped
		}
		if was, seen := verdicts[rec.Policy]; seen && was != rec.Verdict {
			t.Fatalf("version %s gave both %s and %s", rec.Policy, was, rec.Verdict)
		}
		verdicts[rec.Policy] = rec.Verdict
	}
	expect.Equal(t, decisions, answered.Load())
	t.Logf("%d requests under %d of %d versions", decisions, len(verdicts), releases)
	if len(verdicts) < releases/2 {
		t.Errorf("%d versions ruled of %d: there was no load on most", len(verdicts), releases)
	}
}

// Proves CARD-9: a sidecar that is killed while releases come starts from the
// last one that ruled, without a control plane, and never from half of one.
func TestKilledWhileReleasesCome(t *testing.T) {
	t.Parallel()
	f := newFleet(t, memproxyBinary(t))
	f.publish(1)
	dir := t.TempDir()
	conf := f.member(startBackend(t))
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
	if a := call(t, "POST", car.base+"/memories", "k", add); a.status != 200 && !strings.Contains(a.body, "own.closed") {
		t.Errorf("%d %s: ruled by something else than a release", a.status, a.body)
	}
}
