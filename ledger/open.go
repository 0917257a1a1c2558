package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/ledger/circuit"
	"github.com/memproxy/memproxy/ledger/keys"
	"github.com/memproxy/memproxy/ledger/redo"
)

// The errors of Open and of calls.
var (
	// ErrDamaged means that the file is not a readable database.
	ErrDamaged = errors.New("the ledger file is damaged")
	// ErrForeign means that the file is a database of another program.
	ErrForeign = errors.New("the file is not a memproxy ledger")
	// ErrNewer means that the file was written by a newer memproxy.
	ErrNewer = errors.New("the ledger was written by a newer memproxy")
	// ErrOlder means that the file was written by a memproxy that is too old to migrate from.
	ErrOlder = errors.New("the ledger was written by a memproxy that is too old to upgrade from")
	// ErrKey means that the rows are signed with keys that the Vault does not have.
	ErrKey = errors.New("the ledger's rows are signed with another vault.key")
	// ErrNoVault means that the ledger was opened without a Vault.
	ErrNoVault = keys.ErrNoVault
	// ErrShredded means that a content was destroyed, ErrSealed that no key opens it.
	ErrShredded = keys.ErrShredded
	ErrSealed   = keys.ErrSealed
	errOtherKey = fmt.Errorf("%w: keys/vault.key in the state directory must be the one of all sidecars that use this ledger, and former ones (keys/vault-*.key) must be there; without them, move the ledger aside to start empty", ErrKey)
	errMoved    = errors.New("the ledger's file was removed or replaced")
	// ErrClosed means that the ledger is closed.
	ErrClosed = errors.New("ledger: closed")
	// ErrFull means that a limit is reached.
	ErrFull = errors.New("ledger: full")
	// ErrRow means that a row cannot be stored; see Ledger.Commit.
	ErrRow = fmt.Errorf("ledger: row %w", memproxy.ErrRefused)
)

const (
	// openTimeout limits the checks and migrations of Open, which read every row. A
	// million rows take some seconds.
	openTimeout = 10 * time.Minute
	// checkLimit is the size in bytes of the largest file that Open checks completely,
	// which takes about a second per 500 MB. Damage to a larger file is found when the
	// damaged page is read.
	checkLimit = 256 << 20
)

// mapped is how much of the file readers map into memory, in bytes. Reading a page
// outside of their cache then needs no system call and no copy, which are a third of
// the cost of a cold look-up. If the disk fails under the mapping, the process ends and
// thereby fails closed. The same applies to SQLite's WAL index, which is always mapped.
const mapped = 1 << 30

// A transaction of the writer changes pages all over the file, because ids are random.
const (
	// writerCache is the size of the writer's page cache in KiB. It has to hold the pages
	// of a transaction: pages that do not fit are written before the transaction ends, and
	// once more when it ends.
	writerCache = 16 << 10
	// checkpointAfter is the size of SQLite's WAL, in pages of 4 KiB, at which it is
	// copied to the file. A page that was written several times is copied once, so the WAL
	// should hold several groups of queued entries.
	checkpointAfter = 8192
)

