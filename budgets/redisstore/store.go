package redisstore

import (
	"cmp"
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

// remembered is how long charge ids are kept for idempotence. It is longer than any
// retry or replay takes.
const remembered = 10 * time.Minute

// DefaultTimeout bounds each dial, write and read, unless the context ends earlier.
const DefaultTimeout = 250 * time.Millisecond

// Options configure a Store.
type Options struct {
	// URL is redis://, rediss:// or unix:// for one server. For a Cluster, list several
	// hosts with commas, redis://a:6379,b:6379, or add ?cluster=true to one. For
	// Sentinel add ?master=NAME to the sentinels.
	URL string
	// Timeout bounds one dial, write or read. Default 250 ms.
	Timeout time.Duration
	// Prefix is the prefix of every key. Default "memproxy".
	Prefix string
}

// Store is a budget store in Redis.
type Store struct {
	client              redis.UniversalClient
	charging, releasing *redis.Script
	prefix              string
}

// New returns a store without connecting, so that a Redis that is down at the start is
// handled like a later outage.
func New(opt Options) (*Store, error) {
	opt.Timeout, opt.Prefix = cmp.Or(opt.Timeout, DefaultTimeout), cmp.Or(opt.Prefix, "memproxy")
	if strings.ContainsAny(opt.Prefix, "{}") {
		return nil, errors.New("redisstore: the prefix must not contain braces")
	}
	t, err := parse(opt.URL)
	if err != nil {
		return nil, err
	}
	return &Store{t.client(opt.Timeout), redis.NewScript(chargeLua), redis.NewScript(releaseLua), opt.Prefix}, nil
}

// tag returns the hash tag of a tenant's keys. It puts all keys of a charge into one
// slot of a Cluster.
func (s *Store) tag(tenant string) string {
	if tenant == "" || tenant[0] == '#' || strings.ContainsAny(tenant, "{}") || len(tenant) > 64 {
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
		slot, _ := budgets.WindowIndex(l.Window, c.Time)
		keys = append(keys, tag+string(l.Window)+":"+strconv.FormatInt(slot, 10)+":"+l.Key)
	}
	return keys
}

// Charge implements budgets.Store.
func (s *Store) Charge(ctx context.Context, c memproxy.Charge) (memproxy.Allowance, error) {
	if err := budgets.Check(c); err != nil {
		return memproxy.Allowance{}, err
	}
	args := make([]any, 0, 4+3*len(c.Lines))
	remember := remembered.Milliseconds()
	if c.Peek {
		remember = 0
	}
	args = append(args, c.Cost, remember, budgets.Minute(c.Time), budgets.FirstMinute(c.Time))
	for _, l := range c.Lines {
		if l.Soft || c.Written {
			l.Limit = -1 // such a line never refuses
		}
		// Windows are kept for twice their length, for replicas whose clocks are behind.
		args = append(args, l.Limit, 2*budgets.WindowLength(l.Window).Milliseconds(), l.Window == memproxy.WindowHour)
	}
	reply, err := s.charging.Run(ctx, s.client, s.keys(c, "charge"), args...).Int64Slice()
	if err != nil {
		return memproxy.Allowance{}, s.failed(ctx, err)
	}
	if len(reply) != 2*len(c.Lines)+2 {
		return memproxy.Allowance{}, fmt.Errorf("redisstore: %d numbers came back for %d lines", len(reply), len(c.Lines))
	}
	counts := make([]budgets.Count, len(c.Lines))
	for i := range counts {
		counts[i] = budgets.Count{Used: reply[2+2*i], FreeingMinute: reply[3+2*i]}
	}
	return budgets.AllowanceOf(c, counts, reply[0] == 1, reply[1] == 1), nil
}

// Release implements budgets.Store.
func (s *Store) Release(ctx context.Context, c memproxy.Charge) error {
	if err := budgets.Check(c); err != nil {
		return err
	}
	c = budgets.Returned(c)
	args := []any{c.Cost, remembered.Milliseconds(), budgets.Minute(c.Time)}
	for _, l := range c.Lines {
		args = append(args, l.Window == memproxy.WindowHour)
	}
	return s.failed(ctx, s.releasing.Run(ctx, s.client, s.keys(c, "release"), args...).Err())
}

// Ping checks that Redis answers.
func (s *Store) Ping(ctx context.Context) error { return s.failed(ctx, s.client.Ping(ctx).Err()) }

// Close closes the connections.
func (s *Store) Close() error { return s.client.Close() }
