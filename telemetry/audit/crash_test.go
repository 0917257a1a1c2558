package audit_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

const childEnv = "AUDIT_CRASH_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

func crashOptions(dir string) audit.Options {
	return audit.Options{
		Reserve: 64 << 10,
		Dir:     dir, Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, ed25519.SeedSize)), Origin: "crash.example/log",
		CheckpointEvery: 3 * time.Millisecond,
	}
}

// child writes until it is killed, and prints acknowledged records.
func child(dir string) {
	l, err := audit.Open(crashOptions(dir))
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	for w := range 16 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)
				if err := l.Record(context.Background(), memproxy.Event{Type: memproxy.EventDecision, Decision: id, Time: time.Now()}); err != nil {
					fmt.Println("error", err)
					os.Exit(1)
				}
				_ = l.RecordAsync(memproxy.Event{Type: memproxy.EventOutcome, Decision: id, Status: 200})
				mu.Lock()
				fmt.Println("ack", id)
				mu.Unlock()
			}
		}()
	}
	select {}
}

// Proves CARD-7: after kill -9 at any moment under load, every acknowledged record is
// in the log once, and the log verifies.
func TestKillNine(t *testing.T) {
	ring.Slow(t, "kills processes")
	if testing.Short() {
		t.Skip("kills a dozen children")
	}
	dir := t.TempDir()
	acked := map[string]int{} // how often the log has the record, by its decision
	rng := rand.New(rand.NewPCG(4, 19))
	for range 12 {
		crash(t, dir, 200+rng.IntN(900), acked)
	}
	opt := crashOptions(dir)
	l := must.Get(audit.Open(opt))(t)
	must.Do(t, l.Close(context.Background()))
	vkey := must.Get(audit.VerifierKey(opt.Origin, opt.Key.Public().(ed25519.PublicKey)))(t)
	rep, err := verify.Verify(context.Background(), verify.Options{Dir: dir, Key: vkey})
	if err != nil || !rep.OK() || rep.Pending != 0 {
		t.Fatalf("after the crashes: %+v (%v)", rep, err)
	}
	repairs := 0
	must.Do(t, query.Query(context.Background(), dir, query.Filter{}, func(r *verify.Record) error {
		if r.Type == string(memproxy.EventRepair) {
			repairs++
		}
		if _, ok := acked[r.Decision]; ok && r.Type == string(memproxy.EventDecision) {
			acked[r.Decision]++
		}
		return nil
	}))
	for id, times := range acked {
		expect.Equal(t, times, 1, "how often the log has the acknowledged record", id)
	}
	expect.Equal(t, len(acked) >= 1000, true, "only", len(acked), "records were acknowledged")
	expect.Equal(t, repairs != 0, true, "twelve crashes and no repair was recorded")
	t.Logf("%d acknowledged of %d records, %d repairs", len(acked), rep.Size, repairs)
}

// crash runs a child and kills it after n acknowledgements. Everything that it printed
// counts.
func crash(t *testing.T, dir string, n int, acked map[string]int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=XXX")
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	lines := bufio.NewReader(out)
	for k := 0; ; k++ {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // an incomplete line
		}
		f := strings.Fields(line)
		if len(f) != 2 || f[0] != "ack" {
			t.Errorf("child: %s", line)
			continue
		}
		acked[f[1]] = 0
		if k == n {
			must.Do(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait() // it was killed
}
