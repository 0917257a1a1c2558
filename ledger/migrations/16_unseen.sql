-- Metadata is no longer compared with what was first seen of it.
ALTER TABLE ownership DROP COLUMN seen;
