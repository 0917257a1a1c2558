//go:build e2e

package redisstore_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/budgets/redisstore"

	"github.com/redis/go-redis/v9"

	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/budgettest"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
)

// requireRedis fails the test where others would skip.
func requireRedis(t *testing.T) {
	t.Helper()
	if redisServer() == "" {
		t.Fatal("no redis-server on PATH")
	}
}

// Proves CARD-4: the contract on a real server over TCP, with a password.
func TestRealRedisKeepsTheContract(t *testing.T) {
	requireRedis(t)
	port := ports(t, 1)[0]
	launch(t, "--port", strconv.Itoa(port), "--requirepass", "open sesame", "--dir", t.TempDir())
	n := 0
	budgettest.Run(t, func(t *testing.T, _ *budgettest.Clock) budgets.Store {
		n++
		return connect(t, redisstore.Options{URL: fmt.Sprintf("redis://:open%%20sesame@127.0.0.1:%d/3", port), Prefix: fmt.Sprintf("part%d", n)})
	})
	wrong := connect(t, redisstore.Options{URL: fmt.Sprintf("redis://:wrong@127.0.0.1:%d", port)})
	if _, err := wrong.Charge(t.Context(), charge("1", "acme", 1)); err == nil || strings.Contains(err.Error(), "wrong@") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// Proves CARD-4: the contract on a real Cluster of three nodes.
func TestClusterKeepsTheContract(t *testing.T) {
	requireRedis(t)
	hosts := cluster(t)
	for name, url := range map[string]string{
		"by a list":  "redis://" + strings.Join(hosts, ","),
		"by one":     "redis://" + hosts[1] + "?cluster=true",
		"by a wrong": "redis://127.0.0.1:1," + hosts[2],
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			budgettest.Run(t, func(t *testing.T, _ *budgettest.Clock) budgets.Store {
				n++
				return connect(t, redisstore.Options{URL: url, Prefix: fmt.Sprintf("%s%d", strings.ReplaceAll(name, " ", ""), n)})
			})
		})
	}
}

// The server's hash slots are those that the unit test computes.
func TestClusterAgreesOnSlots(t *testing.T) {
	requireRedis(t)
	nodes := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster(t)})
	defer nodes.Close()
	for _, tenant := range []string{"", "acme", "{acme}", "ü"} {
		for _, k := range keysOf(t, charge("1", tenant, 1)) {
			got, err := nodes.Do(t.Context(), "CLUSTER", "KEYSLOT", k).Int64()
			if err != nil || uint16(got) != slot(k) {
				t.Errorf("%q: slot %d, %v; computed %d", k, got, err, slot(k))
			}
		}
	}
}

// ports returns free ports whose Cluster bus ports (10,000 above) are free too.
func ports(t *testing.T, n int) []int {
	t.Helper()
	out := make([]int, n)
	for i := range out {
		_, bus, err := net.SplitHostPort(freeport.Addr(t))
		must.Do(t, err)
		out[i] = must.Get(strconv.Atoi(bus))(t)
		out[i] -= freeport.PairOffset
	}
	return out
}

// cluster starts three nodes that share the slots.
func cluster(t *testing.T) []string {
	t.Helper()
	var hosts []string
	var nodes []*redis.Client
	for _, port := range ports(t, 3) {
		launch(t, "--port", strconv.Itoa(port), "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--dir", t.TempDir())
		hosts = append(hosts, fmt.Sprintf("127.0.0.1:%d", port))
		c := redis.NewClient(&redis.Options{Addr: hosts[len(hosts)-1]})
		t.Cleanup(func() { _ = c.Close() })
		nodes = append(nodes, c)
	}
	edge := []int{0, 5461, 10923, 16384}
	for i, c := range nodes {
		must.Do(t, c.ClusterAddSlotsRange(t.Context(), edge[i], edge[i+1]-1).Err())
		host, port, _ := net.SplitHostPort(hosts[0])
		must.Do(t, c.ClusterMeet(t.Context(), host, port).Err())
	}
	for _, c := range nodes {
		until(t, "cluster", func() bool {
			info := c.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	return hosts
}

// until polls: nothing announces that gossip is done.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * patient); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no " + what)
		}
	}
}

// Proves CARD-4: after a failover and after a hand-over, the promoted replica is
// charged and has what was replicated.
func TestSentinelFailover(t *testing.T) {
	requireRedis(t)
	p := ports(t, 3)
	args := func(port int, more ...string) []string {
		return append([]string{"--port", strconv.Itoa(port), "--requirepass", "pw", "--masterauth", "pw", "--dir", t.TempDir()}, more...)
	}
	client := func(port int, password string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), Password: password})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	master := launch(t, args(p[0])...)
	launch(t, args(p[1], "--replicaof", fmt.Sprintf("127.0.0.1 %d", p[0]))...)
	first := client(p[0], "pw")
	replicated := func() bool { // WAIT covers the preceding writes of its own connection
		c := first.Conn()
		defer c.Close()
		return c.Set(t.Context(), "written", 1, 0).Err() == nil && c.Wait(t.Context(), 1, 100*time.Millisecond).Val() == 1
	}
	until(t, "replication", replicated)
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	must.Do(t, os.WriteFile(conf, fmt.Appendf(nil, "port %d\nsentinel monitor main 127.0.0.1 %d 1\nsentinel auth-pass main pw\n"+
		"sentinel down-after-milliseconds main 2000\nsentinel failover-timeout main 2000\n", p[2], p[0]), 0o600))
	watch := exec.Command(redisServer(), conf, "--sentinel")
	must.Do(t, watch.Start())
	t.Cleanup(func() { _ = watch.Process.Kill(); _ = watch.Wait() })
	s := connect(t, redisstore.Options{URL: fmt.Sprintf("redis://:pw@127.0.0.1:1,127.0.0.1:%d?master=main", p[2]), Timeout: time.Second})
	charged := func(id string) func() bool {
		return func() bool { _, err := s.Charge(t.Context(), charge(id, "acme", 1)); return err == nil }
	}
	until(t, "charge by the sentinel", charged("1"))
	charges(t, s, charge("2", "acme", 1), 2)
	until(t, "replication", replicated)
	master.kill()
	until(t, "failover", charged("3"))
	charges(t, s, charge("4", "acme", 1), 4)
	master.start()
	until(t, "replica that was the master", func() bool {
		return strings.Contains(first.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	sentinel := client(p[2], "")
	until(t, "second failover", func() bool { return sentinel.Do(t.Context(), "SENTINEL", "failover", "main").Err() == nil })
	until(t, "charge at the first master", func() bool {
		return charged("5")() && first.Exists(t.Context(), "memproxy:{acme}:charge:5").Val() == 1 &&
			strings.Contains(first.Info(t.Context(), "replication").Val(), "role:master")
	})
	charges(t, s, charge("6", "acme", 1), 6)
}
