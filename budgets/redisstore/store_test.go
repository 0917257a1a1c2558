package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	peer "github.com/alicebob/miniredis/v2/server"
	"github.com/memproxy/memproxy/budgets/redisstore"

	"github.com/redis/go-redis/v9"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/budgettest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// patient bounds the duration of a failing test; no test depends on it.
const patient = 20 * time.Second

// connect returns a store that is closed with the test.
func connect(t *testing.T, opt redisstore.Options) *redisstore.Store {
	t.Helper()
	if opt.Timeout == 0 {
		opt.Timeout = patient
	}
	s := must.Get(redisstore.New(opt))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// client is another client of a server.
func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	c := redis.NewClient(must.Get(redis.ParseURL(url))(t))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Proves CARD-4, TRL-6, TRL-8: the contract on the real server. One server serves all
// subtests, each with its own prefix.
func TestKeepsTheContract(t *testing.T) {
	url := fresh(t)
	n := 0
	budgettest.Run(t, func(t *testing.T, _ *budgettest.Clock) budgets.Store {
		n++
		return connect(t, redisstore.Options{URL: url, Prefix: fmt.Sprintf("part%d", n)})
	})
}

func charge(id, tenant string, cost int64, lines ...memproxy.Line) memproxy.Charge {
	if len(lines) == 0 {
		lines = []memproxy.Line{
			{Key: "principal/a", Window: memproxy.WindowHour, Limit: 10},
			{Key: "principal/a", Window: memproxy.WindowTotal, Limit: 100},
			{Key: "principal/a", Window: memproxy.WindowMinute, Limit: 5, Soft: true},
		}
	}
	return memproxy.Charge{ID: id, Tenant: tenant, Cost: cost, Lines: lines, Time: budgettest.NewClock().Now()}
}

func charges(t *testing.T, s *redisstore.Store, c memproxy.Charge, used int64) {
	t.Helper()
	a, err := s.Charge(t.Context(), c)
	if err != nil || !a.Granted || a.Lines[0].Used != used {
		t.Fatalf("%s: %+v, %v; want %d used", c.ID, a, err, used)
	}
}

// counter has the commands that clients sent to a server. Those of scripts come from peers
// that say no HELLO.
type counter struct {
	mu      sync.Mutex
	clients map[*peer.Peer]bool
	sent    []string
}

func (c *counter) hook(p *peer.Peer, cmd string, _ ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cmd == "HELLO" {
		c.clients[p] = true
	}
	if c.clients[p] {
		c.sent = append(c.sent, cmd)
	}
	return false
}

func (c *counter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.sent
	c.sent = nil
	return out
}

// A charge is one round trip. A server that lost the script costs a second one, once,
// and nothing is lost.
func TestOneRoundTrip(t *testing.T) {
	m := miniredis.RunT(t)
	url := "redis://" + m.Addr()
	s := connect(t, redisstore.Options{URL: url})
	n := counter{clients: map[*peer.Peer]bool{}}
	m.Server().SetPreHook(n.hook)
	charges(t, s, charge("first", "acme", 1), 1)
	n.take()
	charges(t, s, charge("second", "acme", 1), 2)
	expect.List(t, n.take(), []string{"EVALSHA"}, "a charge sent")
	must.Do(t, client(t, url).ScriptFlush(t.Context()).Err())
	n.take()
	charges(t, s, charge("third", "acme", 1), 3)
	expect.List(t, n.take(), []string{"EVALSHA", "EVAL"}, "after a script flush, a charge sent")
	must.Do(t, s.Release(t.Context(), charge("first", "acme", 1)))
	n.take()
	must.Do(t, s.Release(t.Context(), charge("second", "acme", 1)))
	expect.List(t, n.take(), []string{"EVALSHA"}, "a release sent")
}

// Concurrent calls share two connections, and each is charged once, also by a server that
// lost the script.
func TestConcurrentChargesShareConnections(t *testing.T) {
	url := fresh(t)
	s, admin := connect(t, redisstore.Options{URL: url}), client(t, url)
	opened := func() int {
		_, rest, _ := strings.Cut(admin.Info(t.Context(), "stats").Val(), "total_connections_received:")
		n, _ := strconv.Atoi(strings.Fields(rest)[0])
		return n
	}
	line := memproxy.Line{Key: "principal/a", Window: memproxy.WindowHour, Limit: 10_000}
	burst := func(name string) {
		t.Helper()
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for j := range 10 {
					if a, err := s.Charge(t.Context(), charge(fmt.Sprintf("%s-%d-%d", name, i, j), "acme", 1, line)); err != nil || !a.Granted {
						t.Errorf("%+v, %v", a, err)
					}
				}
			})
		}
		wg.Wait()
	}
	charges(t, s, charge("first", "acme", 1, line), 1)
	before := opened()
	burst("loaded")
	if n := opened() - before; n > 1 {
		t.Errorf("%d more connections were opened", n)
	}
	must.Do(t, admin.ScriptFlush(t.Context()).Err())
	burst("flushed")
	charges(t, s, charge("last", "acme", 1, line), 642)
}

