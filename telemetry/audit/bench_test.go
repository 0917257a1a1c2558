package audit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/telemetry/audit"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// BenchmarkRecord measures durable records, with as many concurrent callers as the name
// says, on the disk of the temporary directory.
func BenchmarkRecord(b *testing.B) {
	for _, callers := range []int{1, 32, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			l := must.Get(audit.Open(audit.Options{Dir: b.TempDir(), Key: testKey(1), Origin: "bench"}))(b)
			ev := someEvent()
			work := make(chan struct{}, 1024)
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for range work {
						expect.OK(b, l.Record(context.Background(), ev))
					}
				})
			}
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			b.StopTimer()
			must.Do(b, l.Close(context.Background()))
		})
	}
}
