//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// mem0Backend is the embedded Mem0 with what was written to it.
type mem0Backend struct {
	http.Handler
	url string
	mu  sync.Mutex
	raw bytes.Buffer
}

func startMem0(t *testing.T) *mem0Backend {
	t.Helper()
	b := must.Get(embedded.New(embedded.Options{}))(t)
	m := &mem0Backend{Handler: b}
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	m.url = srv.URL
	return m
}

func (m *mem0Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a caller that breaks off is answered by the backend
	m.mu.Lock()
	m.raw.Write(body)
	m.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	m.Handler.ServeHTTP(w, r)
}

// sent is how often a text was sent.
func (m *mem0Backend) sent(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Count(m.raw.String(), text)
}

// copyIn gives one installation the keys of another.
func copyIn(t *testing.T, from, to string) {
	t.Helper()
	files := must.Get(os.ReadDir(from))(t)
	for _, f := range files {
		raw := must.Get(os.ReadFile(filepath.Join(from, f.Name())))(t)
		must.Do(t, os.MkdirAll(to, 0o700))
		must.Do(t, os.WriteFile(filepath.Join(to, f.Name()), raw, 0o600)) // a key that others may read is refused
	}
}

// onPostgres is a configuration of sidecars that share a ledger.
func onPostgres(backend, postgres string) string {
	return reviewedBy(sidecarConf("production", "mem0", backend, "", "identity:\n  keys:\n"+keyed("k", "agent:dev", agentOf("acme"))+
		keyed("other", "agent:other", agentOf("other"))+`ledger: {url: "`+postgres+`"}
policy: {dir: "%[3]s/../policies"}
`))
}

const holdsBob = `@id("own.hold") @reason("policy.forbid") @verdict("hold") @detail("Bob's memories are looked at first")
forbid (principal, action in Action::"learn", resource) when { context.user == "bob" };`

// twins are two sidecars on one ledger, with one set of keys.
func twins(t *testing.T, backend, postgres string) (a, b *sidecar) {
	t.Helper()
	conf := onPostgres(backend, postgres)
	one, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, other} {
		writeFile(t, filepath.Join(dir, "policies/own.cedar"), []byte(holdsBob))
	}
	a = serve(t, one, conf)
	copyIn(t, one+"/state/keys", other+"/state/keys")
	b = serve(t, other, conf)
	return a, b
}

func writtenText(text, user string) string {
	return fmt.Sprintf(`{"user_id":%q,"infer":false,"messages":[{"role":"user","content":%q}]}`, user, text)
}

func writtenAt(t *testing.T, car *sidecar, text string) string {
	t.Helper()
	return id(t, call(t, "POST", car.base+"/memories", "k", writtenText(text, "ann")))
}

// Two sidecars on one Postgres agree: whose memories are, what is held, which
// sessions are locked; a hold that was kept by one is approved at the other and
// sent once; a memory's history is one.
//
// Proves SYN-5, SYN-7, MFW-7, EDGE-11.
func TestTwoSidecarsOnOnePostgres(t *testing.T) {
	t.Parallel()
	addr := freeport.Addr(t)
	startPostgres(t, t.TempDir(), addr)
	back := startMem0(t)
	a, b := twins(t, back.url, postgresURL(addr))
	id := writtenAt(t, a, "Ann likes tea.")
	call(t, "GET", b.base+"/memories/"+id, "k", "").want(t, 200, "the owner, at the other")
	for name, car := range map[string]*sidecar{"where it was written": a, "at the other": b} {
		call(t, "GET", car.base+"/memories/"+id, "other", "").want(t, 404, "another tenant", name)
	}
	call(t, "PUT", b.base+"/memories/"+id, "k", `{"text":"Ann likes coffee."}`).want(t, 200)
	waitFor(t, "one history", func() bool {
		return a.history(t, "mem0", id) == "write update" && b.history(t, "mem0", id) == "write update"
	})

	held := call(t, "POST", a.base+"/memories", "k", writtenText("Bob sails.", "bob"))
	must.That(t, strings.HasPrefix(held.header.Get("X-Memproxy-Decision"), "hold"), "%d %s", held.status, held.body)
	hold := decisionID(held)
	done := make(chan int, 2)
	for _, car := range []*sidecar{b, a} { // both at once
		go func() {
			got, err := tryCall("POST", car.admin+"/v1/holds/"+hold+"/approve", "", `{"reason":"harmless"}`, "Authorization", "Bearer "+reviewToken)
			expect.OK(t, err)
			done <- got.status
		}()
	}
	<-done
	<-done
	waitFor(t, "the approved write", func() bool {
		return strings.Contains(call(t, "GET", b.admin+"/v1/holds/"+hold, "", "", "Authorization", "Bearer "+reviewToken).body, `"done"`)
	})
	expect.Equal(t, back.sent("Bob sails."), 1, "sent")

	refused := writtenText(attack, "ann")
	for i := range 3 {
		car := []*sidecar{a, b}[i%2]
		call(t, "POST", car.base+"/memories", "k", refused, "X-Memproxy-Session", "s1").want(t, 403)
	}
	for _, car := range []*sidecar{a, b} {
		call(t, "POST", car.base+"/memories", "k", writtenText("Ann rows.", "ann"), "X-Memproxy-Session", "s1").want(t, 403, "a session that was locked by both").has(t, "session.locked")
	}
}

