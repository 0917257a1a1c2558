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
	if _, err := tx.ExecContext(ctx, sqliteDialect.ddl(step)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO schema_version VALUES (?, ?)`, version, now.UnixMicro()); err != nil {
		return err
	}
	return tx.Commit()
}
