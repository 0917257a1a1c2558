package ledger_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// BenchmarkAdd measures an addition: a memory's owner, status and version, and the
// receipt. It also reports CPU time and bytes written to the kernel.
func BenchmarkAdd(b *testing.B) {
	l := open(b, ledger.Options{Path: filepath.Join(b.TempDir(), "ledger.db"), Vault: ledgertest.Vault(b)})
	b.SetParallelism(16)
	cpu, written := usage(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			row, receipt := ledgertest.Row(rand.Text()), ledgertest.Row(rand.Text())
			row.Decision, receipt.Kind = receipt.ID, memproxy.TargetEvent
			receipt.Decision = receipt.ID
			v := ledgertest.Version(row.ID, strings.Repeat("text ", 40)+row.ID)
			v.Decision = row.Decision
			if err := l.Commit(b.Context(), memproxy.Entry{
				Queued: true, Owners: []memproxy.Ownership{row, receipt}, Versions: []memproxy.Version{v},
				States: []memproxy.StateChange{{MemoryKey: key(row.ID), Tenant: "acme", State: memproxy.StateUntrusted, Decision: row.Decision, Rules: "v1", Text: row.SHA256}},
			}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	must.Do(b, l.Sync(b.Context()))
	cpuAfter, writtenAfter := usage(b)
	b.ReportMetric(float64(cpuAfter-cpu)/float64(b.N)/1000, "cpu-µs/op")
	b.ReportMetric(float64(writtenAfter-written)/float64(b.N)/1024, "KB-written/op")
}

// usage is the CPU time of the process in nanoseconds, and the bytes that it wrote.
func usage(b *testing.B) (cpu, written int64) {
	var r syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip(err)
	}
	var read int64
	must.Get(fmt.Sscanf(string(io), "rchar: %d\nwchar: %d", &read, &written))(b)
	return r.Utime.Nano() + r.Stime.Nano(), written
}
