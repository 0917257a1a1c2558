package ledger

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
)

// applicationID marks an SQLite file as a memproxy ledger ("mprx"), so that some
// other program's database is refused and not written into. In Postgres it is the
// key of the advisory lock under which tables are made.
const applicationID = 0x6d707278

// before is the name of the copy that is made of a file before it is migrated.
func before(path string, schema int) string { return fmt.Sprintf("%s.before-%d", path, schema) }

// oddities names what changes what a statement does and no memproxy puts into a file: a
// trigger, a view in a table's place, rows that a conflict drops or that compare otherwise.
const oddities = `SELECT coalesce(min(type || ' ' || name), '') FROM sqlite_schema
	WHERE sql NOT LIKE 'CREATE TABLE %' AND sql NOT LIKE 'CREATE INDEX %' AND sql NOT LIKE 'CREATE UNIQUE INDEX %' OR sql LIKE '%CONFLICT%' OR sql LIKE '%COLLATE%'`

// schemaOf returns the number of the store's schema, 0 for an empty store. One of a
// newer program is refused: this program would not keep its promises.
func schemaOf(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, d dialect) (int, error) {
	var ours, empty bool
	var err error
	if d == postgresDialect {
		// Not to_regclass: a session remembers that a table is missing until it next
		// locks one, so after the wait for migrate's lock it would miss the tables made meanwhile.
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
		if err := q.QueryRowContext(ctx, oddities).Scan(&odd); err != nil || odd != "" {
			return 0, errors.Join(err, fmt.Errorf("%w: somebody put a %s into it", ErrForeign, strconv.QuoteToASCII(odd)))
		}
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

// migrate brings an empty or older store up to date, and copies an older file first. It
// is one transaction: a start that fails or is killed leaves the store as it was, usable
// by the older program.
func migrate(ctx context.Context, s *store) (failed error) {
	from, err := schemaOf(ctx, s.writer, s.dialect)
	if err != nil || from == schema {
		return err
	}
	if from > 0 && s.opt.Path != "" {
		to := before(s.opt.Path, from)
		s.opt.Progress("a copy is made: " + to)
		if err := errors.Join(dropPartial(to), replicate(ctx, s.opt.Path, to, nil)); err != nil {
			return fmt.Errorf("nothing is migrated without a copy; make it possible to write %s (it takes as much room as the ledger) and start again: %w", to, err)
		}
	}
	if from > 0 { // what becomes of contents is left nowhere else
		restore, err := s.setDurability(ctx, []*job{{erase: true}})
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, restore()) }()
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
		return fmt.Errorf("the ledger is as it was, its migration failed: %w", err)
	}
	return nil
}

// apply creates the tables of an empty store, or runs the upgrades of an older schema.
// If proxies that share a store start at once, one migrates it and the others wait.
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
		note := fmt.Sprintf(`INSERT INTO %s (version, applied) VALUES (%d, %d);`, d.applied(), to, opt.Clock().UnixMicro())
		if _, err := tx.ExecContext(ctx, d.ddl(text)+note); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", to, err)
		}
		return nil
	}
	if n == 0 {
		return define(schema, `CREATE TABLE IF NOT EXISTS `+d.applied()+` (version INTEGER PRIMARY KEY, applied INTEGER NOT NULL);`+newTables+d.onlyMarked())
	}
	unsigned := n < firstMarked
	for ; n < schema; n++ {
		opt.Progress(fmt.Sprintf("schema %d of %d", n+1, schema))
		text := upgrades()[n-oldest]
		if n+1 == firstMarked {
			text += d.onlyMarked()
		}
		if err := define(n+1, text); err != nil {
			return err
		}
	}
	if unsigned {
		return markAll(&transaction{store: &store{dialect: d, opt: Options{Vault: opt.Vault}}, ctx: ctx, tx: tx, fresh: map[string]*sql.Stmt{}})
	}
	return nil
}

