-- The tables of a ledger, as a new one has them. Times are microseconds since 1970, zero
-- for none. The types are SQLite's; dialect.ddl translates them for Postgres. A change of a
-- table needs a file in migrations: TestMigratedSchemaEqualsANewOne compares the two.

CREATE TABLE record ( -- what is known of an object; each of its three parts may be missing
	backend         TEXT    NOT NULL,
	kind            TEXT    NOT NULL,
	id              TEXT    NOT NULL,
	owned           INTEGER NOT NULL DEFAULT 0, -- 1 if it has an owner
	tenant          TEXT    NOT NULL DEFAULT '',
	"user"          TEXT    NOT NULL DEFAULT '',
	agent           TEXT    NOT NULL DEFAULT '',
	app             TEXT    NOT NULL DEFAULT '',
	run             TEXT    NOT NULL DEFAULT '',
	actor           TEXT    NOT NULL DEFAULT '',
	trust           TEXT    NOT NULL DEFAULT '',
	confidence      INTEGER NOT NULL DEFAULT 0,
	source          TEXT    NOT NULL DEFAULT '',
	decision        TEXT    NOT NULL DEFAULT '',
	sha256          TEXT    NOT NULL DEFAULT '',
	written         INTEGER NOT NULL DEFAULT 0,
	deleted         INTEGER NOT NULL DEFAULT 0, -- when it was deleted
	validated       INTEGER NOT NULL DEFAULT 0, -- 1 while it counts for its author
	state           TEXT    NOT NULL DEFAULT '', -- '' if it has no status
	status_tenant   TEXT    NOT NULL DEFAULT '',
	prior           TEXT    NOT NULL DEFAULT '', -- the state before it expired
	reason          TEXT    NOT NULL DEFAULT '',
	status_decision TEXT    NOT NULL DEFAULT '', -- that led to the state
	changed         INTEGER NOT NULL DEFAULT 0,
	contested       INTEGER NOT NULL DEFAULT 0,
	pinned          INTEGER NOT NULL DEFAULT 0,
	expires         INTEGER NOT NULL DEFAULT 0,
	attestation     TEXT    NOT NULL DEFAULT '',
	rules           TEXT    NOT NULL DEFAULT '',
	findings        TEXT    NOT NULL DEFAULT '', -- JSON
	unverified      TEXT    NOT NULL DEFAULT '',
	reviewed        TEXT    NOT NULL DEFAULT '', -- hash of the text for which a person decided the status
	current         TEXT    NOT NULL DEFAULT '', -- status that the current rules would give it
	listed          INTEGER NOT NULL DEFAULT 0, -- 1 if its backend held it when that was sealed
	first_seen      TEXT    NOT NULL DEFAULT '', -- hash of the text that it had then
	mac             BLOB    NOT NULL DEFAULT '', -- mark of the row; see keys.Vault
	PRIMARY KEY (backend, kind, id)
);
CREATE INDEX record_decision ON record (backend, decision) WHERE decision <> '';
CREATE INDEX record_deleted ON record (deleted) WHERE deleted > 0;
CREATE INDEX record_expires ON record (expires) WHERE expires > 0;
CREATE INDEX record_state ON record (state, backend, kind, id) WHERE state <> '';
CREATE INDEX record_unverified ON record (backend, status_tenant, kind, id) WHERE unverified <> '';

CREATE TABLE version (
	backend     TEXT    NOT NULL,
	kind        TEXT    NOT NULL,
	id          TEXT    NOT NULL,
	number      INTEGER NOT NULL,
	tenant      TEXT    NOT NULL,
	place       INTEGER NOT NULL, -- in the tenant's chain
	field       TEXT    NOT NULL,
	op          TEXT    NOT NULL,
	at          INTEGER NOT NULL,
	actor       TEXT    NOT NULL,
	trust       TEXT    NOT NULL,
	confidence  INTEGER NOT NULL,
	attestation TEXT    NOT NULL,
	decision    TEXT    NOT NULL,
	sha256      TEXT    NOT NULL,
	preimage    TEXT    NOT NULL,
	metadata    TEXT    NOT NULL, -- its hash
	score       INTEGER NOT NULL,
	previous    TEXT    NOT NULL, -- link of the memory's version before
	behind      TEXT    NOT NULL, -- link of the tenant's record before
	link        TEXT    NOT NULL,
	mac         BLOB    NOT NULL, -- see keys.Vault.Sign
	pinned      INTEGER NOT NULL,
	compacted   INTEGER NOT NULL,
	envelope    BLOB    NOT NULL, -- its text, encrypted, or nothing if it was destroyed; see keys.Vault.Seal
	PRIMARY KEY (backend, kind, id, number)
);
CREATE INDEX version_deleted ON version (at) WHERE op = 'delete';
CREATE UNIQUE INDEX version_place ON version (tenant, place);

