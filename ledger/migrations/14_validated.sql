-- How many of an author's memories were validated, each counted once.
ALTER TABLE actor ADD COLUMN validated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ownership ADD COLUMN validated INTEGER NOT NULL DEFAULT 0; -- 1 while it counts for its author
UPDATE ownership SET validated = 1 WHERE kind = 'memory' AND deleted = 0 AND EXISTS (SELECT 1 FROM standing s
	WHERE s.backend = ownership.backend AND s.kind = ownership.kind AND s.id = ownership.id AND s.state = 'validated');
UPDATE actor SET validated = a.n FROM (SELECT tenant, actor, count(*) AS n FROM ownership WHERE validated = 1 GROUP BY tenant, actor) AS a
	WHERE a.tenant = actor.tenant AND a.actor = actor.actor;