//go:embed schema.sql
var newTables string

// oldest is the first schema that is brought up to date.
const oldest = 11

// schema is the number of the tables in schema.sql.
var schema = oldest + len(upgrades())

// upgrades lead from the oldest schema to that of schema.sql, one number each, in the
// SQL that dialect.ddl translates. A released upgrade is never edited: later changes are
// further entries.
func upgrades() []string {
	return []string{actorTables, foundTables, validatedTables, disputeTables, unseenTables, redoTables, sessionTables, exactTables, indexTables, recordTables, markTables}
}

// actorTables: how many of an author's memories were let out of review, and
// since when the author is known. Of authors from before, nobody knows either:
// all that they wrote was accepted, and zero is long ago.
const actorTables = `
ALTER TABLE actor ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE actor ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
UPDATE actor SET accepted = facts;
`

// foundTables: what backends held when they were sealed, and what one process
// at a time does.
const foundTables = `
CREATE TABLE found ( -- memories without an owner, as hashes
	backend TEXT NOT NULL,
	kind    TEXT NOT NULL,
	id      TEXT NOT NULL,
	sha256  TEXT NOT NULL, -- of the text
	PRIMARY KEY (backend, kind, id)
) WITHOUT ROWID;

CREATE TABLE sealing ( -- how far it is with backends that are not sealed yet
	backend TEXT    NOT NULL PRIMARY KEY,
	cursor  TEXT    NOT NULL,
	pass    INTEGER NOT NULL,
	fresh   INTEGER NOT NULL,
	found   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE claim (
	name   TEXT    NOT NULL PRIMARY KEY,
	holder TEXT    NOT NULL,
	until  INTEGER NOT NULL
) WITHOUT ROWID;
`

// validatedTables: how many of an author's memories were found sound, each once.
const validatedTables = `
ALTER TABLE actor ADD COLUMN validated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ownership ADD COLUMN validated INTEGER NOT NULL DEFAULT 0; -- 1 while it counts for its author
UPDATE ownership SET validated = 1 WHERE kind = 'memory' AND deleted = 0 AND EXISTS (SELECT 1 FROM standing s
	WHERE s.backend = ownership.backend AND s.kind = ownership.kind AND s.id = ownership.id AND s.state = 'validated');
UPDATE actor SET validated = a.n FROM (SELECT tenant, actor, count(*) AS n FROM ownership WHERE validated = 1 GROUP BY tenant, actor) AS a
	WHERE a.tenant = actor.tenant AND a.actor = actor.actor;
`

// disputeTables gives names that rows carry to the tenant of the oldest, where
// they have no row. A name under which something is there that is another tenant's
// than the name is nobody's: what a backend makes of all that it holds under it
// would show the one what is the other's.
const disputeTables = `
CREATE TABLE carried (
	backend TEXT    NOT NULL,
	name    TEXT    NOT NULL,
	tenant  TEXT    NOT NULL,
	written INTEGER NOT NULL,
	gone    INTEGER NOT NULL, -- 0 where something is there
	PRIMARY KEY (backend, name, tenant)
) WITHOUT ROWID;
INSERT INTO carried SELECT backend, 'user:' || "user", tenant, min(written), min(deleted) FROM ownership WHERE "user" <> '' GROUP BY backend, "user", tenant;
INSERT INTO carried SELECT backend, 'agent:' || agent, tenant, min(written), min(deleted) FROM ownership WHERE agent <> '' GROUP BY backend, agent, tenant;
INSERT INTO carried SELECT backend, 'app:' || app, tenant, min(written), min(deleted) FROM ownership WHERE app <> '' GROUP BY backend, app, tenant;
INSERT INTO carried SELECT backend, 'run:' || run, tenant, min(written), min(deleted) FROM ownership WHERE run <> '' GROUP BY backend, run, tenant;
INSERT INTO ownership (backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted)
SELECT backend, 'entity', name, tenant, '', '', '', '', '', '', 0, '', '', '', written, 0 FROM carried AS c
WHERE NOT EXISTS (SELECT 1 FROM carried AS o WHERE o.backend = c.backend AND o.name = c.name AND (o.written < c.written OR o.written = c.written AND o.tenant < c.tenant))
ON CONFLICT DO NOTHING;
UPDATE ownership SET tenant = '` + memproxy.TenantNobody + `', actor = '' WHERE kind = 'entity' AND EXISTS
	(SELECT 1 FROM carried AS c WHERE c.backend = ownership.backend AND c.name = ownership.id AND c.gone = 0 AND c.tenant <> ownership.tenant);
DROP TABLE carried;
`

