package ledger

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/memproxy/memproxy/ledger/circuit"
	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"
)

// dialect is the SQL variant of a store. Statements are written once, for SQLite: with
// ? and ?N for parameters, and with column types that ddl translates.
type dialect int

const (
	sqliteDialect dialect = iota
	postgresDialect
)

// sql translates a statement, whose question marks must all be parameters.
func (d dialect) sql(text string) string {
	if d == sqliteDialect {
		// SQLite plans a query by the value of its limit, and plans it again for each bound
		// value, unless the limit is an expression.
		return strings.ReplaceAll(text, "LIMIT ?", "LIMIT 0 + ?")
	}
	text = strings.NewReplacer(viaUnverified, "", viaExpires, "", viaDeleted, "").Replace(text)
	text = strings.ReplaceAll(text, "SELECT value FROM json_each(", "SELECT json_array_elements_text(")
	var b strings.Builder
	next := 0
	for {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
		n, err := strconv.Atoi(after[:digits])
		if err != nil {
			next++
			n = next
		}
		b.WriteString("$" + strconv.Itoa(n))
		text = after[digits:]
	}
}

// ddl translates the definitions and migrations of tables. A text may end in a section
// for SQLite only and one for Postgres only. Both dialects compare text by bytes.
func (d dialect) ddl(text string) string {
	text, postgres, _ := strings.Cut(text, "\n-- Postgres only")
	text, sqlite, _ := strings.Cut(text, "\n-- SQLite only")
	if d == sqliteDialect {
		return text + sqlite
	}
	return strings.NewReplacer("char(1)", "chr(1)", " TEXT ", ` TEXT COLLATE "C" `, " INTEGER ", " BIGINT ", " BLOB ", " BYTEA ", ") WITHOUT ROWID;", ");",
		"json_group_array(", "json_agg(", "json_object(", "json_build_object(", "json(e.reasons)", "CAST(e.reasons AS json)",
		"strftime('%Y-%m-%dT%H:%M:%S', e.at / 1000000, 'unixepoch') || printf('.%06dZ', e.at % 1000000)",
		`to_char(to_timestamp(e.at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') || to_char(e.at % 1000000, '"."FM000000"Z"')`).Replace(text + postgres)
}

// migrationsTable is the name of the table of applied migrations.
func (d dialect) migrationsTable() string {
	if d == postgresDialect {
		return "memproxy_schema"
	}
	return "schema_version"
}

// advice tells what to do about a damaged file. Starting with an empty ledger is safe,
// because it fills up again in use; the message says what is lost.
const advice = "nothing was changed; restore a backup (`memproxy ledger restore`), " +
	"or salvage it with `sqlite3 FILE .recover`, or move it aside to start empty: " +
	"owners are then fetched from the backend again, and authorship of unstamped memories is lost"

// damaged adds ErrDamaged and advice to SQLite's errors about corrupt files.
func damaged(err error) error {
	var se *sqlite.Error
	if !errors.As(err, &se) || errors.Is(err, ErrDamaged) {
		return err
	}
	switch se.Code() & 0xff {
	case sqlitelib.SQLITE_CORRUPT, sqlitelib.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w; %s", ErrDamaged, err, advice)
	}
	return err
}

// retryable reports whether an error comes from the store (a full disk, a lock, no
// answer) and not from the entry, so that the same entry can be written later.
func retryable(err error) bool {
	var se *sqlite.Error
	var pe *pgconn.PgError
	var ne net.Error
	switch {
	case errors.As(err, &se):
		switch se.Code() & 0xff {
		case sqlitelib.SQLITE_FULL, sqlitelib.SQLITE_IOERR, sqlitelib.SQLITE_READONLY, sqlitelib.SQLITE_CANTOPEN, sqlitelib.SQLITE_NOMEM, sqlitelib.SQLITE_BUSY, sqlitelib.SQLITE_LOCKED:
			return true
		}
		return false
	case errors.As(err, &pe): // a resource is exhausted, the server stops or breaks, or it is read-only
		return slices.Contains([]string{"53", "57", "58", "08", "40", "25"}, pe.Code[:min(2, len(pe.Code))])
	}
	return errors.Is(err, circuit.ErrOpen) || errors.Is(err, errMoved) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &ne) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, net.ErrClosed)
}

// transient reports whether a transaction was rolled back because of a concurrent one.
func transient(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && strings.HasPrefix(pe.Code, "40") // deadlock or serialization failure
}
