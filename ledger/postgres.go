package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// postgresReaders is how many queries a proxy asks at once.
	postgresReaders = 8
	// postgresLifetime is how long a connection is used, so that the proxies
	// of a fleet come to a new primary by themselves.
	postgresLifetime = 5 * time.Minute
	// migrationLock is the key of the advisory lock under which tables are
	// made ("mprx").
	migrationLock = 0x6d707278
)

// connectPostgres opens one connection for the writer and a few for readers.
// Nothing is connected before it is needed.
func (l *Ledger) connectPostgres(ctx context.Context) error {
	config, err := pgx.ParseConfig(l.opt.URL)
	if err != nil {
		return errors.New("not the URL of a Postgres database") // the error could quote the password
	}
	config.ConnectTimeout = l.opt.Timeout
	config.DialFunc = newCircuit(l.opt.Timeout).dial(config.DialFunc)
	config.RuntimeParams["application_name"] = "memproxy"
	l.writer = stdlib.OpenDB(*config)
	l.writer.SetMaxOpenConns(1)
	l.writer.SetConnMaxLifetime(postgresLifetime)
	reads := config.Copy()
	reads.RuntimeParams["default_transaction_read_only"] = "on"
	l.reader = stdlib.OpenDB(*reads)
	l.reader.SetMaxOpenConns(postgresReaders)
	l.reader.SetMaxIdleConns(postgresReaders)
	l.reader.SetConnMaxLifetime(postgresLifetime)
	return l.writer.PingContext(ctx)
}

// migratePostgres brings an empty or older schema up to date. Of proxies that
// start at once, one does it and the others wait.
func migratePostgres(ctx context.Context, db *sql.DB, now time.Time) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
		return err
	}
	var ours, theirs bool
	err = tx.QueryRowContext(ctx, `SELECT to_regclass('memproxy_schema') IS NOT NULL, to_regclass('ownership') IS NOT NULL`).Scan(&ours, &theirs)
	switch {
	case err != nil:
		return err
	case !ours && theirs:
		return ErrForeign
	case !ours:
		if _, err := tx.ExecContext(ctx, `CREATE TABLE memproxy_schema (version BIGINT PRIMARY KEY, applied BIGINT NOT NULL)`); err != nil {
			return err
		}
	}
	var version int
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM memproxy_schema`).Scan(&version); err != nil {
		return err
	}
	steps := migrations()
	if version > len(steps) {
		return fmt.Errorf("%w: it has schema %d, this program knows %d", ErrNewer, version, len(steps))
	}
	for i := version; i < len(steps); i++ {
		if _, err := tx.ExecContext(ctx, postgresDialect.ddl(steps[i])); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", i+1, err)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO memproxy_schema VALUES ($1, $2)`, i+1, now.UnixMicro()); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// transient reports whether a transaction failed only because of another one:
// nothing of it was done, and it may be tried again.
func transient(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && strings.HasPrefix(pe.Code, "40") // deadlock, serialization
}
