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
