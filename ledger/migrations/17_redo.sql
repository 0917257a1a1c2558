-- The number of the last entry of the redo log that was applied.
CREATE TABLE redo (one INTEGER NOT NULL PRIMARY KEY, applied INTEGER NOT NULL);
INSERT INTO redo (one, applied) VALUES (1, 0);
