package ledger

import (
	"context"
	"database/sql"
	_ "embed" // the tables
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
)

// applicationID marks an SQLite file as a memproxy ledger ("mprx"), so that the
// database of another program is refused and not changed. In Postgres it is the key of
// the advisory lock under which the tables are created.
const applicationID = 0x6d707278

// migrationCopy returns the name of the copy of a file that is made before the file is migrated.
func migrationCopy(path string, schema int) string { return fmt.Sprintf("%s.before-%d", path, schema) }

// foreignObjects finds objects in a file that change the effect of statements and that no
// memproxy creates: a trigger, a view instead of a table, a conflict clause that drops
// rows, another collation.
const foreignObjects = `SELECT coalesce(min(type || ' ' || name), '') FROM sqlite_schema
	WHERE sql NOT LIKE 'CREATE TABLE %' AND sql NOT LIKE 'CREATE INDEX %' AND sql NOT LIKE 'CREATE UNIQUE INDEX %' OR sql LIKE '%CONFLICT%' OR sql LIKE '%COLLATE%'`

// schemaOf returns the version of the store's schema, 0 for an empty store. It refuses
// that of a newer program, whose guarantees this program would not keep.
func schemaOf(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, d dialect) (int, error) {
	var ours, empty bool
	var err error
	if d == postgresDialect {
		// Not to_regclass: a session remembers that a table is missing until it next locks one.
		// After the wait for migrate's lock it would miss tables that were created meanwhile.
		err = q.QueryRowContext(ctx, `SELECT coalesce(bool_or(relname = 'memproxy_schema'), false), count(*) = 0
			FROM pg_class WHERE relname IN ('memproxy_schema', 'ownership', 'record') AND pg_table_is_visible(oid)`).Scan(&ours, &empty)
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
	if d == sqliteDialect {
		var odd string
		if err := q.QueryRowContext(ctx, foreignObjects).Scan(&odd); err != nil || odd != "" {
			return 0, errors.Join(err, fmt.Errorf("%w: it contains a %s that memproxy did not create", ErrForeign, strconv.QuoteToASCII(odd)))
		}
	}
	var n int
	if err := q.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM `+d.migrationsTable()).Scan(&n); err != nil {
		return 0, err
	}
	if n > schema {
		return 0, fmt.Errorf("%w: it has schema %d, this program knows %d", ErrNewer, n, schema)
	}
	if n > 0 && n < schema && !slices.ContainsFunc(upgrades, func(u upgrade) bool { return u.from == n }) {
		return 0, fmt.Errorf("%w: it has schema %d", ErrOlder, n)
	}
	return n, nil
}

// migrate brings an empty or older store up to date, and copies an older file first.
// The migration is one transaction: if the start fails or is killed, the store is
// unchanged and the older program can still use it.
func migrate(ctx context.Context, s *store) (failed error) {
	from, err := schemaOf(ctx, s.writer, s.dialect)
	if err != nil || from == schema {
		return err
	}
	if from > 0 && s.opt.Path != "" {
		to := migrationCopy(s.opt.Path, from)
		s.opt.Progress("a copy is made: " + to)
		if err := errors.Join(dropPartial(to), replicate(ctx, s.opt.Path, to, nil)); err != nil {
			return fmt.Errorf("the ledger is not migrated without a copy; make %s writable (it needs as much space as the ledger) and start again: %w", to, err)
		}
	}
	if from > 0 { // overwrites what the migration removes, so that no texts remain in unused pages
		restore, err := s.setDurability(ctx, []*job{{erase: true}})
		defer func() { failed = errors.Join(failed, restore()) }()
		if err != nil {
			return err
		}
	}
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err = apply(ctx, tx, s.dialect, s.opt); err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("the migration failed, and the ledger is unchanged: %w", err)
	}
	return nil
}

// apply creates the tables of an empty store, or runs the upgrades of an older schema.
// If several proxies start on one store, one of them migrates it and the others wait.
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
		note := fmt.Sprintf(`INSERT INTO %s (version, applied) VALUES (%d, %d);`, d.migrationsTable(), to, opt.Clock().UnixMicro())
		if _, err := tx.ExecContext(ctx, d.ddl(text)+note); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", to, err)
		}
		return nil
	}
	if n == 0 {
		return define(schema, `CREATE TABLE IF NOT EXISTS `+d.migrationsTable()+` (version INTEGER PRIMARY KEY, applied INTEGER NOT NULL);`+newTables)
	}
	from := n
	for _, u := range upgrades {
		if u.from != n {
			continue
		}
		opt.Progress(fmt.Sprintf("schema %d of %d", u.to, schema))
		if err := define(u.to, u.text); err != nil {
			return err
		}
		n = u.to
	}
	t := &transaction{store: &store{dialect: d, opt: Options{Vault: opt.Vault}}, ctx: ctx, tx: tx, ready: map[string]*sql.Stmt{}}
	if from == schema { // another process has migrated it
		return nil
	}
	trusted := signHeads(t, from)
	if from < firstMarked {
		renameSessions(t)
	}
	if trusted && from < firstMarked {
		t.fail(markAll(t))
	}
	if trusted {
		confirmAll(t)
	}
	t.run(`DROP TABLE breach`)
	return t.err
}

// signHeads signs the ends of the chains of an older ledger as those of the present schema, and
// reports whether its rows are trusted as they are. They are not if an end is signed as in a later
// schema: the ledger was made to look older. A ledger whose ends all have keys that are missing is
// refused.
func signHeads(t *transaction, from int) bool {
	vault := t.store.opt.Vault
	if vault == nil {
		return false
	}
	was, later := markedHead, []string{confirmedHead}
	if from < firstMarked {
		was, later = unmarkedHead, []string{markedHead, confirmedHead}
	}
	const heads = `SELECT ` + headColumns + ` FROM chain`
	ends := rows(t, scanHead(vault, was), heads)
	if len(ends) > 0 && !slices.ContainsFunc(ends, func(h head) bool { return vault.MarkKnown(h.mac) }) {
		t.fail(errOtherKey)
	}
	for _, as := range later {
		if slices.ContainsFunc(rows(t, scanHead(vault, as), heads), func(h head) bool { return !h.broken }) {
			return false
		}
	}
	for _, h := range ends {
		if !h.broken {
			t.run(`UPDATE chain SET mac = ? WHERE tenant = ?`, vault.Sign(confirmedHead, h.data()), h.tenant)
		}
	}
	return true
}

// confirmAll signs and encrypts what was written before schema 25, which is trusted as it is,
// except that reviewers decide again on the breaks of chains that were accepted.
func confirmAll(t *transaction) {
	for _, f := range rows(t, scanTrack(&store{}), `SELECT `+trackColumns+` FROM actor`) {
		t.run(`UPDATE actor SET mac = ? WHERE tenant = ? AND actor = ?`, t.store.opt.Vault.MarkRow(f.row), f.tenant, f.actor)
	}
	for _, h := range rows(t, scanHold, `SELECT `+holdColumns+` FROM hold WHERE state NOT IN ('rejected', 'done', 'failed')`) {
		confirm(t, &h, confirmation{shownOf(&h), t.opened(ref(refApproval, h.ID), h.Tenant)})
	}
	for _, f := range rows(t, func(s scanner) (f memproxy.ChainFault, err error) {
		err = s.Scan(&f.Tenant, &f.Position, &f.Class)
		return f, err
	}, `SELECT tenant, place, class FROM breach ORDER BY tenant, place, class LIMIT 10000`) {
		noteBreach(t, &f)
	}
}

//go:embed schema.sql
var newTables string

const (
	schema      = 25 // version of the tables in schema.sql
	firstMarked = 22 // first version of the schema whose rows have marks
)

// upgrade migrates the schema of one released program to that of the next, in the SQL
// that dialect.ddl translates. A released upgrade is never edited.
type upgrade struct {
	from, to int
	text     string
}

var (
	//go:embed migrations/11_to_22.sql
	from11 string
	//go:embed migrations/22_to_23.sql
	from22 string
	//go:embed migrations/23_to_24.sql
	from23 string
	//go:embed migrations/24_to_25.sql
	from24   string
	upgrades = []upgrade{{11, 22, from11}, {22, 23, from22}, {23, 24, from23}, {24, 25, from24}}
)

// renameSessions gives records of rejections the ids under which they are looked up
// now, so that their locks stay in force: earlier ids contained names that callers
// chose, which are now hashed. Agents of Letta keep their names. A record whose new id
// is taken keeps the old one.
func renameSessions(t *transaction) {
	for _, s := range rows(t, scanSession(&store{}, false), `SELECT `+sessionColumns+` FROM session`) {
		k := memproxy.SessionKeyOf(s.ID)
		k.User = memproxy.Inert(k.User)
		if !strings.HasPrefix(k.Name, "agent-") {
			k.Name = memproxy.InertSession(k.Name)
		}
		if id := k.ID(); k.Principal != "" {
			t.run(`UPDATE session SET id = ?1 WHERE tenant = ?2 AND id = ?3 AND NOT EXISTS (SELECT 1 FROM session WHERE tenant = ?2 AND id = ?1)`, id, s.Tenant, s.ID)
		}
	}
}

// markAll marks the rows that were written before marks existed, which are trusted as
// they are.
func markAll(t *transaction) error {
	vault := t.store.opt.Vault
	err := eachPage(verifyStep, func(after fields) ([]fields, error) {
		return rows(t, scanFields, nextRecords, after.key(), verifyStep), t.err
	}, func(found []fields) error {
		var args []any
		for i := range found {
			f := &found[i]
			args = append(args, f.texts[0], f.texts[1], f.texts[2], vault.MarkRow(f.row))
		}
		t.run(`INSERT INTO record (backend, kind, id, mac) VALUES (?, ?, ?, ?)`+strings.Repeat(", (?, ?, ?, ?)", len(found)-1)+
			` ON CONFLICT (backend, kind, id) DO UPDATE SET mac = excluded.mac`, args...)
		return t.err
	})
	if err != nil {
		return err
	}
	unmarked := &store{}
	for _, s := range rows(t, scanSession(unmarked, false), `SELECT `+sessionColumns+` FROM session`) {
		s.mark(t)
	}
	for _, v := range rows(t, scanVote(unmarked), `SELECT `+voteColumns+` FROM vote`) {
		t.run(`UPDATE vote SET mac = ? WHERE subject = ? AND reviewer = ?`, vault.MarkRow(v.row), v.subject, v.reviewer)
	}
	for _, n := range rows(t, scanNotice(unmarked), `SELECT `+noticeColumns+` FROM notice`) {
		t.run(`UPDATE notice SET mac = ? WHERE id = ?`, vault.MarkRow(noticeRow(&n)), n.ID)
	}
	return t.err
}
