//go:build e2e

package e2e

import (
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
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
