package ledger

import "github.com/memproxy/memproxy"

// actorTables: how many of an author's memories were let out of review, and
// since when the author is known. Of authors from before, nobody knows either:
// all that they wrote was accepted, and zero is long ago.
const actorTables = `
ALTER TABLE actor ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE actor ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
UPDATE actor SET accepted = facts;
`

// validatedTables: how many of an author's memories were found sound, each once.
const validatedTables = `
ALTER TABLE actor ADD COLUMN validated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ownership ADD COLUMN validated INTEGER NOT NULL DEFAULT 0; -- 1 while it counts for its author
UPDATE ownership SET validated = 1 WHERE kind = 'memory' AND deleted = 0 AND EXISTS (SELECT 1 FROM standing s
	WHERE s.backend = ownership.backend AND s.kind = ownership.kind AND s.id = ownership.id AND s.state = 'validated');
UPDATE actor SET validated = a.n FROM (SELECT tenant, actor, count(*) AS n FROM ownership WHERE validated = 1 GROUP BY tenant, actor) AS a
	WHERE a.tenant = actor.tenant AND a.actor = actor.actor;
`

// actorColumns are what a record is made of.
const actorColumns = `facts, corrections, accepted, validated, since`

func scanTrack(s scanner, t *Track) error {
	var since int64
	err := s.Scan(&t.Facts, &t.Corrections, &t.Accepted, &t.Validated, &since)
	t.Since = moment(since)
	return err
}

// accepted counts a memory for its author that waited for review and was let
// out, or that a person vouched for.
func (t *transaction) accepted(k memproxy.MemoryKey, was, is memproxy.MemoryState, person bool) error {
	out := was == memproxy.StatePending && (is == memproxy.StateUntrusted || is == memproxy.StateValidated)
	if !out && !(person && is == memproxy.StateValidated) {
		return nil
	}
	tenant, actor, err := t.author(k)
	if err != nil || actor == "" {
		return err
	}
	_, err = t.run(`UPDATE actor SET accepted = accepted + 1 WHERE tenant = ? AND actor = ?`, tenant, memproxy.Account(actor))
	return err
}

// validated counts a memory for its author, once, when it was found sound, and
// no more when it was flagged or quarantined. That it waits, expires or is
// written anew changes nothing: it is looked at again.
func (t *transaction) validated(k memproxy.MemoryKey, is memproxy.MemoryState) error {
	var by int64
	switch is {
	case memproxy.StateValidated:
		by = 1
	case memproxy.StateFlagged, memproxy.StateQuarantined:
		by = -1
	default:
		return nil
	}
	n, err := t.run(`UPDATE ownership SET validated = ? WHERE backend = ? AND kind = ? AND id = ? AND validated <> ? AND deleted = 0`,
		max(0, by), k.Backend, string(k.Kind), k.ID, max(0, by))
	if err != nil || n == 0 || k.Kind != memproxy.TargetMemory {
		return err
	}
	tenant, actor, err := t.author(k)
	if err != nil || actor == "" {
		return err
	}
	_, err = t.run(`UPDATE actor SET validated = validated + ? WHERE tenant = ? AND actor = ?`, by, tenant, memproxy.Account(actor))
	return err
}

// author is whose memory it is; nobody, where that is not known.
func (t *transaction) author(k memproxy.MemoryKey) (tenant, actor string, err error) {
	_, err = t.one(`SELECT tenant, actor FROM ownership WHERE backend = ? AND kind = ? AND id = ?`, []any{k.Backend, string(k.Kind), k.ID}, &tenant, &actor)
	return tenant, actor, err
}
