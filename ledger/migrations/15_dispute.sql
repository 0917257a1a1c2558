-- A name (user, agent, app, run) that memories carry gets an owner: the tenant of the
-- oldest. If another tenant has memories under it as well, the name gets no owner (tenant
-- 0x01, memproxy.TenantNobody), since a backend's summary of the name would show one tenant
-- the other's memories.
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
UPDATE ownership SET tenant = char(1), actor = '' WHERE kind = 'entity' AND EXISTS
	(SELECT 1 FROM carried AS c WHERE c.backend = ownership.backend AND c.name = ownership.id AND c.gone = 0 AND c.tenant <> ownership.tenant);
DROP TABLE carried;