CREATE TABLE content ( -- other encrypted contents; the envelope of a destroyed one is empty
	ref      TEXT NOT NULL PRIMARY KEY,
	envelope BLOB NOT NULL
);

CREATE TABLE chain ( -- the two ends of each tenant's chain
	tenant    TEXT    NOT NULL PRIMARY KEY,
	place     INTEGER NOT NULL,
	link      TEXT    NOT NULL,
	base      INTEGER NOT NULL, -- the last record that was trimmed
	base_link TEXT    NOT NULL,
	mac       BLOB    NOT NULL
) WITHOUT ROWID;

CREATE TABLE correction ( -- one row per correction, so that each counts once
	backend   TEXT    NOT NULL,
	id        TEXT    NOT NULL,
	decision  TEXT    NOT NULL,
	at        INTEGER NOT NULL,
	kind      TEXT    NOT NULL DEFAULT 'memory',
	tenant    TEXT    NOT NULL DEFAULT '',
	author    TEXT    NOT NULL DEFAULT '',
	corrector TEXT    NOT NULL DEFAULT '',
	trust     TEXT    NOT NULL DEFAULT '',
	reason    TEXT    NOT NULL DEFAULT '',
	PRIMARY KEY (backend, id, decision)
) WITHOUT ROWID;
CREATE INDEX correction_at ON correction (at);

CREATE TABLE dissent (
	backend   TEXT    NOT NULL,
	kind      TEXT    NOT NULL,
	id        TEXT    NOT NULL,
	decision  TEXT    NOT NULL,
	tenant    TEXT    NOT NULL,
	author    TEXT    NOT NULL,
	corrector TEXT    NOT NULL,
	trust     TEXT    NOT NULL,
	reason    TEXT    NOT NULL,
	sha256    TEXT    NOT NULL,
	at        INTEGER NOT NULL,
	closed    INTEGER NOT NULL,
	envelope  BLOB    NOT NULL DEFAULT '', -- the proposed text, encrypted
	PRIMARY KEY (backend, kind, id, decision)
) WITHOUT ROWID;
CREATE INDEX dissent_closed ON dissent (closed);

CREATE TABLE retraction ( -- texts that their authors deleted or replaced
	tenant      TEXT    NOT NULL,
	author      TEXT    NOT NULL,
	words       TEXT    NOT NULL, -- keyed hash of the text's words
	confidence  INTEGER NOT NULL,
	attestation TEXT    NOT NULL,
	at          INTEGER NOT NULL,
	PRIMARY KEY (tenant, author, words)
) WITHOUT ROWID;
CREATE INDEX retraction_at ON retraction (at);

CREATE TABLE actor (
	tenant      TEXT    NOT NULL,
	actor       TEXT    NOT NULL,
	facts       INTEGER NOT NULL,
	corrections INTEGER NOT NULL,
	accepted    INTEGER NOT NULL DEFAULT 0,
	since       INTEGER NOT NULL DEFAULT 0,
	validated   INTEGER NOT NULL DEFAULT 0,
	mac         BLOB    NOT NULL DEFAULT '',
	PRIMARY KEY (tenant, actor)
) WITHOUT ROWID;

CREATE TABLE hold (
	id         TEXT    NOT NULL PRIMARY KEY,
	backend    TEXT    NOT NULL,
	route      TEXT    NOT NULL,
	method     TEXT    NOT NULL,
	path       TEXT    NOT NULL,
	tenant     TEXT    NOT NULL,
	principal  TEXT    NOT NULL,
	trust      TEXT    NOT NULL,
	session    TEXT    NOT NULL,
	scope      TEXT    NOT NULL, -- JSON
	kind       TEXT    NOT NULL,
	reasons    TEXT    NOT NULL, -- JSON
	findings   TEXT    NOT NULL, -- JSON
	score      INTEGER NOT NULL,
	policy     TEXT    NOT NULL,
	sha256     TEXT    NOT NULL,
	created    INTEGER NOT NULL,
	state      TEXT    NOT NULL,
	reviewer   TEXT    NOT NULL,
	reviewed   INTEGER NOT NULL,
	note       TEXT    NOT NULL,
	similarity TEXT    NOT NULL, -- the sketch of the group's first
	sketch     TEXT    NOT NULL,
	token      TEXT    NOT NULL, -- of the claim
	lease      INTEGER NOT NULL,
	result     TEXT    NOT NULL, -- JSON
	aged       INTEGER NOT NULL, -- when it was reported as waiting long
	today      TEXT    NOT NULL DEFAULT '' -- verdict of the current rules, if other than to hold it
) WITHOUT ROWID;
CREATE INDEX hold_author ON hold (tenant, state, principal, trust);
CREATE INDEX hold_group ON hold (tenant, state, similarity);
CREATE INDEX hold_page ON hold (state, created, id);
CREATE INDEX hold_recent ON hold (tenant, created, similarity) WHERE state = 'pending';
CREATE INDEX hold_time ON hold (created, id);

