-- The texts of versions and dissents move from a table of their own, whose key repeated theirs,
-- into their rows. Marks and envelopes begin with the id of their key. Nothing confirms the
-- rollbacks in progress: reviewers decide again.

DELETE FROM rollback;

-- SQLite only
DROP INDEX version_deleted;
DROP INDEX version_place;
ALTER TABLE version RENAME TO version_before;
ALTER TABLE content RENAME TO content_before;
ALTER TABLE chain RENAME TO chain_before;
CREATE TABLE version (
	backend TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, number INTEGER NOT NULL, tenant TEXT NOT NULL, place INTEGER NOT NULL,
	field TEXT NOT NULL, op TEXT NOT NULL, at INTEGER NOT NULL, actor TEXT NOT NULL, trust TEXT NOT NULL, confidence INTEGER NOT NULL,
	attestation TEXT NOT NULL, decision TEXT NOT NULL, sha256 TEXT NOT NULL, preimage TEXT NOT NULL, metadata TEXT NOT NULL,
	score INTEGER NOT NULL, previous TEXT NOT NULL, behind TEXT NOT NULL, link TEXT NOT NULL, mac BLOB NOT NULL,
	pinned INTEGER NOT NULL, compacted INTEGER NOT NULL, envelope BLOB NOT NULL,
	PRIMARY KEY (backend, kind, id, number)
);
INSERT INTO version SELECT backend, kind, id, number, tenant, place, field, op, at, actor, trust, confidence, attestation, decision, sha256, preimage, metadata,
	score, previous, behind, link, CAST(coalesce(unhex(vault), '') || mac AS BLOB), pinned, compacted,
	coalesce((SELECT CASE length(wrapped) WHEN 0 THEN x'' ELSE CAST(coalesce(unhex(c.vault), x'00000000') || wrapped || body AS BLOB) END FROM content_before AS c
		WHERE ref = 'version/' || octet_length(backend) || ':' || backend || '/' || octet_length(kind) || ':' || kind || '/' || octet_length(id) || ':' || id || '/'
			|| length(number) || ':' || number || '/'), x'') FROM version_before ORDER BY rowid;
CREATE INDEX version_deleted ON version (at) WHERE op = 'delete';
CREATE UNIQUE INDEX version_place ON version (tenant, place);
CREATE TABLE content (ref TEXT NOT NULL PRIMARY KEY, envelope BLOB NOT NULL);
INSERT INTO content SELECT ref, CASE length(wrapped) WHEN 0 THEN x'' ELSE CAST(coalesce(unhex(vault), x'00000000') || wrapped || body AS BLOB) END
	FROM content_before WHERE substr(ref, 1, 8) <> 'version/';
CREATE TABLE chain (
	tenant TEXT NOT NULL PRIMARY KEY, place INTEGER NOT NULL, link TEXT NOT NULL, base INTEGER NOT NULL, base_link TEXT NOT NULL, mac BLOB NOT NULL
) WITHOUT ROWID;
INSERT INTO chain SELECT tenant, place, link, base, base_link, CAST(coalesce(unhex(vault), '') || mac AS BLOB) FROM chain_before;
DROP TABLE version_before;
DROP TABLE content_before;
DROP TABLE chain_before;
ALTER TABLE dissent ADD COLUMN envelope BLOB NOT NULL DEFAULT '';
UPDATE dissent SET envelope = c.envelope FROM content AS c WHERE ref = 'dissent/' || octet_length(backend) || ':' || backend || '/' || octet_length(kind) || ':' || kind || '/'
	|| octet_length(id) || ':' || id || '/' || octet_length(decision) || ':' || decision || '/';
DELETE FROM content WHERE substr(ref, 1, 8) = 'dissent/';

-- Postgres only
ALTER TABLE version ADD COLUMN envelope BYTEA NOT NULL DEFAULT '';
UPDATE version SET envelope = CASE WHEN c.vault ~ '^[0-9a-f]{8}$' THEN decode(c.vault, 'hex') ELSE '\x00000000' END || wrapped || body FROM content AS c
	WHERE length(wrapped) > 0 AND ref = 'version/' || octet_length(backend) || ':' || backend || '/' || octet_length(kind) || ':' || kind || '/'
		|| octet_length(id) || ':' || id || '/' || length(number::TEXT) || ':' || number || '/';
UPDATE version SET mac = decode(vault, 'hex') || mac WHERE vault ~ '^[0-9a-f]{8}$';
ALTER TABLE version ALTER COLUMN envelope DROP DEFAULT, DROP COLUMN vault;
DELETE FROM content WHERE substr(ref, 1, 8) = 'version/';
ALTER TABLE content ADD COLUMN envelope BYTEA NOT NULL DEFAULT '';
UPDATE content SET envelope = CASE WHEN vault ~ '^[0-9a-f]{8}$' THEN decode(vault, 'hex') ELSE '\x00000000' END || wrapped || body WHERE length(wrapped) > 0;
ALTER TABLE content ALTER COLUMN envelope DROP DEFAULT, DROP COLUMN tenant, DROP COLUMN vault, DROP COLUMN wrapped, DROP COLUMN body;
UPDATE chain SET mac = decode(vault, 'hex') || mac WHERE vault ~ '^[0-9a-f]{8}$';
ALTER TABLE chain DROP COLUMN vault;
ALTER TABLE dissent ADD COLUMN envelope BLOB NOT NULL DEFAULT '';
UPDATE dissent SET envelope = c.envelope FROM content AS c WHERE ref = 'dissent/' || octet_length(backend) || ':' || backend || '/' || octet_length(kind) || ':' || kind || '/'
	|| octet_length(id) || ':' || id || '/' || octet_length(decision) || ':' || decision || '/';
DELETE FROM content WHERE substr(ref, 1, 8) = 'dissent/';
