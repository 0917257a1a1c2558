package ledger

// migrations are run in order, each in a transaction, in the words that
// dialect.ddl translates. A released one is never edited: later needs are a
// further entry. Times are microseconds since 1970, zero for none.
func migrations() []string {
	return []string{ownershipTables, lifeTables, integrityTables, retractionTables, rollbackTables, todayTables, acceptTables, seenTables, nameTables, lockTables, decidedTables, actorTables, foundTables, validatedTables, disputeTables, unseenTables, redoTables, sessionTables, exactTables}
}

const ownershipTables = `
CREATE TABLE ownership (
	backend    TEXT    NOT NULL,
	kind       TEXT    NOT NULL,
	id         TEXT    NOT NULL,
	tenant     TEXT    NOT NULL,
	"user"     TEXT    NOT NULL,
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
`

const lifeTables = `
CREATE TABLE content ( -- what is encrypted, of holds and versions; shredded: no wrapped key, no body
	ref     TEXT    NOT NULL PRIMARY KEY,
	tenant  TEXT    NOT NULL,
	vault   TEXT    NOT NULL, -- id of the key that wrapped is under
	wrapped BLOB    NOT NULL,
	body    BLOB    NOT NULL
) WITHOUT ROWID;
CREATE INDEX content_vault ON content (vault);

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
	aged       INTEGER NOT NULL  -- when it was reported as waiting long
) WITHOUT ROWID;
CREATE INDEX hold_page ON hold (state, created, id);
CREATE INDEX hold_time ON hold (created, id);
CREATE INDEX hold_group ON hold (tenant, state, similarity);

CREATE TABLE vote ( -- who agreed to a promotion
	subject  TEXT    NOT NULL,
	reviewer TEXT    NOT NULL,
	at       INTEGER NOT NULL,
	note     TEXT    NOT NULL,
	PRIMARY KEY (subject, reviewer)
) WITHOUT ROWID;
CREATE INDEX vote_at ON vote (at);

CREATE TABLE standing (
	backend     TEXT    NOT NULL,
	kind        TEXT    NOT NULL,
	id          TEXT    NOT NULL,
	tenant      TEXT    NOT NULL,
	state       TEXT    NOT NULL,
	prior       TEXT    NOT NULL, -- the state before it expired
	reason      TEXT    NOT NULL,
	decision    TEXT    NOT NULL,
	changed     INTEGER NOT NULL,
	contested   INTEGER NOT NULL,
	pinned      INTEGER NOT NULL,
	expires     INTEGER NOT NULL,
	attestation TEXT    NOT NULL,
	rules       TEXT    NOT NULL,
	findings    TEXT    NOT NULL, -- JSON
	PRIMARY KEY (backend, kind, id)
) WITHOUT ROWID;
CREATE INDEX standing_state ON standing (state, backend, kind, id);
CREATE INDEX standing_expires ON standing (expires) WHERE expires > 0;

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
	vault       TEXT    NOT NULL, -- id of the key of mac
	mac         BLOB    NOT NULL,
	pinned      INTEGER NOT NULL,
	compacted   INTEGER NOT NULL,
	PRIMARY KEY (backend, kind, id, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX version_place ON version (tenant, place);
CREATE INDEX version_deleted ON version (at) WHERE op = 'delete';

CREATE TABLE chain ( -- the two ends of each tenant's chain
	tenant    TEXT    NOT NULL PRIMARY KEY,
	place     INTEGER NOT NULL,
	link      TEXT    NOT NULL,
	base      INTEGER NOT NULL, -- the last record that was trimmed
	base_link TEXT    NOT NULL,
	vault     TEXT    NOT NULL,
	mac       BLOB    NOT NULL
) WITHOUT ROWID;

ALTER TABLE correction ADD COLUMN kind TEXT NOT NULL DEFAULT 'memory';
ALTER TABLE correction ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE correction ADD COLUMN author TEXT NOT NULL DEFAULT '';
ALTER TABLE correction ADD COLUMN corrector TEXT NOT NULL DEFAULT '';
ALTER TABLE correction ADD COLUMN trust TEXT NOT NULL DEFAULT '';
ALTER TABLE correction ADD COLUMN reason TEXT NOT NULL DEFAULT '';

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
	PRIMARY KEY (backend, kind, id, decision)
) WITHOUT ROWID;
CREATE INDEX dissent_closed ON dissent (closed);

CREATE TABLE session (
	tenant      TEXT    NOT NULL,
	id          TEXT    NOT NULL,
	principal   TEXT    NOT NULL,
	begun       INTEGER NOT NULL,
	last        INTEGER NOT NULL,
	passed      INTEGER NOT NULL,
	held        INTEGER NOT NULL,
	rejections  INTEGER NOT NULL,
	strikes     INTEGER NOT NULL,
	locked      INTEGER NOT NULL,
	unlocked    INTEGER NOT NULL,
	unlocked_by TEXT    NOT NULL,
	ended       INTEGER NOT NULL,
	PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX session_last ON session (last);

CREATE TABLE session_event (
	tenant    TEXT    NOT NULL,
	session   TEXT    NOT NULL,
	decision  TEXT    NOT NULL,
	principal TEXT    NOT NULL,
	verdict   TEXT    NOT NULL,
	route     TEXT    NOT NULL,
	reasons   TEXT    NOT NULL, -- JSON
	at        INTEGER NOT NULL,
	PRIMARY KEY (tenant, session, decision)
) WITHOUT ROWID;

CREATE TABLE session_reason (
	tenant  TEXT    NOT NULL,
	session TEXT    NOT NULL,
	code    TEXT    NOT NULL,
	rule    TEXT    NOT NULL,
	n       INTEGER NOT NULL,
	PRIMARY KEY (tenant, session, code, rule)
) WITHOUT ROWID;

CREATE TABLE notice ( -- what is still to be told to people outside
	id       TEXT    NOT NULL PRIMARY KEY,
	kind     TEXT    NOT NULL,
	tenant   TEXT    NOT NULL,
	subject  TEXT    NOT NULL,
	created  INTEGER NOT NULL,
	data     TEXT    NOT NULL, -- JSON
	attempts INTEGER NOT NULL,
	due      INTEGER NOT NULL, -- not before; also the lease of who sends it
	error    TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX notice_due ON notice (due);
`

