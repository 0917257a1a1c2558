// What a URL makes of the options of go-redis's clients is seen in these alone, so this is in
// the slow ring, where the package is compiled once more for it.

//go:build slow

package redisstore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// The hosts of a URL, and what they are: a server, a Cluster or sentinels.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, url string
		hosts     string
		cluster   bool
		master    string
	}{
		{name: "one", url: "redis://cache", hosts: "cache:6379"},
		{name: "one with everything", url: "redis://user:p%40ss@cache:7000/3?pool_size=7", hosts: "cache:7000"},
		{name: "TLS", url: "rediss://cache", hosts: "cache:6379"},
		{name: "IPv6", url: "redis://[::1]:7000,[::2]", hosts: "[::1]:7000,[::2]:6379", cluster: true},
		{name: "a list is a Cluster", url: "redis://a:1,b,c:3", hosts: "a:1,b:6379,c:3", cluster: true},
		{name: "one host for a Cluster", url: "redis://a:1?cluster=true", hosts: "a:1", cluster: true},
		{name: "not a Cluster", url: "redis://a:1?cluster=false", hosts: "a:1"},
		{name: "sentinels", url: "redis://:pw@a:1,b:2/4?master=main", hosts: "a:1,b:2", master: "main"},
		{name: "one sentinel", url: "redis://a:1?master=main", hosts: "a:1", master: "main"},
		{name: "unix", url: "unix:///run/redis.sock?db=2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := must.Get(parse(c.url))(t)
			want := strings.Split(c.hosts, ",")
			if c.hosts == "" {
				want = nil
			}
			if !slices.Equal(got.hosts, want) || got.cluster != c.cluster || got.master != c.master {
				t.Errorf("hosts %v, cluster %v, master %q", got.hosts, got.cluster, got.master)
			}
		})
	}
}

// Deadlines must be configured on every kind of client: by default the library waits
// for seconds and retries.
func TestEveryClientHeedsDeadlines(t *testing.T) {
	const limit = 123 * time.Millisecond
	for _, url := range []string{"redis://user:pw@h:1/2?pool_size=3&read_timeout=9s", "rediss://h", "unix:///run/s?db=2", "redis://h:1?master=m", "rediss://h:1,g:2?master=m", "rediss://h:1,g:2"} {
		target := must.Get(parse(url))(t)
		c := target.client(limit)
		var o *redis.Options
		switch c := c.(type) {
		case *pipelined:
			o = c.Options()
		case *redis.ClusterClient:
			co := c.Options()
			o = &redis.Options{
				MaxRetries: co.MaxRetries, ContextTimeoutEnabled: co.ContextTimeoutEnabled, DialerRetries: co.DialerRetries,
				DialTimeout: co.DialTimeout, ReadTimeout: co.ReadTimeout, WriteTimeout: co.WriteTimeout, PoolTimeout: co.PoolTimeout, TLSConfig: co.TLSConfig,
			}
		}
		// go-redis reports "no retries" as 0 or -1, depending on the kind of client.
		if o.MaxRetries > 0 || !o.ContextTimeoutEnabled || o.DialerRetries != 1 ||
			o.DialTimeout != limit || o.ReadTimeout != limit || o.WriteTimeout != limit || o.PoolTimeout != limit {
			t.Errorf("%s: %+v", url, o)
		}
		if tls := strings.HasPrefix(url, "rediss"); tls != (o.TLSConfig != nil) {
			t.Errorf("%s: TLS %v", url, o.TLSConfig)
		} else if tls && strings.Contains(url, ",") && o.TLSConfig.ServerName != "" {
			t.Errorf("%s: every host would have to be %s", url, o.TLSConfig.ServerName)
		} else if tls && !strings.Contains(url, ",") && o.TLSConfig.ServerName != "h" {
			t.Errorf("%s: the host's name is %q", url, o.TLSConfig.ServerName)
		}
		expect.OK(t, c.Close())
	}
}