// All keys but totals expire.
func TestKeysExpire(t *testing.T) {
	url := fresh(t)
	s, redis := connect(t, redisstore.Options{URL: url, Prefix: "mp"}), client(t, url)
	charges(t, s, charge("d1", "acme", 3), 3)
	slot := func(w memproxy.Window) int64 {
		n, _ := budgets.WindowIndex(w, budgettest.NewClock().Now())
		return n
	}
	total := "mp:{acme}:total:0:principal/a"
	want := map[string]time.Duration{
		"mp:{acme}:charge:d1": 10 * time.Minute,
		fmt.Sprintf("mp:{acme}:hour:%d:principal/a", slot(memproxy.WindowHour)):     2 * time.Hour,
		fmt.Sprintf("mp:{acme}:minute:%d:principal/a", slot(memproxy.WindowMinute)): 2 * time.Minute,
		total: 0,
	}
	check := func() {
		t.Helper()
		for k, most := range want {
			switch d := redis.PTTL(t.Context(), k).Val(); {
			case most == 0 && d != -1, most > 0 && (d <= 0 || d > most):
				t.Errorf("%s lives %v, want %v", k, d, most)
			}
		}
		expect.Len(t, redis.Keys(t.Context(), "*").Val(), len(want), "keys")
	}
	check()
	// Each minute's first charge renews the hour's expiry.
	hour := fmt.Sprintf("mp:{acme}:hour:%d:principal/a", slot(memproxy.WindowHour))
	must.Do(t, redis.PExpire(t.Context(), hour, time.Minute).Err())
	later := charge("later", "acme", 1, memproxy.Line{Key: "principal/a", Window: memproxy.WindowHour, Limit: 10})
	later.Time = later.Time.Add(time.Minute)
	charges(t, s, later, 4)
	if d := redis.PTTL(t.Context(), hour).Val(); d <= time.Hour {
		t.Errorf("%s lives %v after a later charge", hour, d)
	}
	must.Do(t, redis.Del(t.Context(), "mp:{acme}:charge:later").Err())
	// A release keeps the expiry of what it lowers and deletes what becomes zero.
	must.Do(t, s.Release(t.Context(), charge("d2", "acme", 1)))
	want["mp:{acme}:release:d2"] = 10 * time.Minute
	check()
	must.Do(t, s.Release(t.Context(), charge("d3", "acme", 5)))
	expect.Equal(t, redis.Exists(t.Context(), total).Val(), 0, "a total of zero is kept")
}

// Two replicas with one Redis share one limit.
// Proves CARD-4.
func TestReplicasShare(t *testing.T) {
	url := fresh(t)
	a, b := connect(t, redisstore.Options{URL: url}), connect(t, redisstore.Options{URL: url})
	charges(t, a, charge("1", "acme", 6), 6)
	charges(t, b, charge("2", "acme", 4), 10)
	got, err := a.Charge(t.Context(), charge("3", "acme", 1))
	if err != nil || got.Granted {
		t.Errorf("above the shared limit: %+v, %v", got, err)
	}
	charges(t, b, charge("1", "acme", 6), 10) // one decision, charged by two replicas
	// One whose clock is behind: the oldest minute leaves the hour first, whichever was charged first.
	line := memproxy.Line{Key: "principal/b", Window: memproxy.WindowHour, Limit: 10}
	charges(t, a, charge("4", "acme", 1, line), 1)
	behind := charge("5", "acme", 1, line)
	behind.Time = behind.Time.Add(-2 * time.Minute)
	charges(t, b, behind, 2)
	got, err = a.Charge(t.Context(), charge("6", "acme", 1, line))
	if want := behind.Time.Truncate(time.Minute).Add(61 * time.Minute); err != nil || !got.Lines[0].Reset.Equal(want) {
		t.Errorf("reset %v, %v; want %v", got.Lines, err, want)
	}
}

// crc16 is the checksum of Redis Cluster (CRC-16/XMODEM; Redis Cluster specification,
// appendix A).
func crc16(s string) uint16 {
	var crc uint16
	for _, b := range []byte(s) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// slot is the hash slot of a key (same specification, "Hash tags").
func slot(key string) uint16 {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if j := strings.IndexByte(key[i+1:], '}'); j > 0 {
			key = key[i+1 : i+1+j]
		}
	}
	return crc16(key) % 16384
}

// keysOf returns the keys that a charge and its release name.
func keysOf(t *testing.T, c memproxy.Charge) (keys []string) {
	t.Helper()
	m := miniredis.RunT(t)
	s := connect(t, redisstore.Options{URL: "redis://" + m.Addr()})
	m.Server().SetPreHook(func(p *peer.Peer, cmd string, args ...string) bool {
		if cmd != "EVALSHA" {
			return false
		}
		n, _ := strconv.Atoi(args[1])
		keys = append(keys, args[2:2+n]...)
		p.WriteError("ERR seen")
		return true
	})
	expect.Error(t, expect.Err(s.Charge(t.Context(), c)))
	expect.Error(t, s.Release(t.Context(), c))
	return keys
}

