-- What backends held when they were sealed, how far a sealing is, and leases of jobs that
-- one process runs at a time.
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