const integrityTables = `
ALTER TABLE standing ADD COLUMN unverified TEXT NOT NULL DEFAULT '';

CREATE TABLE breach ( -- faults of chains; what came later is not verified
	tenant   TEXT    NOT NULL,
	place    INTEGER NOT NULL,
	class    TEXT    NOT NULL,
	detail   TEXT    NOT NULL,
	at       INTEGER NOT NULL,
	PRIMARY KEY (tenant, place, class)
) WITHOUT ROWID;

CREATE TABLE glimpse ( -- hash of a memory's metadata when it was first seen after a write
	backend  TEXT    NOT NULL,
	kind     TEXT    NOT NULL,
	id       TEXT    NOT NULL,
	decision TEXT    NOT NULL,
	sha256   TEXT    NOT NULL,
	PRIMARY KEY (backend, kind, id)
) WITHOUT ROWID;

CREATE TABLE sealed ( -- backends of which everything is known
	backend  TEXT    NOT NULL PRIMARY KEY,
	at       INTEGER NOT NULL
) WITHOUT ROWID;
`

const todayTables = `
ALTER TABLE hold ADD COLUMN today TEXT NOT NULL DEFAULT ''; -- verdict of the rules that ruled last, if not to hold it
`

const acceptTables = `
ALTER TABLE breach ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0; -- when a person took it as it is
`

// seenTables puts what was seen of metadata where the owner is looked up.
const seenTables = `
ALTER TABLE ownership ADD COLUMN seen TEXT NOT NULL DEFAULT ''; -- hash of the metadata when it was first seen after the decision
UPDATE ownership SET seen = coalesce((SELECT CASE g.sha256 WHEN '' THEN 'none' ELSE g.sha256 END FROM glimpse g
	WHERE g.backend = ownership.backend AND g.kind = ownership.kind AND g.id = ownership.id AND g.decision = ownership.decision), '');
DROP TABLE glimpse;
`

// unseenTables: what was seen of metadata is not compared any more.
const unseenTables = `
ALTER TABLE ownership DROP COLUMN seen;
`

// nameTables binds the owners' names that memories were written under to the
// tenant that used each first. Who made them is not known any more.
const nameTables = `
INSERT INTO ownership (backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted, seen)
SELECT backend, 'entity', name, tenant, '', '', '', '', '', '', 0, '', '', '', written, 0, ''
FROM (SELECT backend, name, tenant, written, row_number() OVER (PARTITION BY backend, name ORDER BY written, tenant) AS place
	FROM (SELECT backend, 'user:' || "user" AS name, tenant, written FROM ownership WHERE "user" <> ''
		UNION ALL SELECT backend, 'agent:' || agent, tenant, written FROM ownership WHERE agent <> ''
		UNION ALL SELECT backend, 'app:' || app, tenant, written FROM ownership WHERE app <> ''
		UNION ALL SELECT backend, 'run:' || run, tenant, written FROM ownership WHERE run <> '') AS used) AS ranked
WHERE place = 1
ON CONFLICT DO NOTHING;
`

// lockTables: whether a session is locked follows from what was counted, not
// from a flag. What was locked before stays so for as long as a lock lasts.
const lockTables = `
ALTER TABLE session ADD COLUMN struck INTEGER NOT NULL DEFAULT 0; -- the last rejection
ALTER TABLE session ADD COLUMN counted INTEGER NOT NULL DEFAULT 0; -- strikes are counted from then on
UPDATE session SET struck = CASE WHEN locked > 0 THEN locked ELSE last END WHERE rejections > 0;
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