// While Postgres is slow or away, reads go on with what is known of memories
// being unknown, and writes that need the ledger are answered 503 within their
// deadlines; afterwards all goes on by itself.
//
// Proves SYN-5, EDGE-11.
func TestSidecarSurvivesPostgres(t *testing.T) {
	t.Parallel()
	addr, dir := freeport.Addr(t), t.TempDir()
	server := startPostgres(t, dir, addr)
	line := startRelay(t, addr)
	back := startMem0(t)
	home := t.TempDir()
	writeFile(t, filepath.Join(home, "policies/own.cedar"), []byte(holdsBob))
	car := serve(t, home, onPostgres(back.url, postgresURL(line.addr)))
	id := writtenAt(t, car, "Ann likes tea.")
	change := func() answer { return call(t, "PUT", car.base+"/memories/"+id, "k", `{"text":"Ann likes coffee."}`) }
	hold := func() answer { return call(t, "POST", car.base+"/memories", "k", writtenText("Bob sails.", "bob")) }
	change().want(t, 200)
	for _, away := range []struct {
		name       string
		begin, end func()
	}{
		{"slow", line.stall, line.flow},
		{"restarted", server.stop, func() { startPostgres(t, dir, addr) }},
	} {
		away.begin()
		sent := back.sent("coffee")
		change().want(t, 503, away.name, "a change").has(t, "ledger.unavailable")
		expect.Equal(t, back.sent("coffee"), sent, away.name, "a change whose owner is unknown reached the backend")
		hold().want(t, 503, away.name, "a hold that cannot be kept")
		expect.Equal(t, back.sent("Bob sails."), 0, away.name, "a hold that cannot be kept")
		start := time.Now()
		call(t, "GET", car.base+"/memories?user_id=ann", "k", "").want(t, 200, away.name, "a read")
		took := time.Since(start)
		expect.That(t, took <= 30*time.Second, "%s: a read took %v", away.name, took)
		away.end()
		waitFor(t, "the sidecar's recovery from "+away.name, func() bool { return change().status == 200 })
	}
}

// What a person decided stays decided through every loop, with production's
// intervals, where the ledger is Postgres as well: the test of it runs in its
// own package, here with a database.
//
// Proves EDGE-15, SYN-9, DOL-3
func TestDecisionsOutliveTheLoopsOnPostgres(t *testing.T) {
	t.Parallel()
	addr := freeport.Addr(t)
	startPostgres(t, t.TempDir(), addr)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "^TestReviewDecisionsSurviveBackgroundLoops$", "./app")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "MEMPROXY_TEST_POSTGRES="+postgresURL(addr))
	out, err := cmd.CombinedOutput()
	must.Do(t, err, out)
	expect.Text(t, string(out), "it did not run on Postgres").Has("--- PASS: TestReviewDecisionsSurviveBackgroundLoops/Postgres")
}

// runPostgres is the database that Letta's server is installed with, started
// by the same script. On SIGTERM it closes its connections and ends.
const runPostgres = `set -eu
. letta/lib.sh
[ -d "$1/pg" ] || cp -a "$template/pg" "$1/pg"
rm -f "$1/pg/postmaster.pid"
start_postgres "$1/pg" "$2"
trap 'kill -INT "${pids[0]}"; wait; exit 0' TERM
echo POSTGRES_READY
wait`

// startPostgres starts a Postgres with the data of a directory and returns its
// process.
func startPostgres(t *testing.T, dir, addr string) *process {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	must.Do(t, err)
	p := start(t, "bash", "-c", runPostgres, "run-postgres", dir, port)
	waitFor(t, "Postgres", func() bool { return strings.Contains(p.log.String(), "POSTGRES_READY") })
	return p
}

func postgresURL(addr string) string {
	return "postgres://letta:letta@" + addr + "/letta?sslmode=disable"
}

// The ledger's contract, twice on one database: what one proxy writes the
// other sees, and of two that claim a hold one gets it.
//
// Proves SYN-5, SYN-7, SYN-9, TRL-5, TRL-7, TRL-9, EDGE-11.
func TestLedgerOnPostgres(t *testing.T) {
	t.Parallel()
	addr := freeport.Addr(t)
	startPostgres(t, t.TempDir(), addr)
	ledgertest.RunPostgres(t, postgresURL(addr))
}

// relay passes bytes on to an address until it is told to stand still.
type relay struct {
	addr string
	mu   sync.Mutex
	open chan struct{} // closed: bytes flow
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = ln.Close() })
	r := &relay{addr: ln.Addr().String(), open: make(chan struct{})}
	close(r.open)
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			go r.pass(far, near)
			go r.pass(near, far)
		}
	}()
	return r
}

func (r *relay) gate() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

func (r *relay) stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = make(chan struct{})
}

func (r *relay) flow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.open)
}

func (r *relay) pass(to io.WriteCloser, from io.ReadCloser) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		<-r.gate()
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
