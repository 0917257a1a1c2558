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
	// DefaultCacheSize is the number of records kept in memory, about 1,000
	// bytes each.
	DefaultCacheSize = 16384
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
	// Clock gives the time of deletions. Nil is time.Now.
	Clock func() time.Time
	// CacheSize is the number of records kept in memory. Zero is the default,
	// negative keeps none.
	CacheSize int
	// Timeout bounds one call. Zero is the default.
	Timeout time.Duration
	// Queue bounds the writes that wait for the disk. Zero is the default.
	Queue int
	// Durable makes Commit return only when queued entries are on the disk, too.
	//
	// It is off by default: an entry then waits some milliseconds for others to
	// share a transaction with, in a log next to the file if there is a Vault to
	// encrypt it with. A process that is killed loses none. A power failure may take
	// the last of them, and then the memory's signed stamp says whose it is, or the
	// owner is asked upstream again, which is cheaper than a sync on the way of
	// every answer.
	Durable bool
	// Vault encrypts contents and signs the chains of versions. Nil: holds
	// and versions are ErrNoVault.
	Vault *keys.Vault
	// MaxHolds bounds the holds of one tenant that wait; one more is ErrFull,
	// unless it is the first of a caller who is known. A quarter of them may be
	// of callers whom nobody knows. Zero is the default.
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
	// Noticed has notices queued for whoever delivers them (Notices.Due, Delivered):
	// when a hold is put or ages, when a session is locked or ends, and when a
	// memory is flagged or quarantined. It is told that some were, once they are
	// committed, is called by the writer and must not block. Nil: there is no
	// deliverer, and none are queued.
	Noticed func()
	// MaxNotices bounds those that nobody could be told. Over it, the oldest of
	// the tenant that has most give way, so that nobody's noise hides what
	// happened to others. Zero is 10,000.
	MaxNotices int
	// Told is notified of every step that was made in memories' histories, once it
	// is committed: the versions, the texts that were given up for newer ones,
	// and what was purged. It is called by the writer and must not block. Nil:
	// nobody.
	Told func([]Step)
	// Broken is told that a version is not as it was written, found before its
	// text would have been given up; Chains.Verify says what is wrong. It is called by
	// the writer, once the doubt about its memory is committed, and must not
	// block. Nil: nobody.
	Broken func()
	// Progress is told, in words, of each part of a migration that Open begins, since
	// a large ledger takes a while. Nil: no report.
	Progress func(string)
	// Lost is notified of rows that were noted and could not be written. It is
	// called by the writer and must not block. Nil: nobody.
	Lost func(rows int, err error)
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
		o.CacheSize, o.Durable = -1, true
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.CacheSize = cmp.Or(o.CacheSize, DefaultCacheSize)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Queue = cmp.Or(o.Queue, DefaultQueue)
	o.MaxHolds = cmp.Or(o.MaxHolds, DefaultMaxHolds)
	o.MaxPrincipalHolds = cmp.Or(max(0, o.MaxPrincipalHolds), DefaultMaxPrincipalHolds)
	o.MaxUserHolds = cmp.Or(max(0, o.MaxUserHolds), DefaultMaxUserHolds)
	o.MaxNotices = cmp.Or(o.MaxNotices, 10_000)
	o.KeepVersions = cmp.Or(o.KeepVersions, DefaultKeepVersions)
	if o.Told == nil {
		o.Told = func([]Step) {}
	}
	if o.Broken == nil {
		o.Broken = func() {}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Lost == nil {
		o.Lost = func(int, error) {}
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
