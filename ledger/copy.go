package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/ledger/redo"
)

// ReplacedSuffix is appended to the name of the ledger that Restore replaced.
const ReplacedSuffix = ".replaced"

// Backup copies the file Options.Path to a new file. A process may be writing to the
// ledger. The copy has every entry that was committed before, including entries in that
// process's redo log, which are applied to the copy before it gets its name.
func Backup(ctx context.Context, opt Options, to string) error {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ledger: back up: %w", errors.Join(err, fmt.Errorf("%s: %w", to, fs.ErrExist)))
	}
	err := replicate(ctx, opt.Path, to, func(tmp string) error {
		var applied uint64
		err := withFile(tmp, "rw", func(db *sql.DB) error {
			if n, err := schemaOf(ctx, db, sqliteDialect); err != nil || n < schema {
				return errors.Join(err, fmt.Errorf("the ledger has schema %d, not %d: back it up with the memproxy version that wrote it, or start this version to migrate it", n, schema))
			}
			if err := check(ctx, db, "integrity_check"); err != nil {
				return err
			}
			return db.QueryRowContext(ctx, `SELECT applied FROM redo`).Scan(&applied)
		})
		if err != nil {
			return err
		}
		log, err := durable.Read(tmp + redo.Suffix)
		if err == nil {
			err = os.WriteFile(tmp+redo.Suffix, redo.Unapplied(log, applied), 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return applyRedo(opt, tmp)
	})
	if err != nil {
		return fmt.Errorf("ledger: back up %s: %w", opt.Path, damaged(err))
	}
	return nil
}

// applyRedo applies the redo log of a copy, so that the copy is a single file.
func applyRedo(opt Options, tmp string) error {
	var lost error
	l, err := Open(Options{Path: tmp, Vault: opt.Vault, Timeout: opt.Timeout, Clock: opt.Clock, OnLost: func(_ int, err error) { lost = errors.Join(lost, err) }})
	if err != nil {
		return err
	}
	if err := errors.Join(l.Close(), lost); err != nil {
		return err
	}
	return withFile(tmp, "rw", singleFile)
}

// Restore replaces the ledger Options.Path by a backup, after checking that the backup is
// whole and that this program can open it. It refuses a ledger that a process has open. It
// replaces an existing ledger only with force, and keeps that under its name and
// ReplacedSuffix. Writes that wait in the backup for review, or to be sent, may have been
// sent since. Claim therefore returns none of them before the backend was asked.
func Restore(ctx context.Context, opt Options, from string, force bool) error {
	path := opt.Path
	if err := checkSource(from, path); err != nil {
		return fmt.Errorf("ledger: restore %s: %w", from, err)
	}
	err := replicate(ctx, from, path, func(tmp string) error {
		var from int
		err := withFile(tmp, "rw", func(db *sql.DB) (err error) {
			if from, err = schemaOf(ctx, db, sqliteDialect); err != nil || from == 0 {
				return errors.Join(err, ErrForeign)
			}
			if err := check(ctx, db, "integrity_check"); err != nil {
				return err
			}
			if from == schema { // rows of an older one are signed when it is migrated
				if err := (&store{opt: opt, dialect: sqliteDialect, reader: db}).checkKey(ctx); err != nil {
					return err
				}
			}
			_, err = db.ExecContext(ctx, `UPDATE hold SET lease = 1 WHERE state IN ('pending', 'approved')`)
			return err
		})
		if info, missing := os.Stat(tmp + redo.Suffix); err == nil && missing == nil && info.Size() > 0 { // files of a killed process, not a backup
			err = applyRedo(opt, tmp)
			_ = os.Remove(migrationCopy(tmp, from)) // a migration's copy, which is not needed: the backup remains
		}
		if err != nil {
			return err
		}
		if _, err := os.Lstat(path); err == nil && !force {
			return fmt.Errorf("%s: %w", path, fs.ErrExist)
		}
		return moveAway(path)
	})
	if err != nil {
		return fmt.Errorf("ledger: restore %s: %w", from, damaged(err))
	}
	return nil
}

// checkSource refuses what is no file, or the ledger that it would replace.
func checkSource(from, path string) error {
	source, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !source.Mode().IsRegular() {
		return errors.New("not a file")
	}
	if present, err := os.Stat(path); err == nil && os.SameFile(source, present) {
		return errors.New("it is the ledger itself")
	}
	return nil
}

// moveAway links the old ledger to its new name; the copy replaces the old name later.
// SQLite's logs are first merged into the file, unless it is damaged. They are moved
// even without a file, because SQLite would apply them to the copy.
func moveAway(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err := withFile(path, "rw", singleFile); err != nil && !errors.Is(damaged(err), ErrDamaged) {
			return fmt.Errorf("%s is in use: %w", path, err)
		}
		if err := os.Link(path, path+ReplacedSuffix); err != nil {
			return fmt.Errorf("move away the remains of an earlier restore: %w", err)
		}
	}
	for _, suffix := range [...]string{"-wal", "-shm", redo.Suffix} {
		if err := os.Rename(path+suffix, path+ReplacedSuffix+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// singleFile merges SQLite's log into the file, which no other process may have open.
func singleFile(db *sql.DB) error {
	_, err := db.Exec(`PRAGMA journal_mode = DELETE`)
	return err
}

// Plan describes the migration that a start would make.
type Plan struct {
	From int    `json:"from"` // schema of the store, 0 if there is none yet
	To   int    `json:"to"`
	Rows int64  `json:"rows,omitempty"` // rows that would be written, for a file
	Copy string `json:"copy,omitempty"` // file that would be created first, as a backup
}

// Rehearse returns what Open would do, without changing the store. The migration of a
// file is tried on a copy, which is removed.
func Rehearse(ctx context.Context, opt Options) (p Plan, err error) {
	if err := opt.complete(); err != nil {
		return p, err
	}
	s := &store{opt: opt, dialect: postgresDialect}
	p.To = schema
	if opt.URL != "" {
		if err = s.connectPostgres(ctx); err == nil {
			p.From, err = schemaOf(ctx, s.reader, postgresDialect)
		}
		return p, errors.Join(err, s.closeDBs())
	}
	if _, err := os.Lstat(opt.Path); errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	err = withFile(opt.Path, "rw", func(db *sql.DB) (err error) {
		p.From, err = schemaOf(ctx, db, sqliteDialect)
		return err
	})
	if err != nil || p.From == 0 || p.From == p.To {
		return p, err
	}
	p.Copy = migrationCopy(opt.Path, p.From)
	over := errors.New("the rehearsal is over")
	err = replicate(ctx, opt.Path, p.Copy, func(tmp string) error {
		return withFile(tmp, "rw", func(db *sql.DB) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }() // the copy is removed as well
			if err := apply(ctx, tx, sqliteDialect, opt); err != nil {
				return err
			}
			if err := tx.QueryRowContext(ctx, `SELECT total_changes() - ?`, p.To-p.From).Scan(&p.Rows); err != nil {
				return err
			}
			return over
		})
	})
	if errors.Is(err, over) {
		return p, nil
	}
	return p, fmt.Errorf("ledger: migrate a copy of %s: %w", opt.Path, err)
}

// Peek opens a store while f reads from it; another process may have it open. A
// database is opened as a ledger, a file read-only, without migrating or locking it. f
// is not called for a file that does not exist.
func Peek(opt Options, f func(*Ledger) error) error {
	if opt.URL != "" {
		l, err := Open(opt)
		if err != nil {
			return err
		}
		return errors.Join(f(l), l.Close())
	}
	if _, err := os.Stat(opt.Path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := opt.complete()
	if err == nil {
		err = withFile(opt.Path, "ro", func(db *sql.DB) error {
			if _, err := schemaOf(context.Background(), db, sqliteDialect); err != nil {
				return err
			}
			return f(&Ledger{store: &store{opt: opt, reader: db, recent: &recent{}, edits: newEdits(&opt)}})
		})
	}
	if err != nil {
		return fmt.Errorf("ledger: %s: %w", opt.Path, damaged(err))
	}
	return nil
}

// withFile opens an existing file, in mode "ro" or "rw", while f runs.
func withFile(path, mode string, f func(*sql.DB) error) error {
	dsn, err := dsn(path, "mode="+mode+"&_pragma=busy_timeout(2000)&_pragma=trusted_schema(0)")
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	return errors.Join(f(db), db.Close())
}

// dropPartial removes unfinished copies of killed starts, which would fill the disk. Their
// names begin with "." and the file's name. After that come the "." of durable.Replace, or
// the "-" of versions before it.
func dropPartial(to string) error {
	entries, err := os.ReadDir(filepath.Dir(to))
	hidden := "." + filepath.Base(to)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), hidden+".") || strings.HasPrefix(e.Name(), hidden+"-") {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(to), e.Name())))
		}
	}
	return err
}

