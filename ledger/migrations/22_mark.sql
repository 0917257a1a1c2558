-- Rows get a mark (see keys.Vault), which markAll fills in. Each memory that has a history
-- has a record.
ALTER TABLE record ADD COLUMN mac BLOB NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN mac BLOB NOT NULL DEFAULT '';
ALTER TABLE vote ADD COLUMN mac BLOB NOT NULL DEFAULT '';
ALTER TABLE notice ADD COLUMN mac BLOB NOT NULL DEFAULT '';
INSERT INTO record (backend, kind, id, state, status_tenant, changed) SELECT backend, kind, id, 'untrusted', tenant, at FROM version AS v
	WHERE kind <> 'object' AND op NOT IN ('delete', 'purge') AND NOT EXISTS (SELECT 1 FROM version AS n WHERE n.backend = v.backend AND n.kind = v.kind AND n.id = v.id AND n.number > v.number)
	ON CONFLICT DO NOTHING;

-- Postgres only
-- A row without a mark is refused, since an older program may still be running.
ALTER TABLE record ALTER COLUMN mac DROP DEFAULT;
ALTER TABLE session ALTER COLUMN mac DROP DEFAULT;
ALTER TABLE vote ALTER COLUMN mac DROP DEFAULT;
ALTER TABLE notice ALTER COLUMN mac DROP DEFAULT;
