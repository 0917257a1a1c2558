package ledger_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy"
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
		if err := l.Put(b.Context(), rows...); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

func BenchmarkOwners(b *testing.B) {
	for _, c := range []struct {
		name  string
		cache int
	}{{"cached", 16384}, {"uncached", -1}} {
		l := filled(b, c.cache)
		for _, n := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				ids := make([]string, n)
				for i := range ids {
					ids[i] = strconv.Itoa(i * 7)
				}
				for b.Loop() {
					got, err := l.Owners(b.Context(), "mem0", memproxy.TargetMemory, ids)
					if err != nil || len(got) != n {
						b.Fatal(len(got), err)
					}
				}
			})
		}
	}
}

func BenchmarkPut(b *testing.B) {
	for _, durable := range []bool{false, true} {
		for _, clients := range []int{1, 32} {
			b.Run(fmt.Sprintf("durable=%v/clients=%d", durable, clients), func(b *testing.B) {
				l := open(b, ledger.Options{Path: filepath.Join(b.TempDir(), "ledger.db"), Durable: durable})
				var n atomic.Int64
				b.SetParallelism(clients)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := l.Put(b.Context(), ledgertest.Row(strconv.FormatInt(n.Add(1), 10))); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// A page of memories, of which most have a standing.
func BenchmarkStandings(b *testing.B) {
	for _, c := range []struct {
		name  string
		cache int
	}{{"cached", 0}, {"uncached", -1}} {
		l := open(b, ledger.Options{Path: filepath.Join(b.TempDir(), "ledger.db"), CacheSize: c.cache})
		changes := make([]memproxy.StateChange, 2000)
		for i := range changes {
			changes[i] = memproxy.StateChange{State: memproxy.StateValidated,
				MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: strconv.Itoa(i)}}
		}
		if _, err := l.SetState(b.Context(), changes...); err != nil {
			b.Fatal(err)
		}
		for _, n := range []int{1, 50} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				ids := make([]string, n)
				for i := range ids {
					ids[i] = strconv.Itoa(i * 41)
				}
				for b.Loop() {
					if _, err := l.Standings(b.Context(), "mem0", memproxy.TargetMemory, ids); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	l := open(b, ledger.Options{Path: filepath.Join(b.TempDir(), "ledger.db"), Vault: ledgertest.Vault(b)})
	n := 0
	for b.Loop() {
		n++
		if _, err := l.Append(b.Context(), ledgertest.Version(strconv.Itoa(n%100), strconv.Itoa(n))); err != nil {
			b.Fatal(err)
		}
	}
}
