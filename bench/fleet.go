package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/envoy/xds/follow"
	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/policy"
)

// The fleet's measurements: one control plane, as the binary it ships as, with
// many sidecars. The sidecars are simulated in this process: each has its own
// mutually authenticated connection, verifies each release and acknowledges it;
// it does not compile policies, which a machine would do for one sidecar and
// not for thousands. One sidecar is the real binary, for the time from an
// update to its first use.

// fleetLab is a control plane with its releases.
type fleetLab struct {
	*lab
	ca      *xdstest.CA
	key     ed25519.PrivateKey
	store   *xds.Dir
	control string // address
	number  uint64
	proc    *exec.Cmd
	sims    []*follow.Follower
	took    chan string // names of releases, one for each that a sidecar took
}

func benchFleet(ctx context.Context, sidecars int, report string) error {
	f, err := newFleetLab(ctx, sidecars)
	defer f.close()
	if err != nil {
		return err
	}
	var b strings.Builder
	say := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		fmt.Fprintln(os.Stderr, line)
		b.WriteString(line + "\n")
	}
	say("%d sidecars, %s %s/%s, %d cores shared by the control plane and all sidecars.\n", sidecars, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	say("| | time | control plane's CPU | its memory |\n|---|--:|--:|--:|")
	row := func(what string, took time.Duration, cpu time.Duration) {
		say("| %s | %.2f s | %.2f s | %.0f MiB |", what, took.Seconds(), cpu.Seconds(), float64(rss(f.proc.Process.Pid))/1024)
	}
	size, err := f.publish()
	if err != nil {
		return err
	}
	row("before anybody connects", 0, cpuOf(f.proc.Process.Pid))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin, cpu := time.Now(), cpuOf(f.proc.Process.Pid)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, s := range f.sims {
		running.Go(func() { s.Run(ctx) })
	}
	if err := f.all(2 * time.Minute); err != nil {
		return err
	}
	row("all connect at once and take their first release", time.Since(begin), cpuOf(f.proc.Process.Pid)-cpu)
	for i := range 3 {
		begin, cpu = time.Now(), cpuOf(f.proc.Process.Pid)
		if _, err := f.publish(); err != nil {
			return err
		}
		if err := f.all(time.Minute); err != nil {
			return err
		}
		row(fmt.Sprintf("a release of %d KiB to all, %d", size>>10, i+1), time.Since(begin), cpuOf(f.proc.Process.Pid)-cpu)
	}
	if err := f.storm(row); err != nil {
		return err
	}
	begin, cpu = time.Now(), cpuOf(f.proc.Process.Pid)
	time.Sleep(10 * time.Second)
	row("ten quiet seconds", time.Since(begin), cpuOf(f.proc.Process.Pid)-cpu)
	cancel()
	running.Wait()
	if err := f.firstUse(ctx, say); err != nil {
		return err
	}
	return publish(b.String(), report)
}

func newFleetLab(ctx context.Context, sidecars int) (*fleetLab, error) {
	l, err := openLab(ctx)
	f := &fleetLab{lab: l, took: make(chan string, 4*sidecars)}
	if err != nil {
		return f, err
	}
	dir := f.dir
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return f, err
	}
	f.key = key
	if f.ca, err = xdstest.NewCA(); err != nil {
		return f, err
	}
	for _, name := range []string{"control", "sidecar"} {
		if err := f.ca.Write(dir, name); err != nil {
			return f, err
		}
	}
	releases := filepath.Join(dir, "releases")
	if err := os.Mkdir(releases, 0o755); err != nil {
		return f, err
	}
	if f.store, err = xds.NewDir(releases, releases, nil); err != nil {
		return f, err
	}
	f.control = f.port()
	if err := f.start(); err != nil {
		return f, err
	}
	conf, err := f.ca.Client("sidecar")
	if err != nil {
		return f, err
	}
	conf.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	for i := range sidecars {
		s, err := follow.New(follow.Options{
			Address: f.control, TLS: conf, Node: fleetpb.Node{ID: fmt.Sprintf("sim-%04d", i)}, Fleet: "bench",
			Keys: []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}, Path: filepath.Join(dir, "never-written"),
			Apply:  func(r *policy.Release, _ func() error) error { f.took <- r.Name(); return nil },
			Counts: func(bool) []follow.Count { return nil }, Jitter: rand.Float64,
		})
		if err != nil {
			return f, err
		}
		f.sims = append(f.sims, s)
	}
	return f, nil
}

func (f *fleetLab) public() string {
	return base64.StdEncoding.EncodeToString(f.key.Public().(ed25519.PublicKey))
}

// start runs the control plane.
func (f *fleetLab) start() error {
	conf := fmt.Sprintf(`fleet: bench
listen: %s
admin: {listen: %s}
tls: {cert: %[3]s/control.crt, key: %[3]s/control.key, client_ca: %[3]s/ca.crt}
releases: %[3]s/releases
keys: ["%[4]s"]
poll: 10ms
sidecars: [{common_name: sidecar}]
rollout: {stages: []}
log: {level: error}
`, f.control, f.port(), f.dir, f.public())
	if _, err := f.configured("control", f.control, conf, "control"); err != nil {
		return err
	}
	f.proc = f.procs[len(f.procs)-1]
	return nil
}

