package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/memproxy/memproxy"
)

// SessionLocked returns the lock that is in force on one of the sessions, or
// the zero Lock. Of several it is the one that ends last.
func (l *Ledger) SessionLocked(ctx context.Context, tenant string, ids ...string) (memproxy.Lock, error) {
	args := []any{tenant}
	var ask []absent
	var era uint64
	was := map[string]string{} // principal by the session's id of earlier versions
	for _, id := range ids {
		k := absent{"lock", tenant, id}
		free, now := l.absent.has(k)
		if storable(id) != nil || free {
			continue
		}
		args, ask = append(args, id), append(ask, k)
		if len(ask) == 1 {
			era = now
		}
		if key := memproxy.SessionKeyOf(id); key.Kind == memproxy.SessionNamed && key.Principal != "" && storable(key.Name) == nil {
			was[key.Name] = key.Principal
			args = append(args, key.Name)
		}
	}
	if storable(tenant) != nil || len(args) == 1 {
		return memproxy.Lock{}, errors.Join(ctx.Err(), l.alive())
	}
	found, err := glance(ctx, l, "look up a session", scanSession,
		`SELECT `+sessionColumns+` FROM session WHERE tenant = ? AND strikes > 0 AND id IN (?`+strings.Repeat(",?", len(args)-2)+`)`, args...)
	if err != nil {
		return memproxy.Lock{}, err
	}
	var lock memproxy.Lock
	for i := range found {
		s := &found[i]
		if principal, earlier := was[s.ID]; earlier && principal != s.Principal {
			continue
		}
		if l.lock(s, l.opt.Clock()); s.Until.After(lock.Until) {
			lock = memproxy.Lock{ID: s.ID, Limit: s.Limit, Until: s.Until}
		}
	}
	if lock.ID == "" { // and none comes to be but by a rejection
		l.absent.note(era, ask...)
	}
	return lock, nil
}

// inForce is the condition that a session is locked by today's limits; its
// parameter is the time that a lock lasts ago.
func (l *Ledger) inForce() string {
	least := func(kind memproxy.SessionKind) string {
		if n := l.opt.Locks.Of(kind); n > 0 {
			return fmt.Sprint(n)
		}
		return fmt.Sprint(math.MaxInt32) // never
	}
	return `(struck > ? AND strikes >= CASE WHEN id LIKE 'caller:%/%' THEN ` + least(memproxy.SessionUser) +
		` WHEN id LIKE 'caller:%' THEN ` + least(memproxy.SessionPrincipal) + ` ELSE ` + least(memproxy.SessionNamed) + ` END)`
}

// Sessions returns a page of the records of rejections with their reasons:
// those that are locked, or all of them.
func (l *Ledger) Sessions(ctx context.Context, f memproxy.SessionFilter) (memproxy.SessionPage, error) {
	for _, part := range [...]string{f.Tenant, f.Principal, f.After} {
		if err := storable(part); err != nil {
			return memproxy.SessionPage{}, refused("a part of the filter %v", err)
		}
	}
	n := f.Limit
	if n <= 0 {
		n = 50
	}
	n = min(n, 500)
	where, args := `id > ?`, []any{f.After}
	if f.Tenant != "" {
		where, args = where+` AND tenant = ?`, append(args, f.Tenant)
	}
	if f.Principal != "" {
		where, args = where+` AND principal = ?`, append(args, f.Principal)
	}
	now := l.opt.Clock()
	if !f.All {
		where += ` AND ` + l.inForce()
		args = append(args, micros(now.Add(-l.opt.Locks.For)))
	}
	found, err := glance(ctx, l, "list sessions", scanSession,
		`SELECT `+sessionColumns+` FROM session WHERE `+where+` ORDER BY id, tenant LIMIT ?`, append(args, n+1)...)
	if err != nil {
		return memproxy.SessionPage{}, err
	}
	page := memproxy.SessionPage{Sessions: found}
	if len(found) > n {
		// Records of several tenants with one id are on one page.
		for n > 1 && found[n-1].ID == found[n].ID {
			n--
		}
		page.Sessions, page.Next = found[:n], found[n-1].ID
	}
	for i := range page.Sessions {
		s := &page.Sessions[i]
		l.lock(s, now)
		if s.Reasons, err = glance(ctx, l, "list a session's reasons", scanTally, sessionReasons, s.Tenant, s.ID); err != nil {
			return memproxy.SessionPage{}, err
		}
	}
	return page, nil
}

// named is the id of the record that an id, or the caller's name of a session
// that only one has, stands for.
func (l *Ledger) named(ctx context.Context, tenant, id string) (string, error) {
	found, err := glance(ctx, l, "look up a session", scanText, `SELECT id FROM session WHERE tenant = ? AND id = ?`, tenant, id)
	if err != nil || len(found) == 1 {
		return id, err
	}
	for _, name := range [...]string{id, memproxy.InertSession(id)} { // an agent's, a caller's as it is kept
		end := memproxy.NameSuffix(name)
		found, err = glance(ctx, l, "look up a session by its name", scanText,
			`SELECT id FROM session WHERE tenant = ? AND id LIKE 'session:%' AND substr(id, length(id) - ? + 1) = ? LIMIT 2`, tenant, len(end), end)
		switch {
		case err != nil:
			return "", err
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return "", fmt.Errorf("%w: several sessions have that name: give the id of one", ErrState)
		}
	}
	return id, nil
}

// Unlock lets a session write again, with no rejection against it. ErrState when
// it is not locked, ErrOwnReview for the session's own principal.
func (l *Ledger) Unlock(ctx context.Context, tenant, id string, r memproxy.Review) error {
	if err := checkReview(r); err != nil {
		return err
	}
	if storable(tenant) != nil || storable(id) != nil {
		return ErrUnknown
	}
	id, err := l.named(ctx, tenant, id)
	if err != nil {
		return err
	}
	return l.change(ctx, func(t *transaction) error {
		s, err := t.session(tenant, id)
		switch {
		case err != nil:
			return err
		case s.Principal == r.Reviewer:
			return ErrOwnReview
		case s.Locked.IsZero():
			return fmt.Errorf("%w: the session is not locked", ErrState)
		}
		_, err = t.run(`UPDATE session SET strikes = 0, counted = ?1, unlocked = ?1, unlocked_by = ?2 WHERE tenant = ?3 AND id = ?4`,
			max(1, micros(t.l.opt.Clock()))+1, r.Reviewer, tenant, id)
		return err
	})
}
