package redisstore

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
)

//go:embed charge.lua
var chargeLua string

//go:embed release.lua
var releaseLua string

// remembered is how long a charge id keeps a second charge away: longer than
// any retry or replay.
const remembered = 10 * time.Minute

// DefaultTimeout bounds dialling, writing and reading where the caller's
// context does not end earlier.
const DefaultTimeout = 250 * time.Millisecond

// Options configure a Store.
type Options struct {
	// URL is redis://, rediss:// or unix:// for one server. For a Cluster,
	// list several hosts with commas: redis://a:6379,b:6379. For Sentinel add
	// ?master=NAME to a list of sentinels.
	URL string
	// Timeout is one dial, write or read. Default 250 ms.
	Timeout time.Duration
	// Prefix begins every key. Default "memproxy".
	Prefix string
}

// Store counts in Redis.
type Store struct {
	client  redis.UniversalClient
	prefix  string
	charge  *redis.Script
	release *redis.Script
}

// New returns a store. It does not connect: a Redis that is away at the start
// is like one that goes away later.
func New(opt Options) (*Store, error) {
	if opt.Timeout <= 0 {
		opt.Timeout = DefaultTimeout
	}
	if opt.Prefix == "" {
		opt.Prefix = "memproxy"
	}
	if strings.ContainsAny(opt.Prefix, "{}") {
		return nil, errors.New("redisstore: the prefix must not contain braces")
	}
	client, err := dial(opt)
	if err != nil {
		return nil, err
	}
	return &Store{
		client: client, prefix: opt.Prefix,
		charge: redis.NewScript(chargeLua), release: redis.NewScript(releaseLua),
	}, nil
}

// dial makes the client for one server, a Cluster or a Sentinel. Retries are
// off: a charge that is sent again would need its answer to be known first,
// and the guard around this store falls back faster than a retry.
func dial(opt Options) (redis.UniversalClient, error) {
	base, query, _ := strings.Cut(opt.URL, "?")
	scheme, rest, ok := strings.Cut(base, "://")
	if !ok {
		return nil, errors.New("redisstore: the URL needs a scheme: redis://, rediss:// or unix://")
	}
	hosts, tail := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 && scheme != "unix" {
		hosts, tail = rest[:i], rest[i:]
	}
	auth := ""
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 && scheme != "unix" {
		auth, hosts = hosts[:i+1], hosts[i+1:]
	}
	list := strings.Split(hosts, ",")
	master := ""
	var kept []string
	for _, kv := range strings.Split(query, "&") {
		if m, found := strings.CutPrefix(kv, "master="); found {
			master = m
		} else if kv != "" {
			kept = append(kept, kv)
		}
	}
	one := scheme + "://" + auth + list[0] + tail
	if len(kept) > 0 {
		one += "?" + strings.Join(kept, "&")
	}
	o, err := redis.ParseURL(one)
	if err != nil {
		return nil, fmt.Errorf("redisstore: the URL cannot be read") // its error may quote the password
	}
	u := &redis.UniversalOptions{
		Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		MasterName: master, ContextTimeoutEnabled: true, MaxRetries: -1, MaxRedirects: 3,
		DialTimeout: opt.Timeout, ReadTimeout: opt.Timeout, WriteTimeout: opt.Timeout, PoolTimeout: opt.Timeout,
		DialerRetries: 1, IsClusterMode: len(list) > 1 && master == "",
	}
	if len(list) > 1 {
		u.Addrs = list
	}
	if scheme == "unix" {
		c := redis.NewClient(o)
		c.Options().ContextTimeoutEnabled, c.Options().MaxRetries = true, -1
		return c, nil
	}
	return redis.NewUniversalClient(u), nil
}

// tag is the part of a key that Cluster hashes: one for a whole charge.
func (s *Store) tag(tenant string) string {
	if tenant == "" || strings.ContainsAny(tenant, "{}") || len(tenant) > 64 {
		sum := sha256.Sum256([]byte(tenant))
		tenant = "#" + hex.EncodeToString(sum[:8])
	}
	return s.prefix + ":{" + tenant + "}:"
}

func (s *Store) keys(c memproxy.Charge, verb string) []string {
	tag := s.tag(c.Tenant)
	keys := make([]string, 0, len(c.Lines)+1)
	keys = append(keys, tag+verb+":"+c.ID)
	for _, l := range c.Lines {
		slot, _ := budgets.Slot(l.Window, c.Time)
		keys = append(keys, tag+string(l.Window)+":"+strconv.FormatInt(slot, 10)+":"+l.Key)
	}
	return keys
}

// Charge implements budgets.Store.
func (s *Store) Charge(ctx context.Context, c memproxy.Charge) (memproxy.Allowance, error) {
	if err := budgets.Check(c); err != nil {
		return memproxy.Allowance{}, err
	}
	args := make([]any, 0, 2+3*len(c.Lines))
	args = append(args, c.Cost, remembered.Milliseconds())
	for _, l := range c.Lines {
		soft := 0
		if l.Soft {
			soft = 1
		}
		// A window is kept for one more of its length, for replicas whose
		// clocks are behind.
		args = append(args, l.Limit, soft, 2*budgets.Length(l.Window).Milliseconds())
	}
	reply, err := s.charge.Run(ctx, s.client, s.keys(c, "charge"), args...).Int64Slice()
	if err != nil {
		return memproxy.Allowance{}, fmt.Errorf("redisstore: %w", err)
	}
	if len(reply) != len(c.Lines)+2 {
		return memproxy.Allowance{}, fmt.Errorf("redisstore: %d numbers came back for %d lines", len(reply), len(c.Lines))
	}
	return budgets.Settle(c, reply[2:], reply[0] == 1, reply[1] == 1), nil
}

// Release implements budgets.Store.
func (s *Store) Release(ctx context.Context, c memproxy.Charge) error {
	if err := budgets.Check(c); err != nil {
		return err
	}
	hard := c
	hard.Lines = nil
	for _, l := range c.Lines {
		if !l.Soft {
			hard.Lines = append(hard.Lines, l)
		}
	}
	err := s.release.Run(ctx, s.client, s.keys(hard, "release"), c.Cost, remembered.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	return nil
}

// Close closes the connections.
func (s *Store) Close() error { return s.client.Close() }