// publish makes the next release: the built-in rules with a line of its own.
// Even ones refuse writes.
func (f *fleetLab) publish() (size int, err error) {
	f.number++
	text := fmt.Sprintf("// release %d\n@id(\"bench.none\") forbid (principal, action, resource) when { false };\n", f.number)
	if f.number%2 == 0 {
		text = fmt.Sprintf("// release %d\n@id(\"bench.closed\") forbid (principal, action == Action::\"learn\", resource);\n", f.number)
	}
	b := policy.Builtin()
	b.Policies = append(b.Policies, policy.Source{Name: "bench.cedar", Text: text})
	r, err := policy.SignRelease(b, policy.Statement{Fleet: "bench", Number: f.number, Floor: f.number}, f.key)
	if err != nil {
		return 0, err
	}
	return len(r.Encoded()), f.store.Publish(r)
}

// all waits until every simulated sidecar took the newest release.
func (f *fleetLab) all(limit time.Duration) error {
	deadline := time.After(limit)
	prefix := fmt.Sprintf("%06d-", f.number)
	for n := 0; n < len(f.sims); {
		select {
		case name := <-f.took:
			if strings.HasPrefix(name, prefix) {
				n++
			}
		case <-deadline:
			return fmt.Errorf("%d of %d sidecars took release %d within %s", n, len(f.sims), f.number, limit)
		}
	}
	return nil
}

// storm kills the control plane under its sidecars and starts it again.
func (f *fleetLab) storm(row func(string, time.Duration, time.Duration)) error {
	if err := f.proc.Process.Kill(); err != nil {
		return err
	}
	_ = f.proc.Wait() // killed
	if err := f.until(time.Minute, func(s follow.State) bool { return !s.Connected }); err != nil {
		return fmt.Errorf("the loss: %w", err)
	}
	begin := time.Now()
	if err := f.start(); err != nil {
		return err
	}
	if err := f.until(2*time.Minute, func(s follow.State) bool { return s.Connected }); err != nil {
		return fmt.Errorf("the storm: %w", err)
	}
	row("the control plane is killed and started; all are back", time.Since(begin), cpuOf(f.proc.Process.Pid))
	return nil
}

func (f *fleetLab) until(limit time.Duration, is func(follow.State) bool) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		n := 0
		for _, s := range f.sims {
			if is(s.State()) {
				n++
			}
		}
		if n == len(f.sims) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d sidecars within %s", n, len(f.sims), limit)
		}
	}
}

var errNoUse = errors.New("a release was not in use within ten seconds")

// firstUse measures, at one real sidecar, from the moment a release is put into
// the directory to the first answer that it rules.
func (f *fleetLab) firstUse(_ context.Context, say func(string, ...any)) error {
	backend, addr := f.port(), f.port()
	if _, err := f.run("backend", backend, f.self, "backend", backend); err != nil {
		return err
	}
	control := fmt.Sprintf(`policy:
  control: {address: %s, fleet: bench, keys: ["%s"], node: real, tls: {cert: %[3]s/sidecar.crt, key: %[3]s/sidecar.key, ca: %[3]s/ca.crt}}`, f.control, f.public(), f.dir)
	if _, err := f.sidecar("member", addr, mem0At(addr, backend), []string{benchIdentity, benchBudgets, control}, "serve"); err != nil {
		return err
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	asked := newAsker(conn)
	var times []time.Duration
	const rounds = 51
	for i := range rounds {
		if _, err := f.publish(); err != nil {
			return err
		}
		begin, want := time.Now(), 200
		if f.number%2 == 0 {
			want = 403
		}
		for {
			status, err := asked.ask()
			if err != nil {
				return err
			}
			if status == want {
				break
			}
			if time.Since(begin) > 10*time.Second {
				return errNoUse
			}
		}
		if i > 0 { // the first finds the sidecar still starting
			times = append(times, time.Since(begin))
		}
	}
	p50, worst := quantiles(times)
	say("\nFrom a release in the directory to the first answer that it rules, at one real sidecar, %d times: p50 %.0f ms, worst %.0f ms. The control plane looks at the directory every 10 ms here.", len(times), ms(p50), ms(worst))
	return nil
}

// asker sends the add of the other measurements over one connection.
type asker struct {
	conn net.Conn
	in   *bufio.Reader
	req  []byte
}

func newAsker(conn net.Conn) *asker {
	return &asker{conn: conn, in: bufio.NewReader(conn), req: request(fact)}
}

// ask sends one add and returns the answer's status.
func (a *asker) ask() (int, error) {
	if err := a.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := a.conn.Write(a.req); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(a.in, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// quantiles are the median and the highest.
func quantiles(times []time.Duration) (p50, worst time.Duration) {
	s := slices.Sorted(slices.Values(times))
	return s[len(s)/2], s[len(s)-1]
}
