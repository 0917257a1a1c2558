-- Owner, status and seal of an object become one row. In SQLite, tables with long rows and
-- random keys are stored in the order of insertion: stored by key, a page held six rows, and
-- every third insertion split one.
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
-- SQLite only
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
