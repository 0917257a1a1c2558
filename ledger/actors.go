package ledger

import "github.com/memproxy/memproxy"

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
