package audit_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/audit"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// BenchmarkRecord measures the three records of a write, of which its caller waits for the
// decision, with as many concurrent callers as the name says, on the disk of the temporary
// directory. Most of the time is spent waiting, so the processor time is reported, too.
func BenchmarkRecord(b *testing.B) {
	for _, callers := range []int{1, 32, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			l := must.Get(audit.Open(audit.Options{
				Dir: b.TempDir(), Key: testKey(1), Origin: "bench", Reserve: 256 << 10,
				OnRecord: func(uint64, *memproxy.Event, []byte) {},
			}))(b)
			decision, outcome, version := eventsOfWrite()
			work := make(chan struct{}, 1024)
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			before := processorTime(b)
			for range callers {
				wg.Go(func() {
					for range work {
						expect.OK(b, l.Record(context.Background(), decision))
						expect.OK(b, l.RecordAsync(outcome))
						expect.OK(b, l.RecordAsync(version))
					}
				})
			}
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
			b.StopTimer()
			must.Do(b, l.Close(context.Background()))
		})
	}
}

// eventsOfWrite returns the events of an add that is clamped.
func eventsOfWrite() (decision, outcome, version memproxy.Event) {
	at := time.Date(2026, 11, 30, 3, 41, 25, 503470116, time.UTC)
	line := func(why memproxy.ReasonCode, key string, w memproxy.Window) memproxy.LineState {
		return memproxy.LineState{Line: memproxy.Line{Reason: why, Key: key, Window: w, Limit: 1e9}, Used: 300, Reset: at.Add(time.Hour)}
	}
	decision = memproxy.Event{
		Type: memproxy.EventDecision, Time: at, Decision: "01a22a8b-0c7f-7748-88e1-81d37d1fdb46", Trace: "a19d83e8bb6465b6b1d773ad48583833",
		Principal: memproxy.Principal{ID: "agent:dev", Kind: memproxy.KindAgent, Tenant: "acme", Trust: memproxy.TrustAuthenticated, Method: "key"},
		Kind:      memproxy.Learn, Backend: "mem0", Route: "mem0.server.add", Method: "POST",
		Scope:  memproxy.Scope{User: "ann", Agent: "dev"},
		Fields: []string{"travel"}, Items: 3, ContentSHA256: strings.Repeat("ab", 32), Policy: "9021b6d9e04e715e",
		Verdict: memproxy.Amend, ShadowVerdict: memproxy.Amend, Claimed: 950, Confidence: 700,
		Reasons: []memproxy.Reason{
			{Code: memproxy.TrustClamped, Detail: "the claimed confidence exceeds this caller's ceiling and was lowered", Pointer: "/metadata/confidence"},
			{Code: "layer.namespace", Detail: "this key is outside the namespaces that may be written", Rule: "layer.namespace.mark"},
		},
		Facts: &memproxy.Facts{
			Attestation: memproxy.SelfReported, Ceiling: 700, Roles: []string{"dev"}, Source: "verified", Track: 1000,
			Writes: []memproxy.Written{{Field: "travel", Layer: memproxy.Semantic, Size: 443}},
		},
		Budget: []memproxy.LineState{
			line(memproxy.BudgetHour, "user/agent:dev/ann", memproxy.WindowHour), line("budget.total", "user/agent:dev/ann", "total"),
			line(memproxy.BudgetHour, "principal/agent:dev", memproxy.WindowHour), line("budget.total", "principal/agent:dev", "total"),
			line(memproxy.RapidWrites, "principal/agent:dev", memproxy.WindowMinute),
		},
	}
	outcome = decision
	outcome.Type, outcome.Reasons, outcome.Facts, outcome.Budget, outcome.ContentSHA256 = memproxy.EventOutcome, nil, nil, nil, ""
	outcome.Status, outcome.Memories = 200, []string{"00000000-0000-4000-8000-0000000000f2"}
	version = memproxy.Event{
		Type: memproxy.EventVersion, Time: at, Decision: decision.Decision, Backend: "mem0",
		Principal: memproxy.Principal{ID: "agent:dev", Tenant: "acme", Trust: memproxy.TrustAuthenticated},
		Versions: []memproxy.VersionChange{{
			Memory: "00000000-0000-4000-8000-0000000000f2", Op: "write", Field: "travel", After: 1, SHA256: strings.Repeat("cd", 32),
		}},
	}
	return decision, outcome, version
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
