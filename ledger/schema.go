package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// applicationID marks the file as a memproxy ledger ("mprx"), so that some
// other program's database is refused and not written into.
const applicationID = 0x6d707278

// migrations are run in order, each in a transaction. A released one is never
// edited: later needs are a further entry. Times are microseconds since 1970,
// zero for none.
func migrations() []string {
	return []string{`
CREATE TABLE ownership (
	backend    TEXT    NOT NULL,
	kind       TEXT    NOT NULL,
	id         TEXT    NOT NULL,
	tenant     TEXT    NOT NULL,
	user       TEXT    NOT NULL,
	agent      TEXT    NOT NULL,
	app        TEXT    NOT NULL,
	run        TEXT    NOT NULL,
	actor      TEXT    NOT NULL,
	trust      TEXT    NOT NULL,
	confidence INTEGER NOT NULL,
	source     TEXT    NOT NULL,
	decision   TEXT    NOT NULL,
	sha256     TEXT    NOT NULL,
	written    INTEGER NOT NULL,
	deleted    INTEGER NOT NULL, -- when it was deleted
	PRIMARY KEY (backend, kind, id)
) WITHOUT ROWID;
CREATE INDEX ownership_decision ON ownership (backend, decision) WHERE decision <> '';
CREATE INDEX ownership_deleted ON ownership (deleted) WHERE deleted > 0;

CREATE TABLE correction ( -- one row a correction, so that each counts once
	backend  TEXT    NOT NULL,
	id       TEXT    NOT NULL,
	decision TEXT    NOT NULL,
	at       INTEGER NOT NULL,
	PRIMARY KEY (backend, id, decision)
) WITHOUT ROWID;
CREATE INDEX correction_at ON correction (at);

CREATE TABLE actor (
	tenant      TEXT    NOT NULL,
	actor       TEXT    NOT NULL,
	facts       INTEGER NOT NULL,
	corrections INTEGER NOT NULL,
	PRIMARY KEY (tenant, actor)
) WITHOUT ROWID;
`}
}

// migrate brings an empty or older schema up to date. A newer one is refused:
// this program would not keep its promises.
func migrate(ctx context.Context, db *sql.DB, now time.Time) error {
	var app, tables int
	if err := db.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&app); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return err
	}
	if app != applicationID && (app != 0 || tables > 0) {
		return ErrForeign
	}
	if tables == 0 {
		_, err := db.ExecContext(ctx, fmt.Sprintf(`PRAGMA application_id = %d;
			CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied INTEGER NOT NULL)`, applicationID))
		if err != nil {
			return err
		}
	}
	var version int
	if err := db.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM schema_version`).Scan(&version); err != nil {
		return err
	}
	steps := migrations()
	if version > len(steps) {
		return fmt.Errorf("%w: it has schema %d, this program knows %d", ErrNewer, version, len(steps))
	}
	for i := version; i < len(steps); i++ {
		if err := migrateOne(ctx, db, i+1, steps[i], now); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", i+1, err)
		}
	}
	return nil
}

func migrateOne(ctx context.Context, db *sql.DB, version int, step string, now time.Time) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, step); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO schema_version VALUES (?, ?)`, version, now.UnixMicro()); err != nil {
		return err
	}
	return tx.Commit()
}
