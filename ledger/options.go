package ledger

import (
	"cmp"
	"errors"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/keys"
)

// The defaults of Options.
const (
	// DefaultCacheSize is the number of records kept in memory, about 1,000 bytes each.
	DefaultCacheSize = 24576
	// DefaultTimeout bounds one call. It is much longer than a local disk needs, and
	// shorter than a caller of a memory service would wait.
	DefaultTimeout = 2 * time.Second
	// DefaultQueue is the number of writes that may wait for the disk.
	DefaultQueue = 4096
	// DefaultMaxHolds is more than a team can review, and about 100 MB of ordinary bodies.
	DefaultMaxHolds = 10000
	// DefaultMaxPrincipalHolds and DefaultMaxUserHolds leave most of the queue to others.
	DefaultMaxPrincipalHolds = 100
	DefaultMaxUserHolds      = 50
	// DefaultKeepVersions is the number of texts that a memory keeps, by requirement SYN-5.
	DefaultKeepVersions = 10
)

// Options configure a ledger. The zero value is a ledger in memory.
type Options struct {
	// Path is the SQLite file, created with mode 0600 if it is missing. Without a path the
	// ledger is in memory and is lost on Close.
	Path string
	// URL is a Postgres database that several proxies share, instead of Path:
	// "postgres://user:password@host/database", with "?search_path=NAME" for a schema of
	// its own. It is a secret. With a URL nothing is cached and every write waits for its
	// commit, so that all proxies see the same state.
	URL string
	// Clock returns the time that is recorded and compared with lifetimes, locks and leases.
	// Nil is time.Now, and in Postgres the database's clock for leases other than those of
	// notices, because the clocks of the processes that share it may differ.
	Clock func() time.Time
	// CacheSize is the number of records kept in memory. Zero is the default; a negative
	// number disables the cache.
	CacheSize int
	// Timeout bounds one call. Zero is the default.
	Timeout time.Duration
	// Queue bounds the writes that wait for the disk. Zero is the default.
	Queue int
	// Vault encrypts contents and signs the chains of versions. Without it, holds and
	// versions are refused with ErrNoVault.
	Vault *keys.Vault
	// MaxHolds limits the waiting holds of one tenant; one more is ErrFull, unless it
	// is the first of an authenticated caller. Anonymous callers may use a quarter of
	// them. Zero is the default.
	MaxHolds int
	// MaxPrincipalHolds bounds the waiting holds of one principal, MaxUserHolds those of
	// one end user of a principal; one more is a *memproxy.HoldLimitError. Zero is the
	// default.
	MaxPrincipalHolds, MaxUserHolds int
	// KeepVersions is the number of versions of a memory that keep their text, in addition
	// to the pinned ones. Zero is the default.
	KeepVersions int
	// Locks sets how many rejections lock writes, and for how long. Nil is the defaults.
	Locks *memproxy.LockLimits
	// OnNotice is called after notices were committed for delivery (Notices.Due,
	// MarkDelivered): when a write is held or ages, a session is locked or ends, or a
	// memory is flagged or quarantined. The writer calls it, so it must not block. If it
	// is nil, no notices are queued.
	OnNotice func()
	// MaxNotices limits the undelivered notices. Above it, the oldest notices of the
	// tenant with the most are dropped, so that one tenant cannot crowd out the others.
	// Zero is 10,000.
	MaxNotices int
	// OnSteps is called with the audit events, without a time, of committed changes of
	// histories: new versions, compacted texts, and purges. The writer calls it, so it must
	// not block. It may be nil.
	OnSteps func([]memproxy.Event)
	// OnBroken is called when a version or row differs from what was written. A changed
	// version is found before its text is compacted, and Chains.Verify reports the place.
	// OnBroken is called after the memory's flag was committed and must not block. It may be
	// nil.
	OnBroken func()
	// Progress is called with a description of each part of a migration that Open
	// begins, because a large ledger takes a while. Nil: not called.
	Progress func(string)
	// OnLost is called when queued rows could not be written. The writer calls it, so it
	// must not block. Nil: not called.
	OnLost func(rows int, err error)

	shared bool // leases are measured by the database's clock
}

func (o *Options) complete() error {
	if o.Timeout < 0 || o.Queue < 0 || o.MaxHolds < 0 || o.KeepVersions < 0 || o.MaxNotices < 0 {
		return errors.New("ledger: timeout, queue, holds, notices and versions must not be negative")
	}
	if o.Locks == nil {
		limits := memproxy.DefaultLockLimits()
		o.Locks = &limits
	}
	if k := o.Locks; k.Session < 0 || k.User < 0 || k.Principal < 0 || k.Window <= 0 || k.For <= 0 {
		return errors.New("ledger: the numbers of rejections that lock must not be negative, and their window and duration must be positive")
	}
	if o.Path != "" && o.URL != "" {
		return errors.New("ledger: either a file or a Postgres database")
	}
	if o.URL != "" {
		o.CacheSize = -1
	}
	if o.Clock == nil {
		o.Clock, o.shared = time.Now, o.URL != ""
	}
	o.CacheSize = cmp.Or(o.CacheSize, DefaultCacheSize)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Queue = cmp.Or(o.Queue, DefaultQueue)
	o.MaxHolds = cmp.Or(o.MaxHolds, DefaultMaxHolds)
	o.MaxPrincipalHolds = cmp.Or(max(0, o.MaxPrincipalHolds), DefaultMaxPrincipalHolds)
	o.MaxUserHolds = cmp.Or(max(0, o.MaxUserHolds), DefaultMaxUserHolds)
	o.MaxNotices = cmp.Or(o.MaxNotices, 10_000)
	o.KeepVersions = cmp.Or(o.KeepVersions, DefaultKeepVersions)
	if o.OnSteps == nil {
		o.OnSteps = func([]memproxy.Event) {}
	}
	if o.OnBroken == nil {
		o.OnBroken = func() {}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.OnLost == nil {
		o.OnLost = func(int, error) {}
	}
	return nil
}

// step notes a change of a history for OnSteps. Consecutive changes of one decision are one
// event. What was found when a backend was sealed is not noted, because the audit log records
// the seal as a whole.
func (t *transaction) step(r *versionRow, change memproxy.VersionChange) {
	if r.Op == memproxy.OpSeal && r.Decision == "" {
		return
	}
	ev := memproxy.Event{
		Type: memproxy.EventVersion, Decision: r.Decision, Backend: r.Backend, Claimed: -1, Confidence: -1,
		Principal: memproxy.Principal{ID: r.Actor, Tenant: r.Tenant, Trust: r.Trust},
	}
	switch r.Op {
	case memproxy.OpCompact:
		ev.Type = memproxy.EventCompaction
	case memproxy.OpPurge:
		ev.Type = memproxy.EventPurge
	}
	if r.Actor == memproxy.SystemActor {
		ev.Principal.Kind, ev.Principal.Trust = memproxy.KindService, memproxy.TrustSystem
	}
	last := len(t.steps) - 1
	if last < 0 || !sameEvent(&t.steps[last], &ev) {
		t.steps, last = append(t.steps, ev), last+1
	}
	t.steps[last].Versions = append(t.steps[last].Versions, change)
}

func sameEvent(a, b *memproxy.Event) bool {
	return a.Type == b.Type && a.Decision == b.Decision && a.Backend == b.Backend && a.Principal.ID == b.Principal.ID && a.Principal.Tenant == b.Principal.Tenant
}
