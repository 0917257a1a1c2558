package ledger

import (
	"encoding/hex"

	"github.com/memproxy/memproxy"
)

// compact gives up the oldest texts over the number that is kept, and notes
// that it did. What somebody tampered with stays, as evidence, and the memory is
// not verified any more; a verification of the chain names the place.
func (t *transaction) compact(r *record) error {
	if r.Number <= int64(t.l.opt.KeepVersions) {
		return nil
	}
	old, err := rows(t, scanRecord, `SELECT `+versionColumns+` FROM version
		WHERE backend = ? AND kind = ? AND id = ? AND field = ? AND pinned = 0 AND compacted = 0
		ORDER BY number DESC LIMIT 100 OFFSET ?`, r.Backend, string(r.Kind), r.ID, r.Field, t.l.opt.KeepVersions)
	if err != nil {
		return err
	}
	for i := range old {
		if sound, err := t.sound(&old[i]); err != nil {
			return err
		} else if !sound {
			t.broken = true
			_, err := t.cast(&memproxy.Doubt{MemoryKey: r.MemoryKey, Tenant: r.Tenant, Code: memproxy.IntegrityChain})
			return err
		}
	}
	for i := range old {
		gone := &old[i]
		if err := t.giveUp(r.MemoryKey, gone.Number); err != nil {
			return err
		}
		gone.Before, gone.SHA256 = gone.SHA256, ""
		gone.Actor, gone.Decision, gone.Op = memproxy.SystemActor, r.Decision, memproxy.OpCompact
		t.step(gone, memproxy.OpCompact, gone.Number, 0)
	}
	return nil
}

// sound reports whether a version is as it was written, and the one after it
// follows it.
func (t *transaction) sound(r *record) (bool, error) {
	link := r.link()
	if hex.EncodeToString(link) != r.Link || !t.l.opt.Vault.signed("version", r.key, link, r.mac) {
		return false, nil
	}
	next, err := rows(t, scanRecord, `SELECT `+versionColumns+` FROM version WHERE backend = ? AND kind = ? AND id = ? AND number = ?`,
		r.Backend, string(r.Kind), r.ID, r.Number+1)
	return len(next) == 1 && next[0].previous == r.Link, err
}

func (t *transaction) giveUp(k memproxy.MemoryKey, number int64) error {
	_, err := t.run(`UPDATE version SET compacted = 1, pinned = 0 WHERE backend = ? AND kind = ? AND id = ? AND number = ?`,
		k.Backend, string(k.Kind), k.ID, number)
	if err != nil {
		return err
	}
	_, err = t.run(`DELETE FROM content WHERE ref = ?`, versionRef(k, number))
	return err
}

// shredVersions destroys the texts of all versions of a memory.
func (t *transaction) shredVersions(k memproxy.MemoryKey) error {
	all, err := rows(t, func(s scanner) (n int64, err error) { return n, s.Scan(&n) },
		`SELECT number FROM version WHERE backend = ? AND kind = ? AND id = ? AND compacted = 0`, k.Backend, string(k.Kind), k.ID)
	if err != nil {
		return err
	}
	for _, number := range all {
		if err := t.giveUp(k, number); err != nil {
			return err
		}
	}
	return nil
}
