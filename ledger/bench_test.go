package ledger_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

func filled(b *testing.B, cache int) *ledger.Ledger {
	l := open(b, ledger.Options{Path: filepath.Join(b.TempDir(), "ledger.db"), CacheSize: cache})
	for i := range 10 {
		rows := make([]memproxy.Ownership, 1000)
		for j := range rows {
			rows[j] = ledgertest.Row(strconv.Itoa(1000*i + j))
		}
		must.Do(b, l.Commit(b.Context(), memproxy.Entry{Queued: true, Owners: rows}))
	}
	return l
}

// BenchmarkLookup looks up objects that have an owner and mostly a status; absent:
// unknown ones.
func BenchmarkLookup(b *testing.B) {
	for _, c := range []struct {
		name  string
		cache int
	}{{"cached", 16384}, {"uncached", -1}} {
		l := filled(b, c.cache)
		changes := make([]memproxy.StateChange, 9000)
		for i := range changes {
			changes[i] = memproxy.StateChange{State: memproxy.StateValidated, MemoryKey: key(strconv.Itoa(i))}
		}
		must.Get(l.SetState(b.Context(), changes...))(b)
		for _, n := range []int{1, 50, 1000} {
			for _, absent := range []string{"", "x"} {
				b.Run(fmt.Sprintf("%s/%d%s", c.name, n, absent), func(b *testing.B) {
					keys := make([]memproxy.MemoryKey, n)
					for i := range keys {
						keys[i] = key(absent + strconv.Itoa(i*7))
					}
					for b.Loop() {
						got, err := l.Lookup(b.Context(), keys...)
						must.That(b, err == nil && (len(got) == n || absent != ""), "%v %v", len(got), err)
					}
				})
			}
		}
	}
}

func key(id string) memproxy.MemoryKey {
	return memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
}

func BenchmarkPut(b *testing.B) {
	for _, clients := range []int{1, 32} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			l := open(b, ledger.Options{Path: filepath.Join(b.TempDir(), "ledger.db")})
			var n atomic.Int64
			b.SetParallelism(clients)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := l.Commit(b.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{ledgertest.Row(strconv.FormatInt(n.Add(1), 10))}}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	l := open(b, ledger.Options{Path: filepath.Join(b.TempDir(), "ledger.db"), Vault: ledgertest.Vault(b)})
	n := 0
	for b.Loop() {
		n++
		must.Do(b, l.Commit(b.Context(), memproxy.Entry{Versions: []memproxy.Version{ledgertest.Version(strconv.Itoa(n%100), strconv.Itoa(n))}}))
	}
}

// BenchmarkOpen creates, opens and closes a ledger.
func BenchmarkOpen(b *testing.B) {
	dir := ring.Dir(b)
	n := 0
	for b.Loop() {
		n++
		l := must.Get(ledger.Open(ledger.Options{Path: filepath.Join(dir, strconv.Itoa(n)), Vault: ledgertest.Vault(b)}))(b)
		must.Do(b, l.Close())
	}
}
