package ledger_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

const crashFile = "MEMPROXY_LEDGER_CRASH_FILE"

// TestCrashChild is the process that TestCrash kills: it says each row's
// number after Put returned for it.
func TestCrashChild(t *testing.T) {
	path := os.Getenv(crashFile)
	if path == "" {
		t.Skip("run by TestCrash")
	}
	l, err := ledger.Open(ledger.Options{Path: path, Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		if err := l.Commit(context.Background(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{ledgertest.Row(strconv.Itoa(i))}}); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("put %d\n", i)
	}
}

// What a durable Put returned for is there after kill -9, and the file is whole.
func TestCrash(t *testing.T) {
	ring.Slow(t, "kills processes")
	path := filepath.Join(t.TempDir(), "ledger.db")
	for round := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
		cmd.Env = append(os.Environ(), crashFile+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		last := -1
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "put %d", &n); err != nil {
				continue
			}
			last = n
			if n == 100+50*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		if last < 100 {
			t.Fatalf("the child ended after %d rows", last)
		}
		l := open(t, ledger.Options{Path: path})
		var ids []string
		for i := range last + 1 {
			ids = append(ids, strconv.Itoa(i))
		}
		got, err := ledger.ByID(t.Context(), l, "mem0", memproxy.TargetMemory, ids...)
		if err != nil || len(got) != len(ids) {
			t.Fatalf("round %d: %d of %d rows, %v", round, len(got), len(ids), err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
