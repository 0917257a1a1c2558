package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// errURL omits the parser's message: the URL contains a password, and errors are logged.
var errURL = errors.New("redisstore: the URL cannot be read")

type target struct {
	one     *redis.Options // the first host, with all options of the URL
	hosts   []string       // host:port of each host
	cluster bool
	master  string // Sentinel's name of the master, or ""
}

// CheckURL reports why Options.URL cannot be used, without quoting it. It does not connect.
func CheckURL(raw string) error {
	_, err := parse(raw)
	return err
}

func parse(raw string) (target, error) {
	var t target
	base, query, _ := strings.Cut(raw, "?")
	scheme, rest, ok := strings.Cut(base, "://")
	if !ok {
		return t, errors.New("redisstore: the URL needs a scheme: redis://, rediss:// or unix://")
	}
	auth, tail := "", ""
	if scheme != "unix" {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			rest, tail = rest[:i], rest[i:]
		}
		if i := strings.LastIndexByte(rest, '@'); i >= 0 {
			auth, rest = rest[:i+1], rest[i+1:]
		}
		t.hosts = strings.Split(rest, ",")
		rest = t.hosts[0]
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return t, errURL
	}
	t.master = q.Get("master")
	switch q.Get("cluster") {
	case "", "false":
		t.cluster = len(t.hosts) > 1 && t.master == ""
	case "true":
		t.cluster = true
	default:
		return t, errors.New("redisstore: cluster is true or false")
	}
	if t.cluster && (t.master != "" || scheme == "unix") {
		return t, errors.New("redisstore: a Cluster has neither a Sentinel master nor a unix socket")
	}
	if scheme == "unix" && t.master != "" {
		return t, errors.New("redisstore: sentinels are reached by host and port")
	}
	q.Del("master")
	q.Del("cluster")
	one := scheme + "://" + auth + rest + tail
	if len(q) > 0 {
		one += "?" + q.Encode()
	}
	if t.one, err = redis.ParseURL(one); err != nil {
		return t, errURL
	}
	if t.cluster && t.one.DB != 0 {
		return t, errors.New("redisstore: a Cluster has database 0 only")
	}
	for i, h := range t.hosts {
		if t.hosts[i], err = withPort(h); err != nil {
			return t, err
		}
	}
	return t, nil
}

func withPort(host string) (string, error) {
	if host == "" {
		return "", errors.New("redisstore: an empty host")
	}
	_, port, err := net.SplitHostPort(host)
	if err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return "", errURL
		}
		return host, nil
	}
	if strings.Contains(host, ":") && !strings.HasSuffix(host, "]") {
		return "", errURL
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), "6379"), nil
}

// client returns a client for a server, a Cluster or a Sentinel, without connecting.
// Retries are off: retrying a charge would require knowing the result of the first
// attempt, and Degrading falls back faster. Calls end at the context's deadline, which
// go-redis ignores by default.
func (t target) client(timeout time.Duration) redis.UniversalClient {
	logging.Disable() // go-redis prints as plain text the errors that it also returns
	o := t.one
	o.MaxRetries, o.ContextTimeoutEnabled, o.DialerRetries = -1, true, 1
	o.PipelinePoolSize = -1 // pipelines use the same connections
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	o.DisableIdentity, o.MaintNotificationsConfig = true, quiet()
	if o.TLSConfig != nil && (t.cluster || t.master != "") {
		o.TLSConfig.ServerName = "" // each host is verified against its own name
	}
	open := redis.NewDialer(o)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := open(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return bound(c), nil
	}
	hosts := &redis.UniversalOptions{
		Addrs: t.hosts, MasterName: t.master, DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
		MaxRedirects: 3, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1, PoolSize: o.PoolSize, PipelinePoolSize: -1,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		DisableIdentity: true, MaintNotificationsConfig: quiet(),
	}
	if t.cluster {
		cluster := hosts.Cluster()
		cluster.DisableRoutingPolicies = true // go-redis would send COMMAND for it, for longer than the context allows
		return redis.NewClusterClient(cluster)
	}
	if t.master != "" {
		return &pipelined{Client: redis.NewFailoverClient(hosts.Failover())}
	}
	return &pipelined{Client: redis.NewClient(o)}
}

// quiet disables go-redis's support for hand-over notices of hosted Redis: a broken
// connection is an outage, which Degrading handles.
func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// failed reduces a server's error to its code, because the rest may contain the
// password (from a server without AUTH) or arbitrary text. It also reloads a Cluster's
// slot map, in case the node was replaced; go-redis would reload it only once a minute.
func (s *Store) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if c, ok := s.client.(*redis.ClusterClient); ok {
		c.ReloadState(ctx)
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return fmt.Errorf("redisstore: %w", err)
	}
	code, _, _ := strings.Cut(answer.Error(), " ")
	if len(code) > maxCode || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		code = "an error"
	}
	return errors.New("redisstore: the server answers " + code)
}

// maxCode is longer than any error code of Redis, in bytes.
const maxCode = 16

// maxReply bounds a reply: its size and the lengths that it announces, in bytes.
// go-redis allocates an announced length in advance and panics if it cannot. The
// longest valid reply is the list of a Cluster's nodes.
const maxReply = 1 << 20

// bounded is a connection that limits how much may be read after each write.
type bounded struct {
	net.Conn
	left   int
	length int // the announced length read so far; negative: not in a length
}

func (b *bounded) Write(p []byte) (int, error) {
	b.left = maxReply
	return b.Conn.Write(p)
}

// Read checks numbers wherever an announced length could start, because it does not
// parse the protocol; text with such numbers is rare and short. Once the limit is
// exceeded every read fails, because go-redis continues to read after an error.
func (b *bounded) Read(p []byte) (n int, err error) {
	if b.left >= 0 {
		n, err = b.Conn.Read(p)
	}
	b.left -= n
	for _, c := range p[:n] {
		switch {
		case strings.IndexByte("$*%~>|!=+", c) >= 0:
			b.length = 0
		case b.length >= 0 && '0' <= c && c <= '9':
			b.length = min(10*b.length+int(c-'0'), maxReply+1)
		case b.length >= 0:
			b.left, b.length = b.left-b.length, -1
		}
	}
	if b.left < 0 {
		return 0, errors.New("the answer is too long")
	}
	return n, err
}

// plain is a connection without TLS. It exposes the socket, from which go-redis detects
// that the server closed the connection.
type plain struct{ bounded }

func (p *plain) SyscallConn() (syscall.RawConn, error) { return p.Conn.(syscall.Conn).SyscallConn() }

func bound(c net.Conn) net.Conn {
	if _, ok := c.(syscall.Conn); ok {
		return &plain{bounded{Conn: c}}
	}
	return &bounded{Conn: c}
}
