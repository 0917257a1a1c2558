//go:build e2e

package e2e

import (
	"fmt"
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