// replicate copies a file and its redo log, while another process may be writing to
// them. The copy gets its name once it is complete and ready, if set, has returned.
// After an error there is no copy.
func replicate(ctx context.Context, from, to string, ready func(tmp string) error) error {
	// The redo log is read first: entries that leave it meanwhile are in the database.
	log, err := durable.Read(from + redo.Suffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.Replace(to, func(f *os.File) error {
		tmp := f.Name()
		defer func() {
			for _, suffix := range [...]string{"-wal", "-shm", "-journal", redo.Suffix} {
				_ = os.Remove(tmp + suffix) // usually only some of them exist
			}
		}()
		err := withFile(from, "rw", func(db *sql.DB) error {
			_, err := db.ExecContext(ctx, `VACUUM INTO ?`, tmp)
			return err
		})
		if err == nil && len(log) > 0 {
			err = os.WriteFile(tmp+redo.Suffix, log, 0o600)
		}
		if err == nil && ready != nil {
			err = ready(tmp)
		}
		if err != nil {
			return err
		}
		info, err := os.Stat(tmp + redo.Suffix)
		applied := err != nil || info.Size() == 0 // or there is none
		if applied {
			_ = os.Remove(to + redo.Suffix) // left by an earlier copy
			return nil
		}
		return os.Rename(tmp+redo.Suffix, to+redo.Suffix)
	})
}
