package ledger

import (
	"context"
	"errors"
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

// transient reports whether a transaction failed only because of another one:
// nothing of it was done, and it may be tried again.
func transient(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && strings.HasPrefix(pe.Code, "40") // deadlock, serialization
}
