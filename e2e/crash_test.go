//go:build e2e

package e2e

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

// Proves CARD-7, SYN-6: serve is killed under load, again and again; every
// write that was answered has its record, the log verifies, and the next start
// goes on where it ended.
func TestKilledUnderLoad(t *testing.T) {
	dir := t.TempDir()
	conf := shared(startMem0(t).url, "k", 100000, "")
	var mu sync.Mutex
	var acked []string
	for round := range 3 {
		car := serve(t, dir, conf)
		var stop atomic.Bool
		var wg sync.WaitGroup
		var n atomic.Int64
		for range 16 {
			wg.Go(func() {
				for !stop.Load() {
					a, err := tryCall("POST", car.base+"/memories", "k", add)
					if err != nil {
						return // killed
					}
					id := decisionID(a)
					if a.status != 200 || id == "" {
						t.Errorf("%d %s", a.status, a.body)
						return
					}
					n.Add(1)
					mu.Lock()
					acked = append(acked, id)
					mu.Unlock()
				}
			})
		}
		waitFor(t, "load", func() bool { return n.Load() > 300 })
		must.Do(t, car.cmd.Process.Kill())
		stop.Store(true)
		wg.Wait()
		_ = car.cmd.Wait() // killed
		t.Logf("round %d: %d writes answered", round, n.Load())
	}
	car := serve(t, dir, conf) // repairs
	call(t, "POST", car.base+"/memories", "k", add).want(t, 200, "after three crashes")
	car.stop()
	car.verifyAudit(t)
	car.recorded(t, acked)
	expect.That(t, len(acked) >= 900, "only %d writes: the test does not do its work", len(acked))
	if car.audit(t, "--type", "repair") == "" {
		t.Log("no crash left anything to repair") // possible, not likely
	}
}

// recorded fails the test for each of the decisions that is in no record.
func (s *sidecar) recorded(t *testing.T, decisions []string) {
	t.Helper()
	of := map[string]bool{}
	for _, id := range regexp.MustCompile(`"decision":"([^"]+)"`).FindAllStringSubmatch(s.audit(t), -1) {
		of[id[1]] = true
	}
	for _, id := range decisions {
		expect.Equal(t, of[id], true, id, "is on record")
	}
}

func decisionID(a answer) string {
	_, id, _ := strings.Cut(a.header.Get("X-Memproxy-Decision"), "id=")
	id, _, _ = strings.Cut(id, ";")
	return id
}

// Proves CARD-7: SIGTERM lets what is in flight finish, and closes the log so
// that nothing is left to repair.
func TestTermDrains(t *testing.T) {
	t.Parallel()
	backend := startSlowBackend(t, time.Second)
	car := serve(t, t.TempDir(), shared(backend.url, "k", 100000, ""))
	answers := make(chan answer, 1)
	go func() {
		a, err := tryCall("POST", car.base+"/memories", "k", add)
		expect.OK(t, err, "in flight when stopped")
		answers <- a
	}()
	<-backend.arrived
	car.stop()
	(<-answers).want(t, 200, "in flight when stopped")
	expect.Text(t, car.audit(t)).Has(`"type":"outcome"`, `"type":"stop"`)
}

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
