package ledger_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

const (
	crashFile   = "MEMPROXY_LEDGER_CRASH_FILE"
	crashQueued = "MEMPROXY_LEDGER_CRASH_QUEUED"
)

func crashOptions(t *testing.T, path string) ledger.Options {
	t.Helper()
	k := must.Get(keys.New(bytes.Repeat([]byte{7}, keys.Size)))(t) // the same in each process
	return ledger.Options{Path: path, Vault: ledgertest.Vault(t, k)}
}

// TestCrashChild is the process that TestCrash kills. It prints each entry's number
// after Commit returned.
func TestCrashChild(t *testing.T) {
	path := os.Getenv(crashFile)
	if path == "" {
		t.Skip("run by TestCrash")
	}
	l := must.Get(ledger.Open(crashOptions(t, path)))(t)
	for i := 0; ; i++ {
		row := ledgertest.Row(strconv.Itoa(i))
		k := memproxy.MemoryKey{Backend: row.Backend, Kind: row.Kind, ID: row.ID}
		must.Do(t, l.Commit(context.Background(), memproxy.Entry{
			Queued: os.Getenv(crashQueued) != "", Owners: []memproxy.Ownership{row}, States: []memproxy.StateChange{{MemoryKey: k, Tenant: "acme", State: memproxy.StateUntrusted}},
			Versions: []memproxy.Version{{MemoryKey: k, Tenant: "acme", Op: memproxy.OpWrite, Decision: row.Decision, Text: "text"}},
		}))
		fmt.Printf("put %d\n", i)
	}
}

// Proves EDGE-3, SYN-5: entries for which Commit returned survive kill -9 at any time,
// with version and state, queued or not, and the chain is intact.
func TestCrash(t *testing.T) {
	ring.Slow(t, "kills processes")
	for name, queued := range map[string]string{"queued": "1", "not queued": ""} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			for round := range 25 {
				crashOnce(t, path, queued, 1+17*round)
			}
		})
	}
}

// Proves EDGE-3, SYN-5, TRL-7: a backup of a ledger to which another process writes has
// every entry for which Commit returned before the backup began, with version and
// state, and an intact chain.
func TestBackupsUnderLoad(t *testing.T) {
	ring.Slow(t, "backs up while a process writes")
	opt := crashOptions(t, filepath.Join(ring.Dir(t), "ledger.db"))
	state := filepath.Join(ring.Dir(t), "ledger.db")
	lines, kill := child(t, "TestCrashChild", crashFile+"="+opt.Path, crashQueued+"=1")
	var acknowledged atomic.Int64
	began, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; lines.Scan(); {
			if _, err := fmt.Sscanf(lines.Text(), "put %d", &n); err == nil && acknowledged.Swap(int64(n)) == 0 && n == 1 {
				close(began)
			}
		}
	}()
	<-began
	for round := range 6 {
		before := int(acknowledged.Load())
		file := fmt.Sprint(state, ".backup-", round)
		must.Do(t, ledger.Backup(t.Context(), opt, file))
		must.Do(t, ledger.Restore(t.Context(), crashOptions(t, state), file, true))
		if round > 0 {
			must.Do(t, os.Remove(state+ledger.ReplacedSuffix))
		}
		l := open(t, crashOptions(t, state))
		wantEntries(t, l, before+1)
		must.Do(t, l.Close())
	}
	kill()
	<-ended
	t.Logf("%d entries were written meanwhile", acknowledged.Load())
}

// child runs a test of this program in a process of its own; its output is read before
// it is killed.
func child(t *testing.T, test string, env ...string) (lines *bufio.Scanner, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // it was killed
	return bufio.NewScanner(out), func() { expect.OK(t, cmd.Process.Kill()) }
}

func crashOnce(t *testing.T, path, queued string, after int) {
	t.Helper()
	lines, kill := child(t, "TestCrashChild", crashFile+"="+path, crashQueued+"="+queued)
	last := -1
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "put %d", &last); err == nil && last == after {
			kill()
		}
	}
	must.Equal(t, last >= after, true, "the child ended after", last)
	l := open(t, crashOptions(t, path))
	wantEntries(t, l, last+1)
	must.Do(t, l.Close())
}

// wantEntries checks the first n entries of TestCrashChild and the chain.
func wantEntries(t *testing.T, l *ledger.Ledger, n int) {
	t.Helper()
	var ids []string
	for i := range n {
		ids = append(ids, strconv.Itoa(i))
	}
	got := must.Get(ledger.ByID(t.Context(), l, "mem0", memproxy.TargetMemory, ids...))(t)
	for i, id := range ids {
		rec := got[id]
		if i < n-500 && rec.HasOwner() && rec.HasStatus() {
			continue // the chain has its version
		}
		history, err := l.History(t.Context(), memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}, 0, 0)
		must.That(t, err == nil && rec.HasOwner() && rec.HasStatus() && len(history) > 0, "of the first %d entries, %s is %+v with %d versions, %v", n, id, rec, len(history), err)
	}
	if report, err := l.Chains.Verify(t.Context(), "acme", ledger.VerifyOptions{}); err != nil || len(report.Faults) > 0 || report.Checked < int64(n) {
		t.Fatalf("with %d entries: %+v, %v", n, report.Faults, err)
	}
}