func TestKeysOfAChargeShareASlot(t *testing.T) {
	if got := crc16("123456789"); got != 0x31c3 { // test vector of the specification
		t.Fatalf("crc16: %#x", got)
	}
	slots := map[uint16]bool{}
	for _, tenant := range []string{"", "acme", "globex", "{acme}", "}{", "a}b", "#1", strings.Repeat("x", 200)} {
		c := charge("{other}", tenant, 1)
		c.Lines = append(c.Lines, memproxy.Line{Key: "namespace/{x}", Window: memproxy.WindowTotal, Limit: 1})
		keys := keysOf(t, c)
		must.Len(t, keys, 2*len(c.Lines)+2-1) // a release does not name the soft line
		for _, k := range keys {
			expect.Equal(t, slot(k), slot(keys[0]), "tenant", tenant, keys[0], k, "lie in different slots")
		}
		slots[slot(keys[0])] = true
	}
	if len(slots) < 6 {
		t.Errorf("eight tenants share %d slots", len(slots))
	}
}

// A value of another type is an error, not a count.
func TestForeignValuesAreErrors(t *testing.T) {
	url := fresh(t)
	s, redis := connect(t, redisstore.Options{URL: url}), client(t, url)
	key := "memproxy:{acme}:total:0:principal/a"
	for _, foreign := range []string{"many", "", "1e3", "0x10", "9999999999999999999999"} {
		must.Do(t, redis.Set(t.Context(), key, foreign, 0).Err())
		if a, err := s.Charge(t.Context(), charge("1", "acme", 1)); err == nil || a.Granted {
			t.Errorf("charged on %q: %+v", foreign, a)
		}
		expect.Equal(t, redis.Exists(t.Context(), "memproxy:{acme}:charge:1").Val(), 0, "a charge on", foreign, "failed and is remembered")
	}
	must.Do(t, redis.Del(t.Context(), key).Err())
	must.Do(t, redis.HSet(t.Context(), key, "a", "b").Err())
	if a, err := s.Charge(t.Context(), charge("1", "acme", 1)); err == nil || a.Granted {
		t.Errorf("charged on a hash: %+v", a)
	}
	expect.Error(t, s.Release(t.Context(), charge("1", "acme", 1)), "released on a hash")
	must.Do(t, redis.Del(t.Context(), key).Err())
	hour, now := "memproxy:{acme}:hour:0:principal/a", strconv.FormatInt(budgets.Minute(budgettest.NewClock().Now()), 10)
	for _, foreign := range [][2]string{{now, "1e3"}, {now, ""}, {now, "many"}, {"1", "many"}, {"1", "-1"}, {"1", "nan"}, {"minute", "1"}} {
		must.Do(t, redis.HSet(t.Context(), hour, foreign[0], foreign[1]).Err())
		if a, err := s.Charge(t.Context(), charge("1", "acme", 1)); err == nil || a.Granted {
			t.Errorf("charged on an hour with %q: %+v", foreign, a)
		}
		must.Do(t, redis.Del(t.Context(), hour).Err())
	}
	expect.Equal(t, redis.Exists(t.Context(), "memproxy:{acme}:charge:1").Val(), 0, "a charge on a foreign hour failed and is remembered")
	// Nothing was half done: both ids are unused, and the hour counts from one.
	charges(t, s, charge("1", "acme", 1), 1)
	must.Do(t, s.Release(t.Context(), charge("1", "acme", 1)))
	charges(t, s, charge("2", "acme", 1), 1)
}

// A Redis that accepts and never answers costs what the context allows, whatever the
// client's own timeouts.
func TestContextEndsACall(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	s := connect(t, redisstore.Options{URL: "redis://" + l.Addr().String(), Timeout: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	expect.Error(t, expect.Err(s.Charge(ctx, charge("1", "acme", 1))), "charged by a listener that says nothing")
	expect.Error(t, s.Release(ctx, charge("1", "acme", 1)), "released by a listener that says nothing")
}

// A call that waits for others to end is over at its own deadline.
func TestContextEndsAWait(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	s := connect(t, redisstore.Options{URL: "redis://" + l.Addr().String()})
	var silent []net.Conn
	results := make(chan error, 2)
	for range 2 {
		go func() { results <- expect.Err(s.Charge(context.Background(), charge("1", "acme", 1))) }()
		silent = append(silent, must.Get(l.Accept())(t))
	}
	for _, cost := range []int64{1, 2} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		expect.Is(t, expect.Err(s.Charge(ctx, charge("2", "acme", cost))), context.DeadlineExceeded)
		cancel()
	}
	expect.Len(t, results, 0)
	for _, c := range silent {
		_ = c.Close()
	}
	for range 2 {
		expect.Error(t, <-results)
	}
}
