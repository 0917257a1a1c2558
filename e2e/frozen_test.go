//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
)

// family is a process and all that it has begun.
func family(t *testing.T, root int) []int {
	t.Helper()
	out := []int{root}
	paths := must.Get(filepath.Glob("/proc/[0-9]*/stat"))(t)
	parents := map[int][]int{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		fields := strings.Fields(rest)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if len(fields) > 1 {
			ppid, _ := strconv.Atoi(fields[1])
			parents[ppid] = append(parents[ppid], pid)
		}
	}
	for i := 0; i < len(out); i++ {
		out = append(out, parents[out[i]]...)
	}
	return out
}

// signalPostgres sends a signal to the server of a directory and all of its
// backends.
func signalPostgres(t *testing.T, dir string, sig syscall.Signal) {
	t.Helper()
	raw := must.Get(os.ReadFile(filepath.Join(dir, "pg", "postmaster.pid")))(t)
	pid := must.Get(strconv.Atoi(strings.SplitN(string(raw), "\n", 2)[0]))(t)
	for _, p := range family(t, pid) {
		_ = syscall.Kill(p, sig) // one may have ended
	}
}

// A real Postgres that is frozen, with its connections open, costs a request one
// deadline and the next ones nothing; /readyz names it in time, and liveness is
// not touched. When it thaws, all goes on by itself.
//
// Proves CARD-8, EDGE-14.
func TestFrozenPostgresCostsOneDeadline(t *testing.T) {
	t.Parallel()
	addr, dir := freeport.Addr(t), t.TempDir()
	startPostgres(t, dir, addr)
	back := startMem0(t)
	home := t.TempDir()
	writeFile(t, filepath.Join(home, "policies/own.cedar"), []byte(holdsBob))
	car := serve(t, home, onPostgres(back.url, postgresURL(addr)))
	for i := range 5 {
		writtenAt(t, car, fmt.Sprintf("Ann likes tea number %d.", i))
	}
	list := func() (answer, time.Duration) {
		begun := time.Now()
		a := call(t, "GET", car.base+"/memories?user_id=ann", "k", "")
		return a, time.Since(begun)
	}
	if a, took := list(); a.status != 200 || !strings.Contains(a.body, "tea number 4") {
		t.Fatalf("%d after %v: %s", a.status, took, a.body)
	}
	signalPostgres(t, dir, syscall.SIGSTOP)
	thawed := false
	thaw := func() {
		if !thawed {
			thawed = true
			signalPostgres(t, dir, syscall.SIGCONT)
		}
	}
	t.Cleanup(thaw)                                                 // or it cannot be stopped
	const deadline, busy = 2 * time.Second, 1500 * time.Millisecond // what a busy machine adds
	var slow int
	for i := range 6 {
		_, took := list()
		expect.That(t, took <= deadline+busy, "list %d took %v", i, took)
		if took > deadline/2 {
			slow++
		}
	}
	if slow > 4 { // the first, and one whenever it is asked again
		t.Errorf("%d of 6 lists waited", slow)
	}
	call(t, "PUT", car.base+"/memories/unknown", "k", `{"text":"x"}`).want(t, 503, "a write that needs the ledger")
	for range 3 {
		begun := time.Now()
		ready := call(t, "GET", car.admin+"/readyz", "", "")
		if took := time.Since(begun); took > time.Second+busy/3 || ready.status != 503 || !strings.Contains(ready.body, `"name":"ledger","ok":false`) || !strings.Contains(ready.body, `"name":"audit","ok":true`) {
			t.Errorf("readyz after %v: %d %s", took, ready.status, ready.body)
		}
		call(t, "GET", car.admin+"/healthz", "", "").want(t, 200, "healthz")
	}
	thaw()
	waitFor(t, "the sidecar to go on", func() bool {
		a, _ := list()
		return a.status == 200 && strings.Contains(a.body, "tea number 4") && call(t, "GET", car.admin+"/readyz", "", "").status == 200
	})
}

