package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// applicationID marks an SQLite file as a memproxy ledger ("mprx"), so that some
// other program's database is refused and not written into. In Postgres it is the
// key of the advisory lock under which tables are made.
const applicationID = 0x6d707278

// before is the name of the copy that is made of a file before it is migrated.
func before(path string, schema int) string { return fmt.Sprintf("%s.before-%d", path, schema) }

// schemaOf returns the number of the store's schema, 0 for an empty store. One of a
// newer program is refused: this program would not keep its promises.
func schemaOf(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, d dialect) (int, error) {
	var ours, empty bool
	var err error
	if d == postgresDialect {
		err = q.QueryRowContext(ctx, `SELECT to_regclass('memproxy_schema') IS NOT NULL, to_regclass('ownership') IS NULL`).Scan(&ours, &empty)
	} else {
		err = q.QueryRowContext(ctx, `SELECT application_id = ? AND tables > 0, application_id IN (0, ?) AND tables = 0
			FROM pragma_application_id, (SELECT count(*) AS tables FROM sqlite_schema)`, applicationID, applicationID).Scan(&ours, &empty)
	}
	switch {
	case err != nil:
		return 0, err
	case !ours && !empty:
		return 0, ErrForeign
	case !ours:
		return 0, nil
	}
	var n int
	if err := q.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM `+d.applied()).Scan(&n); err != nil {
		return 0, err
	}
	if n > schema {
		return 0, fmt.Errorf("%w: it has schema %d, this program knows %d", ErrNewer, n, schema)
	}
	if n > 0 && n < oldest {
		return 0, fmt.Errorf("%w: it has schema %d, this program knows %d and later", ErrOlder, n, oldest)
	}
	return n, nil
}

// migrate brings an empty or older store up to date; of an older file it makes a copy
// first. It is one transaction: a start that fails or is killed leaves the store as it
// was, and the program before this one goes on with it.
func migrate(ctx context.Context, l *Ledger) error {
	from, err := schemaOf(ctx, l.writer, l.dialect)
	if err != nil || from == schema {
		return err
	}
	if from > 0 && l.opt.Path != "" {
		to := before(l.opt.Path, from)
		l.opt.Progress("a copy is made: " + to)
		if err := errors.Join(dropPartial(to), replicate(ctx, l.opt.Path, to, nil)); err != nil {
			return fmt.Errorf("nothing is migrated without a copy; make it possible to write %s (it takes as much room as the ledger) and start again: %w", to, err)
		}
	}
	tx, err := l.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err = apply(ctx, tx, l.dialect, l.opt); err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("the ledger is as it was, its migration failed: %w", err)
	}
	return nil
}

// apply makes the tables of an empty store, or the steps from an older schema. Of
// proxies that share a store and start at once, one makes them and the others wait for it.
func apply(ctx context.Context, tx *sql.Tx, d dialect, opt Options) error {
	begin := fmt.Sprintf(`PRAGMA application_id = %d`, applicationID)
	if d == postgresDialect {
		begin = fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, applicationID)
	}
	if _, err := tx.ExecContext(ctx, begin); err != nil {
		return err
	}
	n, err := schemaOf(ctx, tx, d)
	if err != nil {
		return err
	}
	define := func(to int, text string) error {
		text += fmt.Sprintf(`INSERT INTO %s (version, applied) VALUES (%d, %d);`, d.applied(), to, opt.Clock().UnixMicro())
		if _, err := tx.ExecContext(ctx, d.ddl(text)); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", to, err)
		}
		return nil
	}
	if n == 0 {
		return define(schema, `CREATE TABLE IF NOT EXISTS `+d.applied()+` (version INTEGER PRIMARY KEY, applied INTEGER NOT NULL);`+newTables)
	}
	for ; n < schema; n++ {
		opt.Progress(fmt.Sprintf("schema %d of %d", n+1, schema))
		if err := define(n+1, upgrades()[n-oldest]); err != nil {
			return err
		}
	}
	return nil
}

// dialect is what the two stores differ in. Statements are written once, as
// SQLite reads them: ? and ?N for parameters, and tables in the words that ddl
// knows.
type dialect int

const (
	sqliteDialect dialect = iota
	postgresDialect
)

// sql is a statement in the dialect's words. It must hold no question mark but
// parameters'.
func (d dialect) sql(text string) string {
	if d == sqliteDialect {
		return text
	}
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

// ddl is the definition of tables in the dialect's words, and what fills them.
// Text compares by bytes in both.
func (d dialect) ddl(text string) string {
	if d == sqliteDialect {
		return text
	}
	return strings.NewReplacer(" TEXT ", ` TEXT COLLATE "C" `, " INTEGER ", " BIGINT ", " BLOB ", " BYTEA ", ") WITHOUT ROWID;", ");",
		"json_group_array(", "json_agg(", "json_object(", "json_build_object(", "json(e.reasons)", "CAST(e.reasons AS json)",
		"strftime('%Y-%m-%dT%H:%M:%S', e.at / 1000000, 'unixepoch') || printf('.%06dZ', e.at % 1000000)",
		`to_char(to_timestamp(e.at / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') || to_char(e.at % 1000000, '"."FM000000"Z"')`).Replace(text)
}

// applied is the table of the migrations that were made.
func (d dialect) applied() string {
	if d == postgresDialect {
		return "memproxy_schema"
	}
	return "schema_version"
}