CREATE TABLE vote ( -- approvals of holds, promotions and rollbacks
	subject  TEXT    NOT NULL,
	reviewer TEXT    NOT NULL,
	at       INTEGER NOT NULL,
	note     TEXT    NOT NULL,
	mac      BLOB    NOT NULL DEFAULT '',
	PRIMARY KEY (subject, reviewer)
) WITHOUT ROWID;
CREATE INDEX vote_at ON vote (at);

CREATE TABLE rollback ( -- in progress
	decision TEXT    NOT NULL PRIMARY KEY,
	backend  TEXT    NOT NULL,
	kind     TEXT    NOT NULL,
	id       TEXT    NOT NULL,
	tenant   TEXT    NOT NULL,
	number   INTEGER NOT NULL,
	reviewer TEXT    NOT NULL,
	reason   TEXT    NOT NULL,
	preimage TEXT    NOT NULL,
	begun    INTEGER NOT NULL,
	lease    INTEGER NOT NULL -- when another process may take it over
) WITHOUT ROWID;
CREATE INDEX rollback_lease ON rollback (lease);
CREATE UNIQUE INDEX rollback_memory ON rollback (backend, kind, id);

CREATE TABLE session (
	tenant      TEXT    NOT NULL,
	id          TEXT    NOT NULL,
	principal   TEXT    NOT NULL,
	begun       INTEGER NOT NULL,
	last        INTEGER NOT NULL,
	held        INTEGER NOT NULL,
	rejections  INTEGER NOT NULL,
	strikes     INTEGER NOT NULL,
	unlocked    INTEGER NOT NULL,
	unlocked_by TEXT    NOT NULL,
	ended       INTEGER NOT NULL,
	struck      INTEGER NOT NULL DEFAULT 0, -- time of the last rejection
	counted     INTEGER NOT NULL DEFAULT 0, -- rejections before this do not count for a lock
	reasons     TEXT    NOT NULL DEFAULT '[]', -- JSON, as refused is
	refused     TEXT    NOT NULL DEFAULT '[]',
	mac         BLOB    NOT NULL DEFAULT '',
	PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX session_last ON session (last);

CREATE TABLE notice ( -- events that a webhook delivers
	id       TEXT    NOT NULL PRIMARY KEY,
	kind     TEXT    NOT NULL,
	tenant   TEXT    NOT NULL,
	subject  TEXT    NOT NULL,
	created  INTEGER NOT NULL,
	data     TEXT    NOT NULL, -- JSON
	attempts INTEGER NOT NULL,
	due      INTEGER NOT NULL, -- time of the next attempt, or end of the sender's lease
	error    TEXT    NOT NULL,
	mac      BLOB    NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX notice_due ON notice (due);

CREATE TABLE sealed ( -- backends whose content was recorded completely
	backend TEXT    NOT NULL PRIMARY KEY,
	at      INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE sealing ( -- progress of seals that are not complete
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

CREATE TABLE redo (one INTEGER NOT NULL PRIMARY KEY, applied INTEGER NOT NULL);
INSERT INTO redo (one, applied) VALUES (1, 0);

-- Postgres only
-- A row without a mark is refused, since an older program may still be running.
ALTER TABLE record ALTER COLUMN mac DROP DEFAULT;
ALTER TABLE session ALTER COLUMN mac DROP DEFAULT;
ALTER TABLE vote ALTER COLUMN mac DROP DEFAULT;
ALTER TABLE notice ALTER COLUMN mac DROP DEFAULT;
ALTER TABLE actor ALTER COLUMN mac DROP DEFAULT;
