-- From schema 11 to schema 22.

-- How many of an author's memories left review accepted or were validated, and since when
-- the author is known. What is unknown of earlier authors counts in their favour: all that
-- they wrote was accepted, and they have been known since 1970.
ALTER TABLE actor ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE actor ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE actor ADD COLUMN validated INTEGER NOT NULL DEFAULT 0;

-- How far a sealing is, leases of jobs that one process runs at a time, and the number of
-- the last entry of the redo log that was applied.
CREATE TABLE sealing (
	backend TEXT NOT NULL PRIMARY KEY, cursor TEXT NOT NULL, pass INTEGER NOT NULL, fresh INTEGER NOT NULL, found INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE claim (name TEXT NOT NULL PRIMARY KEY, holder TEXT NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE redo (one INTEGER NOT NULL PRIMARY KEY, applied INTEGER NOT NULL);
INSERT INTO redo (one, applied) VALUES (1, 0);

-- Owner and status of an object become one row.
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
	listed INTEGER NOT NULL DEFAULT 0, first_seen TEXT NOT NULL DEFAULT '', mac BLOB NOT NULL DEFAULT '',
	PRIMARY KEY (backend, kind, id)
);
INSERT INTO record (owned, backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted, validated)
	SELECT 1, backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted,
		CASE WHEN kind = 'memory' AND deleted = 0 AND EXISTS (SELECT 1 FROM standing s
			WHERE s.backend = o.backend AND s.kind = o.kind AND s.id = o.id AND s.state = 'validated') THEN 1 ELSE 0 END FROM ownership o;
UPDATE actor SET accepted = facts;
UPDATE actor SET validated = a.n FROM (SELECT tenant, actor, count(*) AS n FROM record WHERE validated = 1 GROUP BY tenant, actor) AS a
	WHERE a.tenant = actor.tenant AND a.actor = actor.actor;

-- A name (user, agent, app, run) that memories carry gets an owner: the tenant of the
-- oldest. If another tenant has memories under it as well, the name gets no owner (tenant
-- 0x01, memproxy.TenantNobody), since a backend's summary of the name would show one tenant
-- the other's memories.
CREATE TABLE carried (
	backend TEXT NOT NULL, name TEXT NOT NULL, tenant TEXT NOT NULL, written INTEGER NOT NULL,
	gone INTEGER NOT NULL, -- 0 where something is there
	PRIMARY KEY (backend, name, tenant)
) WITHOUT ROWID;
INSERT INTO carried SELECT backend, 'user:' || "user", tenant, min(written), min(deleted) FROM ownership WHERE "user" <> '' GROUP BY backend, "user", tenant;
INSERT INTO carried SELECT backend, 'agent:' || agent, tenant, min(written), min(deleted) FROM ownership WHERE agent <> '' GROUP BY backend, agent, tenant;
INSERT INTO carried SELECT backend, 'app:' || app, tenant, min(written), min(deleted) FROM ownership WHERE app <> '' GROUP BY backend, app, tenant;
INSERT INTO carried SELECT backend, 'run:' || run, tenant, min(written), min(deleted) FROM ownership WHERE run <> '' GROUP BY backend, run, tenant;
INSERT INTO record (owned, backend, kind, id, tenant, written) SELECT 1, backend, 'entity', name, tenant, written FROM carried AS c
	WHERE NOT EXISTS (SELECT 1 FROM carried AS o WHERE o.backend = c.backend AND o.name = c.name AND (o.written < c.written OR o.written = c.written AND o.tenant < c.tenant))
	ON CONFLICT DO NOTHING;
UPDATE record SET tenant = char(1), actor = '' WHERE kind = 'entity' AND EXISTS
	(SELECT 1 FROM carried AS c WHERE c.backend = record.backend AND c.name = record.id AND c.gone = 0 AND c.tenant <> record.tenant);
DROP TABLE carried;

INSERT INTO record (backend, kind, id, state, status_tenant, prior, reason, status_decision, changed, contested, pinned, expires, attestation, rules, findings, unverified, reviewed, current)
	SELECT backend, kind, id, state, tenant, prior, reason, decision, changed, contested, pinned, expires, attestation, rules, findings, unverified, reviewed, current FROM standing WHERE 1 = 1
	ON CONFLICT (backend, kind, id) DO UPDATE SET state = excluded.state, status_tenant = excluded.status_tenant, prior = excluded.prior, reason = excluded.reason,
		status_decision = excluded.status_decision, changed = excluded.changed, contested = excluded.contested, pinned = excluded.pinned, expires = excluded.expires,
		attestation = excluded.attestation, rules = excluded.rules, findings = excluded.findings, unverified = excluded.unverified, reviewed = excluded.reviewed, current = excluded.current;
-- Each memory that has a history has a record.
INSERT INTO record (backend, kind, id, state, status_tenant, findings, changed) SELECT backend, kind, id, 'untrusted', tenant, '{"text":"","findings":null}', at FROM version AS v
	WHERE kind <> 'object' AND op NOT IN ('delete', 'purge') AND NOT EXISTS (SELECT 1 FROM version AS n WHERE n.backend = v.backend AND n.kind = v.kind AND n.id = v.id AND n.number > v.number)
	ON CONFLICT DO NOTHING;
-- A memory with a pinned version does not expire.
UPDATE record SET pinned = 1 WHERE state <> '' AND kind = 'memory' AND EXISTS
	(SELECT 1 FROM version AS v WHERE v.backend = record.backend AND v.kind = record.kind AND v.id = record.id AND v.pinned > 0);
DROP TABLE ownership;
DROP TABLE standing;
CREATE INDEX record_decision ON record (backend, decision) WHERE decision <> '';
CREATE INDEX record_deleted ON record (deleted) WHERE deleted > 0;
CREATE INDEX record_expires ON record (expires) WHERE expires > 0;
CREATE INDEX record_state ON record (state, backend, kind, id) WHERE state <> '';
CREATE INDEX record_unverified ON record (backend, status_tenant, kind, id) WHERE unverified <> '';

-- The refusals of a session, and their number by reason, move into the session's row.
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

-- A text that was retracted is recognised by an exact hash alone.
ALTER TABLE retraction DROP COLUMN likeness;

-- Rows get a mark (see keys.Vault), which markAll fills in.
ALTER TABLE session ADD COLUMN mac BLOB NOT NULL DEFAULT '';
ALTER TABLE vote ADD COLUMN mac BLOB NOT NULL DEFAULT '';
ALTER TABLE notice ADD COLUMN mac BLOB NOT NULL DEFAULT '';
DROP INDEX content_vault;

-- SQLite only
-- Tables with long rows and random keys are stored in the order of insertion: stored by key,
-- a page held six rows, and every third insertion split one.
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

-- Postgres only
-- A row without a mark is refused, since an older program may still be running.
ALTER TABLE record ALTER COLUMN mac DROP DEFAULT;
ALTER TABLE session ALTER COLUMN mac DROP DEFAULT;
ALTER TABLE vote ALTER COLUMN mac DROP DEFAULT;
ALTER TABLE notice ALTER COLUMN mac DROP DEFAULT;
