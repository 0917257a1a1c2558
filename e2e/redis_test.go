//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
)

// redisServer is a real redis-server on a free port.
type redisServer struct {
	*process
	addr, url string
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	r := &redisServer{addr: freeport.Addr(t)}
	r.url = "redis://" + r.addr + "/0"
	r.start(t)
	return r
}

func (r *redisServer) start(t *testing.T) {
	t.Helper()
	_, port, _ := net.SplitHostPort(r.addr)
	r.process = start(t, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	waitFor(t, "redis-server listening", accepts(r.addr))
}

// keys asks DBSIZE in the plain protocol.
func (r *redisServer) keys(t *testing.T) int {
	t.Helper()
	c := must.Get(net.Dial("tcp", r.addr))(t)
	defer c.Close()
	fmt.Fprint(c, "DBSIZE\r\n")
	line := must.Get(bufio.NewReader(c).ReadString('\n'))(t)
	return must.Get(strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, ":"))))(t)
}

// shared serves one agent; replicas share its limit by what is said of Redis, if anything is.
func shared(backend, key string, hourly int, redis string) string {
	if redis != "" {
		redis = ", redis: {" + redis + "}"
	}
	return sidecarConf("production", "mem0", backend, "", fmt.Sprintf("identity:\n  keys:\n%sbudgets: {default: {writes_per_hour: %d, writes_total: 100000}%s}\n",
		keyed(key, "agent:dev", agentOf("acme")+", acts_as: [dev]"), hourly, redis))
}

const add = `{"user_id":"ann","agent_id":"dev","infer":false,"messages":[{"role":"user","content":"note"}]}`

// Proves CARD-4, TRL-6: replicas share one limit, to the last write.
func TestTwoProxiesShareOneLimit(t *testing.T) {
	t.Parallel()
	eng, redis := startMem0(t).url, startRedis(t)
	const limit = 200
	// The deadline is far off: on a busy machine the default would let one slow
	// charge fall back to the local share, which is right and not this test's.
	conf := shared(eng, "k", limit, `url: "`+redis.url+`", timeout: 10s`)
	cars := []*sidecar{serve(t, t.TempDir(), conf), serve(t, t.TempDir(), conf)}
	var stored, refused, other atomic.Int64
	var wg sync.WaitGroup
	for client := range 64 {
		wg.Go(func() {
			for range 8 {
				a, err := tryCall(http.MethodPost, cars[client%2].base+"/memories", "k", add)
				switch {
				case err == nil && a.status == 200:
					stored.Add(1)
				case err == nil && a.status == 429:
					refused.Add(1)
				default:
					other.Add(1)
				}
			}
		})
	}
	wg.Wait()
	expect.That(t, stored.Load() == limit && refused.Load() == 64*8-limit && other.Load() == 0,
		"%d stored, %d refused, %d neither; want exactly %d stored", stored.Load(), refused.Load(), other.Load(), limit)
	a := call(t, http.MethodPost, cars[0].base+"/memories", "k", add)
	if s, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || s < 1 || s > 3660 { // the hour slides by minutes
		t.Errorf("Retry-After %q, want whole seconds up to an hour and a minute", a.header.Get("Retry-After"))
	}
	for _, key := range []string{`"limit":200`, `"remaining":0`, `"reset":"`, `"budget.hour"`} {
		a.about("the refusal lacks").has(t, key)
	}
}

// Proves CARD-4: Redis killed, hung and back, under load.
func TestRedisGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	eng, redis := startMem0(t).url, startRedis(t)
	car := serve(t, t.TempDir(), shared(eng, "k", 10000, `url: "`+redis.url+`", timeout: 300ms`))
	put := func() (answer, time.Duration) {
		t.Helper()
		begin := time.Now()
		a := call(t, http.MethodPost, car.base+"/memories", "k", add)
		return a, time.Since(begin)
	}
	counted := regexp.MustCompile(`(?m)^memproxy_budget_degraded_total(\{.*\})? [1-9]`)
	degraded := func() bool { return counted.MatchString(call(t, http.MethodGet, car.admin+"/metrics", "", "").body) }
	if a, _ := put(); a.status != 200 || degraded() {
		t.Fatalf("with Redis: %d, degraded %v", a.status, degraded())
	}
	for _, tc := range []struct {
		name       string
		away, back func()
	}{
		{"killed", redis.kill, func() { redis.start(t) }},
		{"hung", func() { _ = redis.cmd.Process.Signal(syscall.SIGSTOP) }, func() { _ = redis.cmd.Process.Signal(syscall.SIGCONT) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.away()
			for range 20 {
				// A silent Redis must cost its deadline, and not go-redis's five
				// seconds. The bound between them is for a busy machine.
				a, took := put()
				expect.That(t, a.status == 200 && took <= 4*time.Second, "without Redis: %d after %v", a.status, took)
			}
			expect.That(t, degraded(), "nothing shows that the budget is degraded")
			a, _ := put()
			id := decisionID(a)
			call(t, http.MethodGet, car.admin+"/readyz", "", "").want(t, 200, "readyz").has(t, `"degraded":true`)
			call(t, http.MethodGet, car.admin+"/debug/spans?decision="+id, "", "").about("the span").has(t, `"memproxy.budget.degraded":true`)
			expect.Text(t, car.audit(t, "--decision", id), "the record").Has(`"degraded":true`)
			tc.back()
			waitFor(t, "Redis being said to answer", func() bool {
				return strings.Contains(call(t, http.MethodGet, car.admin+"/readyz", "", "").body, "is available again")
			})
			before := redis.keys(t)
			waitFor(t, "charging in Redis again", func() bool { put(); return redis.keys(t) > before })
		})
	}
}
