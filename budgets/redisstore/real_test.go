//go:build e2e

package redisstore

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/budgettest"
	"github.com/memproxy/memproxy/internal/freeport"
)

// requireRedis fails where the other tests would skip.
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
		return connect(t, Options{URL: fmt.Sprintf("redis://:open%%20sesame@127.0.0.1:%d/3", port), Prefix: fmt.Sprintf("part%d", n)})
	})
	wrong := connect(t, Options{URL: fmt.Sprintf("redis://:wrong@127.0.0.1:%d", port)})
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
				return connect(t, Options{URL: url, Prefix: fmt.Sprintf("%s%d", strings.ReplaceAll(name, " ", ""), n)})
			})
		})
	}
}

// The server's own hash slots are those that the unit test computes.
func TestClusterAgreesOnSlots(t *testing.T) {
	requireRedis(t)
	s := connect(t, Options{URL: "redis://" + strings.Join(cluster(t), ",")})
	for _, tenant := range []string{"", "acme", "{acme}", "ü"} {
		for _, k := range s.keys(charge("1", tenant, 1), "charge") {
			got, err := s.server.(scripts).client.Do(t.Context(), "CLUSTER", "KEYSLOT", k).Int64()
			if err != nil || uint16(got) != slot(k) {
				t.Errorf("%q: slot %d, %v; computed %d", k, got, err, slot(k))
			}
		}
	}
}

// ports are free ports whose cluster bus ports (10,000 above) are free too.
func ports(t *testing.T, n int) []int {
	t.Helper()
	out := make([]int, n)
	for i := range out {
		_, bus, err := net.SplitHostPort(freeport.Addr(t))
		if err != nil {
			t.Fatal(err)
		}
		if out[i], err = strconv.Atoi(bus); err != nil {
			t.Fatal(err)
		}
		out[i] -= freeport.Below
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
		if err := c.ClusterAddSlotsRange(t.Context(), edge[i], edge[i+1]-1).Err(); err != nil {
			t.Fatal(err)
		}
		host, port, _ := net.SplitHostPort(hosts[0])
		if err := c.ClusterMeet(t.Context(), host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range nodes {
		for !strings.Contains(c.ClusterInfo(t.Context()).Val(), "cluster_state:ok") ||
			!strings.Contains(c.ClusterInfo(t.Context()).Val(), "cluster_known_nodes:3") {
			select {
			case <-t.Context().Done():
				t.Fatal("no cluster")
			case <-time.After(20 * time.Millisecond): // nothing announces that gossip is done
			}
		}
	}
	return hosts
}