// unseenTables: what was seen of metadata is not compared any more.
const unseenTables = `
ALTER TABLE ownership DROP COLUMN seen;
`

// redoTables: the number of the last entry of the redo log that was applied.
const redoTables = `
CREATE TABLE redo (one INTEGER NOT NULL PRIMARY KEY, applied INTEGER NOT NULL);
INSERT INTO redo (one, applied) VALUES (1, 0);
`

// sessionTables: what was refused in a session, and how often why, is in its row.
const sessionTables = `
ALTER TABLE session ADD COLUMN reasons TEXT NOT NULL DEFAULT '[]'; -- JSON, as refused is
ALTER TABLE session ADD COLUMN refused TEXT NOT NULL DEFAULT '[]';
UPDATE session SET reasons = coalesce(CAST((SELECT json_group_array(json_object('code', code, 'rule', rule, 'count', n) ORDER BY n DESC, code, rule)
		FROM session_reason WHERE session_reason.tenant = session.tenant AND session = session.id) AS TEXT), '[]'),
	refused = coalesce(CAST((SELECT json_group_array(json_object('decision', e.decision, 'principal', e.principal, 'verdict', e.verdict, 'route', e.route,
		'reasons', json(e.reasons), 'time', strftime('%Y-%m-%dT%H:%M:%S', e.at / 1000000, 'unixepoch') || printf('.%06dZ', e.at % 1000000)) ORDER BY e.at, e.decision) FROM session_event e WHERE e.tenant = session.tenant AND e.session = session.id) AS TEXT), '[]');
DROP TABLE session_event;
DROP TABLE session_reason;
ALTER TABLE session DROP COLUMN locked;
ALTER TABLE session DROP COLUMN passed;
`

// exactTables: a text is known again by its words alone.
const exactTables = `ALTER TABLE retraction DROP COLUMN likeness;`

// indexTables: memories that were changed out-of-band are few, and asked for alone. No
// query asks for what a key encrypted.
const indexTables = `
CREATE INDEX standing_unverified ON standing (backend, tenant, kind, id) WHERE unverified <> '';
DROP INDEX content_vault;
`