// Postgres is frozen after a change left for the backend and before its outcome is in the
// ledger: the caller has its answer within the deadlines, and once Postgres thaws the
// ledger knows what the backend has: nothing that memproxy wrote is named as changed
// around it, and what was deleted is gone.
//
// Proves EDGE-4, EDGE-14, SYN-5.
func TestPostgresFrozenInMidRequest(t *testing.T) {
	t.Parallel()
	addr, dir := freeport.Addr(t), t.TempDir()
	startPostgres(t, dir, addr)
	mem0 := startMem0(t)
	back := &lateAnswers{Handler: mem0, made: make(chan struct{}), free: make(chan struct{})}
	srv := httptest.NewServer(back)
	t.Cleanup(srv.Close)
	home := t.TempDir()
	writeFile(t, filepath.Join(home, "policies/own.cedar"), []byte(holdsBob))
	car := serve(t, home, onPostgres(srv.URL, postgresURL(addr)))
	changed, deleted := writtenAt(t, car, "Ann likes tea."), writtenAt(t, car, "Ann likes milk.")
	t.Cleanup(func() { signalPostgres(t, dir, syscall.SIGCONT) }) // or it cannot be stopped
	var made string
	for _, c := range []struct{ method, path, body, history string }{
		{"POST", "/memories", writtenText("Ann likes beer.", "ann"), "write"},
		{"PUT", "/memories/" + changed, `{"text":"Ann likes wine."}`, "write update"},
		{"DELETE", "/memories/" + deleted, "", "write delete"},
	} {
		done := make(chan answer)
		go func() {
			a, err := tryCall(c.method, car.base+c.path, "k", c.body, "X-Late", "1")
			expect.OK(t, err)
			done <- a
		}()
		<-back.made
		signalPostgres(t, dir, syscall.SIGSTOP)
		begun := time.Now()
		back.free <- struct{}{}
		a := <-done
		t.Logf("%s: %d after %v", c.method, a.status, time.Since(begun))
		took := time.Since(begun)
		expect.That(t, took <= 20*time.Second && (a.status == 200 || a.status == 503), "%s: %d %s after %v", c.method, a.status, a.body, took)
		if _, id, ok := strings.Cut(a.body, `"id":"`); ok && c.method == "POST" {
			made = id[:36]
		}
		signalPostgres(t, dir, syscall.SIGCONT)
		waitFor(t, "Postgres to be taken up again", func() bool { return call(t, "GET", car.admin+"/readyz", "", "").status == 200 })
		id := map[string]string{"POST": made, "PUT": changed, "DELETE": deleted}[c.method]
		waitFor(t, "the outcome in the history", func() bool {
			h := car.history(t, "mem0", id)
			return h == c.history
		})
	}
	list := call(t, "GET", car.base+"/memories?user_id=ann", "k", "")
	if list.status != 200 || list.header.Get("X-Memproxy-Unverified") != "" || !strings.Contains(list.body, "wine") || !strings.Contains(list.body, "beer") || strings.Contains(list.body, "milk") {
		t.Errorf("%d %v %s", list.status, list.header, list.body)
	}
	for _, text := range []string{"beer", "wine"} {
		expect.Equal(t, mem0.sent("Ann likes "+text), 1, text, "was sent")
	}
}

// The real Mem0 is frozen with a write of ours: the caller is told within the deadline, in
// the backend's dialect, that it did not answer; when it thaws, the write is there once at
// most, nothing is sent again, and the next one goes through.
//
// Proves EDGE-14, EDGE-15.
func TestBackendFrozenInMidRequest(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), strings.Replace(shared(eng.base, "m0sk_e2e", 100, ""), eng.base+`"`, eng.base+`", timeouts: {upstream: 3s}`, 1))
	call(t, http.MethodPost, car.base+"/memories", "m0sk_e2e", add).want(t, 200)
	all := family(t, eng.cmd.Process.Pid)
	signal := func(sig syscall.Signal) {
		for _, p := range all {
			_ = syscall.Kill(p, sig) // one may have ended
		}
	}
	signal(syscall.SIGSTOP)
	t.Cleanup(func() { signal(syscall.SIGCONT) }) // or it cannot be stopped
	begun := time.Now()
	a := call(t, http.MethodPost, car.base+"/memories", "m0sk_e2e", strings.Replace(add, "note", "frozen", 1))
	var body struct{ Detail string }
	took := time.Since(begun)
	expect.That(t, (a.status == 504 || a.status == 502) && took <= 8*time.Second && json.Unmarshal([]byte(a.body), &body) == nil && body.Detail != "",
		"%d %s after %v", a.status, a.body, took)
	call(t, http.MethodGet, car.admin+"/readyz", "", "").want(t, 200, "readiness")
	signal(syscall.SIGCONT)
	waitFor(t, "the backend to be taken up again", func() bool {
		return call(t, http.MethodPost, car.base+"/memories", "m0sk_e2e", strings.Replace(add, "note", "thawed", 1)).status == 200
	})
	sent := 0
	for _, r := range eng.requests(t) {
		if strings.Contains(string(r.Body), "frozen") {
			sent++
		}
	}
	expect.That(t, sent <= 1, "sent %d times", sent)
}