// Open opens the ledger, and creates or migrates the store if needed. It refuses a
// damaged file, and a file of another program or of a newer or much older memproxy
// (ErrDamaged, ErrForeign, ErrNewer, ErrOlder), and does not change such a file.
func Open(opt Options) (*Ledger, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	s := &store{
		opt: opt, ready: map[string]*sql.Stmt{}, jobs: make(chan *job, opt.Queue), large: make(chan struct{}, 1),
		stopped: make(chan struct{}), edits: newEdits(&opt),
	}
	l := &Ledger{s, Holds{s}, Sessions{s}, Notices{s}, Rollbacks{s}, Chains{s}, Backends{s}, Upkeep{s}}
	left, err := l.open()
	if err != nil {
		l.closeDBs()
		switch {
		case opt.URL != "":
			return nil, fmt.Errorf("ledger: the Postgres of ledger.url: %w", err)
		case opt.Path == "":
			return nil, fmt.Errorf("ledger: in memory: %w", err)
		}
		return nil, fmt.Errorf("ledger: %s: %w", opt.Path, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.stopLoading = cancel
	l.loading.Go(func() { _ = l.filter.load(ctx, l.store) })
	go l.write()
	if err := resume(l.store, left); err != nil {
		_ = l.Close() // the first error is the one to report
		return nil, fmt.Errorf("ledger: %s: %w", l.opt.Path+redo.Suffix, err)
	}
	return l, nil
}

// open opens the store and returns the entries of the redo log that must be applied.
func (s *store) open() (left []*job, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	connect := s.connect
	if s.opt.URL != "" {
		s.dialect = postgresDialect
		connect = s.connectPostgres
	}
	if err := connect(ctx); err != nil {
		return nil, damaged(err)
	}
	if err := migrate(ctx, s); err != nil {
		return nil, damaged(err)
	}
	if s.recent, err = newRecent(s.opt.CacheSize); err != nil {
		return nil, err
	}
	if s.opt.CacheSize > 0 {
		s.filter = &keyFilter{sealed: map[string]bool{}}
	}
	if err := s.checkKey(ctx); err != nil {
		return nil, err
	}
	// The start fails if a table is missing, whatever the version of the schema says.
	if err := s.queryRecords(ctx, memproxy.Records{}, []key{allRecords}); err != nil {
		return nil, err
	}
	return openRedo(ctx, s)
}

// checkKey refuses a ledger that a key signed which the Vault does not have: of the first
// rows more than one, or all. If a key was lost, or is not shared by all sidecars, what it
// signed would be quarantined. A single such row may have been edited.
func (s *store) checkKey(ctx context.Context) error {
	marks, err := fetch(ctx, s, scanOne[[]byte], `SELECT mac FROM record WHERE length(mac) > 0 LIMIT ?`, 64)
	all := len(marks)
	if missing := len(slices.DeleteFunc(marks, s.opt.Vault.MarkKnown)); err != nil || missing < min(all, 2) || all == 0 {
		return err
	}
	return errOtherKey
}

// connect opens one connection for the writer and some for readers. An in-memory
// database has only one connection, because a second would open another database.
func (s *store) connect(ctx context.Context) error {
	if s.opt.Path == "" {
		db, err := sql.Open("sqlite", "file::memory:?"+pragmas(&s.opt, "MEMORY"))
		if err != nil {
			return err
		}
		db.SetMaxOpenConns(1)
		db.SetConnMaxIdleTime(0)
		db.SetConnMaxLifetime(0)
		s.writer, s.reader = db, db
		return db.PingContext(ctx)
	}
	var err error
	if s.file, err = claim(s.opt.Path); err != nil {
		return err
	}
	dsn, err := dsn(s.opt.Path, pragmas(&s.opt, "WAL"))
	if err != nil {
		return err
	}
	if s.writer, err = sql.Open("sqlite", dsn+fmt.Sprintf("&_pragma=cache_size(-%d)&_pragma=wal_autocheckpoint(%d)", writerCache, checkpointAfter)); err != nil {
		return err
	}
	s.writer.SetMaxOpenConns(1)
	if s.reader, err = sql.Open("sqlite", dsn+fmt.Sprintf("&_pragma=query_only(1)&_pragma=mmap_size(%d)", mapped)); err != nil {
		return err
	}
	n := max(2, runtime.GOMAXPROCS(0))
	s.reader.SetMaxOpenConns(n)
	s.reader.SetMaxIdleConns(n)
	if err := s.writer.PingContext(ctx); err != nil {
		return err
	}
	if s.file.Size() > checkLimit {
		return nil
	}
	return check(ctx, s.writer, "quick_check")
}

// check verifies the whole file: "quick_check", or "integrity_check", which takes a few
// times as long and also compares rows with their order and indexes.
func check(ctx context.Context, db *sql.DB, how string) error {
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA `+how+`(1)`).Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s; %s", ErrDamaged, verdict, advice)
	}
	return nil
}

func dsn(path, query string) (string, error) {
	abs, err := filepath.Abs(path)
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: query}).String(), err
}

func pragmas(opt *Options, journal string) string {
	q := url.Values{"_txlock": {"immediate"}}
	q["_pragma"] = []string{
		fmt.Sprintf("busy_timeout(%d)", opt.Timeout.Milliseconds()), // first, because the next pragma may have to wait
		"journal_mode(" + journal + ")",
		"synchronous(NORMAL)",
		"trusted_schema(0)",
	}
	return q.Encode()
}

// claim creates the file with mode 0600, or checks the first bytes of an existing file
// before SQLite opens it. An empty file counts as new.
func claim(path string) (fs.FileInfo, error) {
	f, err := durable.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return info, err
	}
	const magic = "SQLite format 3\x00"
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(f, head); err != nil || string(head) != magic {
		return nil, fmt.Errorf("%w: it does not begin like an SQLite database; %s", ErrDamaged, advice)
	}
	return info, nil
}

// Close writes what is queued and closes the store. Later calls return ErrClosed. Close
// waits as long as one call may take.
func (l *Ledger) Close() error {
	l.closing.Lock()
	if l.closed {
		l.closing.Unlock()
		return nil
	}
	l.closed = true
	close(l.jobs)
	l.closing.Unlock()
	<-l.stopped
	l.stopLoading()
	l.loading.Wait()
	return l.closeDBs()
}

func (s *store) closeDBs() error {
	var errs []error
	for _, db := range [...]*sql.DB{s.reader, s.writer} { // the writer last, because it checkpoints the WAL
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, s.redo.Close())...)
}

const (
	postgresReaders = 8 // number of queries that a proxy runs concurrently
	// postgresLifetime limits the age of a connection, so that the proxies of a fleet
	// reconnect to a new primary by themselves.
	postgresLifetime = 5 * time.Minute
	// postgresIdle is how long, in milliseconds, the locks of a proxy that stopped in the
	// middle of a transaction (frozen, or cut off) keep the others waiting.
	postgresIdle = "10000"
)

// CheckURL reports why Options.URL cannot be used, without quoting it. It does not connect.
func CheckURL(url string) error {
	_, err := parsePostgres(url)
	return err
}

func parsePostgres(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if _, is := errors.AsType[*fs.PathError](err); is {
		return nil, errors.New("a file that the URL names in sslrootcert, sslcert or sslkey cannot be read")
	}
	if err != nil {
		return nil, errors.New("not the URL of a Postgres database") // the parser's error could quote the password
	}
	return config, nil
}

// connectPostgres opens one connection for the writer. Readers connect when needed.
func (s *store) connectPostgres(ctx context.Context) error {
	config, err := parsePostgres(s.opt.URL)
	if err != nil {
		return err
	}
	config.ConnectTimeout = s.opt.Timeout
	config.DialFunc = circuit.New(s.opt.Timeout).Dial(config.DialFunc)
	config.RuntimeParams["application_name"] = "memproxy"
	config.RuntimeParams["idle_in_transaction_session_timeout"] = postgresIdle
	s.writer = stdlib.OpenDB(*config)
	s.writer.SetMaxOpenConns(1)
	s.writer.SetConnMaxLifetime(postgresLifetime)
	reads := config.Copy()
	reads.RuntimeParams["default_transaction_read_only"] = "on"
	s.reader = stdlib.OpenDB(*reads)
	s.reader.SetMaxOpenConns(postgresReaders)
	s.reader.SetMaxIdleConns(postgresReaders)
	s.reader.SetConnMaxLifetime(postgresLifetime)
	return s.writer.PingContext(ctx)
}

// Ping checks that the store can be read and written. For a file it waits for queued
// entries.
func (l *Ledger) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	var one int
	if err := l.reader.QueryRowContext(ctx, `SELECT 1`).Scan(&one); err != nil {
		return l.wrap("ping", err)
	}
	return l.do(ctx, &job{run: func(t *transaction) {
		t.run(`UPDATE redo SET applied = applied`) // an empty transaction would succeed on a full disk
	}})
}
