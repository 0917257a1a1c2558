//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
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
	backend := startBackend(t)
	dir := t.TempDir()
	conf := fmt.Sprintf(strings.Replace(sharedConfig, `, redis: {url: "%s"}`, "", 1), backend, sha("k"), 100000)
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
	audit := filepath.Join(dir, "state", "audit")
	if out, code := run(t, nil, memproxyBinary(t), "audit", "verify", "--dir", audit); code != 0 {
		t.Fatalf("verify: exit %d, %s", code, out)
	}
	out, code := run(t, nil, memproxyBinary(t), "audit", "query", "--dir", audit, "--type", "decision", "--json")
	must.Equal(t, code, 0, "query: exit")
	recorded := map[string]bool{}
	for _, line := range lines(out) {
		var rec struct {
			Decision string `json:"decision"`
		}
		must.Do(t, json.Unmarshal([]byte(line), &rec), line)
		recorded[rec.Decision] = true
	}
	for _, id := range acked {
		if !recorded[id] {
			t.Errorf("write %s was answered and has no record", id)
		}
	}
	if len(acked) < 900 {
		t.Errorf("only %d writes: the test does not do its work", len(acked))
	}
	if out, _ := run(t, nil, memproxyBinary(t), "audit", "query", "--dir", audit, "--type", "repair", "--json"); len(lines(out)) == 0 {
		t.Log("no crash left anything to repair") // possible, not likely
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
	dir := t.TempDir()
	conf := fmt.Sprintf(strings.Replace(sharedConfig, `, redis: {url: "%s"}`, "", 1), backend.url, sha("k"), 100000)
	car := serve(t, dir, conf)
	answers := make(chan answer, 1)
	go func() {
		a, err := tryCall("POST", car.base+"/memories", "k", add)
		expect.OK(t, err, "in flight when stopped")
		answers <- a
	}()
	<-backend.arrived
	car.stop()
	(<-answers).want(t, 200, "in flight when stopped")
	audit := filepath.Join(dir, "state", "audit")
	out, code := run(t, nil, memproxyBinary(t), "audit", "query", "--dir", audit, "--json")
	if code != 0 || !strings.Contains(out, `"type":"outcome"`) || !strings.Contains(out, `"type":"stop"`) {
		t.Errorf("exit %d: want the outcome and the stop recorded: %s", code, out)
	}
}
