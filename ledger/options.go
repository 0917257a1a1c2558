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
	// DefaultCacheSize is the number of records kept in memory, about 700 bytes each
	// that nobody has ruled on, and 1,000 otherwise.
	DefaultCacheSize = 24576
	// DefaultTimeout bounds one call. It is far over what a local disk needs
	// and under what a caller of a memory service would wait.
	DefaultTimeout = 2 * time.Second
	// DefaultQueue is the number of writes that may wait for the disk.
	DefaultQueue = 4096
	// DefaultMaxHolds is more than a team reviews, and about 100 MB of bodies
	// of ordinary size.
	DefaultMaxHolds = 10000
	// DefaultMaxPrincipalHolds and DefaultMaxUserHolds are parts of a queue
	// that leave room for others.
	DefaultMaxPrincipalHolds = 100
	DefaultMaxUserHolds      = 50
	// DefaultKeepVersions is the number of SYN-5.
	DefaultKeepVersions = 10
)

// Options configure a ledger. The zero value is a ledger in memory.
type Options struct {
	// Path is the SQLite file, created with mode 0600 when missing. Empty: in
	// memory, gone on Close.
	Path string
	// URL is a Postgres database that several proxies share, instead of Path:
	// "postgres://user:password@host/database", with "?search_path=NAME" for a
	// schema of its own. It is a secret. Nothing is cached then and every write
	// waits for its commit, so that all proxies see the same.
	URL string
	// Clock gives the time of deletions. Nil is time.Now, and for the leases of a
	// Postgres its own clock: those of the processes that share it may differ.
	Clock func() time.Time
	// CacheSize is the number of records kept in memory. Zero is the default,
	// negative keeps none.
	CacheSize int
	// Timeout bounds one call. Zero is the default.
	Timeout time.Duration
	// Queue bounds the writes that wait for the disk. Zero is the default.
	Queue int
	// Vault encrypts contents and signs the chains of versions. Nil: holds
	// and versions are ErrNoVault.
	Vault *keys.Vault
	// MaxHolds limits the waiting holds of one tenant; one more is ErrFull, unless it
	// is the first of an authenticated caller. Anonymous callers may use a quarter of
	// them. Zero is the default.
	MaxHolds int
	// MaxPrincipalHolds bounds those of one principal, MaxUserHolds those of
	// one end user of it; one more is a *memproxy.HoldsFull. Zero is the
	// default.
	MaxPrincipalHolds, MaxUserHolds int
	// KeepVersions is how many versions of a memory keep their text, besides
	// the pinned ones. Zero is the default.
	KeepVersions int
	// Locks say how many rejections lock writes, and for how long. Nil are the
	// defaults.
	Locks *memproxy.LockLimits
	// OnNotice is called after notices were committed for delivery (Notices.Due,
	// Delivered): when a write is held or ages, a session is locked or ends, or a memory
	// is flagged or quarantined. The writer calls it, so it must not block. Nil: nothing
	// delivers notices, and none are queued.
	OnNotice func()
	// MaxNotices limits the undelivered notices. Above it, the oldest notices of the
	// tenant with the most are dropped, so that one tenant cannot crowd out the others.
	// Zero is 10,000.
	MaxNotices int
	// OnSteps is called with the committed steps of memories' histories: new versions,
	// texts that were compacted, and purges. The writer calls it, so it must not block.
	// Nil: not called.
	OnSteps func([]Step)
	// OnBroken is called when a version or row differs from what was written. For a
	// version this is found before its text is compacted, and Chains.Verify reports the
	// place. It is called after the memory's flag was committed and must not block. Nil:
	// not called.
	OnBroken func()
	// Progress is called with a description of each part of a migration that Open
	// begins, because a large ledger takes a while. Nil: not called.
	Progress func(string)
	// OnLost is called when queued rows could not be written. The writer calls it, so it
	// must not block. Nil: not called.
	OnLost func(rows int, err error)

	shared bool // leases go by the database's clock
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
		return errors.New("ledger: rejections that lock must not be negative, and their times positive")
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
		o.OnSteps = func([]Step) {}
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

// Step is one step in the history of a memory.
type Step struct {
	memproxy.VersionChange
	Backend, Tenant, Actor, Decision string
	Trust                            memproxy.Trust
}

// step notes what was done to a history. What was found when a backend was
// taken over is not: a record of the whole tells of it.
func (t *transaction) step(r *record, op memproxy.VersionOp, before, after int64) {
	if r.Op == memproxy.OpSeal && r.Decision == "" {
		return
	}
	s := Step{
		VersionChange: memproxy.VersionChange{Memory: r.ID, Op: op, Field: r.Field, Before: before, After: after, BeforeSHA256: r.Before, SHA256: r.SHA256},
		Backend:       r.Backend, Tenant: r.Tenant, Actor: r.Actor, Decision: r.Decision, Trust: r.Trust,
	}
	if r.Kind == memproxy.TargetObject {
		s.Kind = r.Kind
	}
	t.steps = append(t.steps, s)
}
