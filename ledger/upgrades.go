package ledger

import (
	_ "embed"

	"github.com/memproxy/memproxy"
)

//go:embed schema.sql
var newTables string

// oldest is the first schema that is brought up to date.
const oldest = 11

// schema is the number of the tables in schema.sql.
var schema = oldest + len(upgrades())

// upgrades lead from the oldest schema to that of schema.sql, one number each, in the
// words that dialect.ddl translates. A released one is never edited: later needs are a
// further entry.
func upgrades() []string {
	return []string{actorTables, foundTables, validatedTables, disputeTables, unseenTables, redoTables, sessionTables, exactTables}
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