// recordTables: what is known of an object is one row. Tables with long rows and keys
// in no order are written in the order of time: in SQLite's order of keys, pages had
// six rows, and every third row split one.
const recordTables = `
CREATE TABLE record (
	backend TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
	owned INTEGER NOT NULL DEFAULT 0, tenant TEXT NOT NULL DEFAULT '', "user" TEXT NOT NULL DEFAULT '', agent TEXT NOT NULL DEFAULT '',
	app TEXT NOT NULL DEFAULT '', run TEXT NOT NULL DEFAULT '', actor TEXT NOT NULL DEFAULT '', trust TEXT NOT NULL DEFAULT '',
	confidence INTEGER NOT NULL DEFAULT 0, source TEXT NOT NULL DEFAULT '', decision TEXT NOT NULL DEFAULT '', sha256 TEXT NOT NULL DEFAULT '',
	written INTEGER NOT NULL DEFAULT 0, deleted INTEGER NOT NULL DEFAULT 0, validated INTEGER NOT NULL DEFAULT 0,
	state TEXT NOT NULL DEFAULT '', status_tenant TEXT NOT NULL DEFAULT '', prior TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '',
	status_decision TEXT NOT NULL DEFAULT '', changed INTEGER NOT NULL DEFAULT 0, contested INTEGER NOT NULL DEFAULT 0, pinned INTEGER NOT NULL DEFAULT 0,
	expires INTEGER NOT NULL DEFAULT 0, attestation TEXT NOT NULL DEFAULT '', rules TEXT NOT NULL DEFAULT '', findings TEXT NOT NULL DEFAULT '',
	unverified TEXT NOT NULL DEFAULT '', reviewed TEXT NOT NULL DEFAULT '', current TEXT NOT NULL DEFAULT '',
	listed INTEGER NOT NULL DEFAULT 0, first_seen TEXT NOT NULL DEFAULT '',
	PRIMARY KEY (backend, kind, id)
);
INSERT INTO record (owned, backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted, validated)
	SELECT 1, backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted, validated FROM ownership;
INSERT INTO record (backend, kind, id, state, status_tenant, prior, reason, status_decision, changed, contested, pinned, expires, attestation, rules, findings, unverified, reviewed, current)
	SELECT backend, kind, id, state, tenant, prior, reason, decision, changed, contested, pinned, expires, attestation, rules, findings, unverified, reviewed, current FROM standing WHERE 1 = 1
	ON CONFLICT (backend, kind, id) DO UPDATE SET state = excluded.state, status_tenant = excluded.status_tenant, prior = excluded.prior, reason = excluded.reason,
		status_decision = excluded.status_decision, changed = excluded.changed, contested = excluded.contested, pinned = excluded.pinned, expires = excluded.expires,
		attestation = excluded.attestation, rules = excluded.rules, findings = excluded.findings, unverified = excluded.unverified, reviewed = excluded.reviewed, current = excluded.current;
INSERT INTO record (backend, kind, id, listed, first_seen) SELECT backend, kind, id, 1, sha256 FROM found WHERE 1 = 1
	ON CONFLICT (backend, kind, id) DO UPDATE SET listed = 1, first_seen = excluded.first_seen;
DROP TABLE ownership;
DROP TABLE standing;
DROP TABLE found;
CREATE INDEX record_decision ON record (backend, decision) WHERE decision <> '';
CREATE INDEX record_deleted ON record (deleted) WHERE deleted > 0;
CREATE INDEX record_expires ON record (expires) WHERE expires > 0;
CREATE INDEX record_state ON record (state, backend, kind, id) WHERE state <> '';
CREATE INDEX record_unverified ON record (backend, status_tenant, kind, id) WHERE unverified <> '';
` + sqliteOnly + `
DROP INDEX version_deleted;
DROP INDEX version_place;
ALTER TABLE version RENAME TO version_before;
CREATE TABLE version (
	backend TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, number INTEGER NOT NULL, tenant TEXT NOT NULL, place INTEGER NOT NULL,
	field TEXT NOT NULL, op TEXT NOT NULL, at INTEGER NOT NULL, actor TEXT NOT NULL, trust TEXT NOT NULL, confidence INTEGER NOT NULL,
	attestation TEXT NOT NULL, decision TEXT NOT NULL, sha256 TEXT NOT NULL, preimage TEXT NOT NULL, metadata TEXT NOT NULL,
	score INTEGER NOT NULL, previous TEXT NOT NULL, behind TEXT NOT NULL, link TEXT NOT NULL, vault TEXT NOT NULL, mac BLOB NOT NULL,
	pinned INTEGER NOT NULL, compacted INTEGER NOT NULL,
	PRIMARY KEY (backend, kind, id, number)
);
INSERT INTO version SELECT * FROM version_before;
DROP TABLE version_before;
CREATE INDEX version_deleted ON version (at) WHERE op = 'delete';
CREATE UNIQUE INDEX version_place ON version (tenant, place);
ALTER TABLE content RENAME TO content_before;
CREATE TABLE content (ref TEXT NOT NULL PRIMARY KEY, tenant TEXT NOT NULL, vault TEXT NOT NULL, wrapped BLOB NOT NULL, body BLOB NOT NULL);
INSERT INTO content SELECT * FROM content_before;
DROP TABLE content_before;
`

