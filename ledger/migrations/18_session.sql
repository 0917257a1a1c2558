-- The refusals of a session, and their number by reason, move into the session's row.
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