// markTables: rows have marks, which markAll makes. A memory that has a history has a
// record.
const markTables = `
ALTER TABLE record ADD COLUMN mac BLOB NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN mac BLOB NOT NULL DEFAULT '';
ALTER TABLE vote ADD COLUMN mac BLOB NOT NULL DEFAULT '';
ALTER TABLE notice ADD COLUMN mac BLOB NOT NULL DEFAULT '';
INSERT INTO record (backend, kind, id, state, status_tenant, changed) SELECT backend, kind, id, 'untrusted', tenant, at FROM version AS v
	WHERE kind <> 'object' AND op NOT IN ('delete', 'purge') AND NOT EXISTS (SELECT 1 FROM version AS n WHERE n.backend = v.backend AND n.kind = v.kind AND n.id = v.id AND n.number > v.number)
	ON CONFLICT DO NOTHING;
`

// onlyMarked makes writes of rows without a mark fail, since an older program may still
// be running.
func (d dialect) onlyMarked() (text string) {
	for _, table := range [...]string{"record", "session", "vote", "notice"} {
		if d == postgresDialect {
			text += "ALTER TABLE " + table + " ALTER COLUMN mac DROP DEFAULT;\n"
		}
	}
	return text
}

// markStep is how many records are marked at once.
const markStep = 500

// markAll marks the rows that were written before marks existed, which are trusted as
// they are. If the head of a chain shows that the ledger had marks, they were removed,
// and no row is marked.
func markAll(t *transaction) error {
	vault := t.store.opt.Vault
	if vault == nil {
		return nil
	}
	const heads = `SELECT ` + headColumns + ` FROM chain`
	for _, h := range rows(t, scanHead(vault, markedHead), heads) {
		if !h.broken {
			return nil
		}
	}
	for _, h := range rows(t, scanHead(vault, unmarkedHead), heads) {
		if !h.broken {
			h.key, h.mac = vault.Sign(markedHead, h.data())
			t.run(`UPDATE chain SET vault = ?, mac = ? WHERE tenant = ?`, h.key, h.mac, h.tenant)
		}
	}
	for after := (key{}); ; {
		found := rows(t, scanFields, nextRecords, after.Backend, string(after.Kind), after.ID, markStep)
		if len(found) == 0 {
			break
		}
		var args []any
		for i := range found {
			f := &found[i]
			args = append(args, f.texts[0], f.texts[1], f.texts[2], vault.MarkRow(f.row))
		}
		t.run(`INSERT INTO record (backend, kind, id, mac) VALUES (?, ?, ?, ?)`+strings.Repeat(", (?, ?, ?, ?)", len(found)-1)+
			` ON CONFLICT (backend, kind, id) DO UPDATE SET mac = excluded.mac`, args...)
		after = found[len(found)-1].key()
	}
	unmarked := &store{}
	for _, s := range rows(t, scanSession(unmarked, false), `SELECT `+sessionColumns+` FROM session`) {
		s.mark(t)
	}
	for _, v := range rows(t, scanVote(unmarked), `SELECT `+voteColumns+` FROM vote`) {
		t.run(`UPDATE vote SET mac = ? WHERE subject = ? AND reviewer = ?`, mark(vault, v.row), v.subject, v.reviewer)
	}
	for _, n := range rows(t, scanNotice(unmarked), `SELECT `+noticeColumns+` FROM notice`) {
		t.run(`UPDATE notice SET mac = ? WHERE id = ?`, mark(vault, noticeRow(&n)), n.ID)
	}
	return t.err
}

// firstMarked is the first schema whose rows have marks.
const firstMarked = 22
