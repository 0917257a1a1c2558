package ledger

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/keys"
)

const (
	maxRefused = 25  // newest refusals kept per record, unless more are needed for its lock; counts include all
	maxReasons = 200 // distinct reasons counted per record
	endStep    = 200 // sessions ended by one transaction

	sessionColumns = `tenant, id, principal, begun, last, held, rejections, strikes, struck, counted, unlocked, unlocked_by, ended, reasons, refused, mac`
	sessionsByID   = `SELECT ` + sessionColumns + ` FROM session WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))`
)

// sessionRow is a record of rejections as it is stored.
type sessionRow struct {
	memproxy.Session
	refused string // as JSON
	edited  bool
}

// row appends the fields that locks depend on, for the mark.
func (r *sessionRow) row(b []byte) []byte {
	return keys.AppendFields(b, []string{"session", r.Tenant, r.ID, r.Principal, r.refused}, int64(r.CountedRejections), toMicros(r.LastRejection), toMicros(r.Counted))
}

// mark writes the fields that locks depend on, with a new mark.
func (r *sessionRow) mark(t *transaction) {
	t.run(`UPDATE session SET principal = ?, strikes = ?, struck = ?, counted = ?, refused = ?, mac = ? WHERE tenant = ? AND id = ?`,
		r.Principal, r.CountedRejections, toMicros(r.LastRejection), toMicros(r.Counted), r.refused, t.store.opt.Vault.MarkRow(r.row), r.Tenant, r.ID)
}

// scanSession reads records of rejections with their locks, optionally with the refused
// writes. An edited record counts as a lock that begins now.
func scanSession(of *store, refused bool) func(scanner) (sessionRow, error) {
	return func(s scanner) (v sessionRow, err error) {
		var mark []byte
		err = s.Scan(&v.Tenant, &v.ID, &v.Principal, (*sqlTime)(&v.Begun), (*sqlTime)(&v.Last), &v.Held, &v.Rejections, &v.CountedRejections, (*sqlTime)(&v.LastRejection),
			(*sqlTime)(&v.Counted), (*sqlTime)(&v.Unlocked), &v.UnlockedBy, (*sqlTime)(&v.Ended), sqlJSON{&v.Reasons}, &v.refused, &mark)
		key := memproxy.SessionKeyOf(v.ID)
		v.Kind, v.User, v.Name = key.Kind, key.User, key.Name
		unwritten := len(mark) == 0 && v.CountedRejections == 0 && v.LastRejection.IsZero() && v.Counted.IsZero() && v.refused == "[]"
		if err == nil && !unwritten && !of.opt.Vault.MarkedRow(v.row, mark) {
			v.edited, v.CountedRejections, v.LastRejection = true, max(v.CountedRejections, math.MaxInt32), fromMicros(max(1, toMicros(of.opt.Clock())))
			of.edits.note(memproxy.MemoryKey{Kind: "session", ID: memproxy.InertID(v.ID)}, v.Tenant, editedRow)
		}
		of.opt.setLock(&v.Session)
		if err == nil && refused {
			err = json.Unmarshal([]byte(v.refused), &v.Refused)
		}
		return v, err
	}
}

func sessions(rows []sessionRow) []memproxy.Session {
	all := make([]memproxy.Session, len(rows))
	for i := range rows {
		all[i] = rows[i].Session
	}
	return all
}

// setLock sets whether the present limits lock a record. Without limits none does.
func (o *Options) setLock(s *memproxy.Session) {
	if o.Locks == nil { // a migration
		return
	}
	s.Limit, s.Locked, s.Until = o.Locks.Of(s.Kind), time.Time{}, time.Time{}
	// A rejection in the future was recorded by a wrong clock, and locks nothing.
	if until, now := s.LastRejection.Add(o.Locks.For), o.Clock(); s.Limit > 0 && s.CountedRejections >= s.Limit && now.Before(until) && now.After(s.LastRejection.Add(-o.Locks.For)) {
		s.Locked, s.Until = s.LastRejection, until
	}
}

// inForce is the condition that a record is locked under the present limits.
const inForce = `(struck > ? AND struck < ? AND strikes >= CASE WHEN id LIKE 'caller:%/%' THEN CAST(? AS BIGINT) WHEN id LIKE 'caller:%' THEN ? ELSE ? END)`

// limits returns the arguments of inForce for the present limits.
func (o *Options) limits() []any {
	least := func(kind memproxy.SessionKind) int { return cmp.Or(o.Locks.Of(kind), math.MaxInt32) } // 0 never locks
	now := o.Clock()
	return []any{toMicros(now.Add(-o.Locks.For)), toMicros(now.Add(o.Locks.For)), least(memproxy.SessionUser), least(memproxy.SessionPrincipal), least(memproxy.SessionNamed)}
}

// SessionLocked returns the lock in force on any of some records of rejections, the one
// that ends last, or the zero Lock. It returns an error while acknowledged entries
// cannot be written: every write calls SessionLocked before it is forwarded, and no
// further write may be acknowledged then.
func (l *Ledger) SessionLocked(ctx context.Context, tenant string, ids ...string) (memproxy.Lock, error) {
	if l.kept.Load() > 0 {
		if err := l.do(ctx, &job{}); err != nil { // tries to write the entries
			return memproxy.Lock{}, err
		}
	}
	ask, moment := l.recent.get(nil, absentKeys(lockKind, tenant, ids...))
	if len(ask) == 0 {
		return memproxy.Lock{}, errors.Join(ctx.Err(), l.alive())
	}
	found, err := queryRows(ctx, l.store, "look up locks", scanSession(l.store, false), sessionsByID, tenant, asJSON(ids))
	if slices.ContainsFunc(found, func(r sessionRow) bool { return r.edited }) {
		found, err = changeResult(ctx, l.store, nil, func(t *transaction) []sessionRow { return lockEdited(t, tenant, ids) })
	}
	var lock memproxy.Lock
	for i := range found {
		if s := &found[i]; s.Until.After(lock.Until) {
			lock = memproxy.Lock{ID: s.ID, Limit: s.Limit, Until: s.Until}
		}
	}
	if err == nil && !slices.ContainsFunc(found, func(r sessionRow) bool { return r.CountedRejections >= max(1, r.Limit) }) {
		// The absence can be cached: only a rejection locks such a record, whatever the clock is set to, and it ends the absence.
		l.recent.fill(moment, ask, nil)
	}
	return lock, err
}

// lockEdited locks the edited records among some, for as long as any other lock.
func lockEdited(t *transaction, tenant string, ids []string) []sessionRow {
	found := rows(t, scanSession(t.store, false), sessionsByID, tenant, asJSON(ids))
	for i := range found {
		if r := &found[i]; r.edited {
			r.mark(t)
			t.notify(memproxy.NoticeLocked, r.Tenant, r.ID, r.Session)
		}
	}
	return found
}

// NoteSession counts a refused or held write in records of rejections, once in each,
// and returns those that it locks, with their reasons. A record that has ended begins
// again, and counting restarts once a lock is over. While an end user's record is
// locked, the records after it in ids are not counted.
func (l *Ledger) NoteSession(ctx context.Context, e memproxy.SessionEvent, ids ...string) ([]memproxy.Session, error) {
	odd := func(text string) bool { return storable(text) != nil }
	whole := len(ids) > 0 && !slices.Contains(ids, "") && e.Decision != "" && !slices.ContainsFunc(append([]string{e.Tenant, e.Principal, e.Decision, e.Route}, ids...), odd)
	j := job{bad: require(whole, "an event needs records and a decision, all in storable text"), size: len(ids)}
	return doResult(ctx, l.store, j, func(t *transaction) (locked []memproxy.Session) {
		for _, id := range ids {
			s, now := noteSession(t, e, id)
			if now {
				locked = append(locked, s)
			}
			if s.Kind == memproxy.SessionUser && s.Limit > 0 && s.CountedRejections > s.Limit {
				break
			}
		}
		return locked
	})
}

func noteSession(t *transaction, e memproxy.SessionEvent, id string) (s memproxy.Session, locked bool) {
	at := t.now()
	t.records[absentKeys(lockKind, e.Tenant, id)[0]] = nil
	// The update locks the row against other writers.
	r, _ := row(t, scanSession(t.store, true), `INSERT INTO session (tenant, id, principal, begun, last, held, rejections, strikes, unlocked, unlocked_by, ended, mac)
		VALUES (?1, ?2, ?3, ?4, ?4, 0, 0, 0, 0, '', 0, '') ON CONFLICT (tenant, id) DO UPDATE SET last = excluded.last, ended = 0
		RETURNING `+sessionColumns, e.Tenant, id, e.Principal, at)
	s = r.Session
	s.Principal = e.Principal
	if slices.ContainsFunc(s.Refused, func(r memproxy.SessionEvent) bool { return r.Decision == e.Decision }) {
		return s, false
	}
	e.Time = fromMicros(at)
	s.Refused = append(s.Refused, e)
	s.Refused = s.Refused[max(0, len(s.Refused)-max(maxRefused, t.store.opt.Locks.Of(s.Kind))):]
	countReasons(&s, e.Reasons)
	if e.Verdict == memproxy.Hold {
		s.Held++
	} else if s.Rejections++; !e.WeakEvidence {
		was := s.Locked
		countRejection(&s, e.Time, t.store.opt.Locks.Window)
		t.store.opt.setLock(&s)
		locked = was.IsZero() && !s.Locked.IsZero()
	}
	t.run(`UPDATE session SET held = ?, rejections = ?, reasons = ? WHERE tenant = ? AND id = ?`, s.Held, s.Rejections, asJSON(s.Reasons), e.Tenant, id)
	r.Session, r.refused = s, asJSON(s.Refused)
	r.mark(t)
	s.Refused = nil
	if locked {
		t.notify(memproxy.NoticeLocked, s.Tenant, s.ID, s)
	}
	return s, locked
}

// countRejection counts one more rejection, which is in s.Refused already: since the beginning
// for a session, within the window for a caller.
func countRejection(s *memproxy.Session, at time.Time, window time.Duration) {
	if s.Limit > 0 && s.CountedRejections >= s.Limit && s.Locked.IsZero() { // the lock is over
		s.CountedRejections, s.Counted = 0, at
	}
	s.LastRejection = at
	if s.Kind == memproxy.SessionNamed {
		s.CountedRejections++
		return
	}
	s.CountedRejections = 0
	for _, r := range s.Refused {
		if r.Verdict == memproxy.Deny && at.Sub(r.Time) < window && !r.Time.Before(s.Counted) {
			s.CountedRejections++
		}
	}
}

// countReasons counts reasons, the most frequent first.
func countReasons(s *memproxy.Session, reasons []memproxy.Reason) {
	for _, why := range reasons {
		i := slices.IndexFunc(s.Reasons, func(r memproxy.ReasonTally) bool { return r.Code == why.Code && r.Rule == why.Rule })
		if i < 0 {
			i, s.Reasons = len(s.Reasons), append(s.Reasons, memproxy.ReasonTally{Code: why.Code, Rule: why.Rule})
		}
		s.Reasons[i].Count++
	}
	slices.SortFunc(s.Reasons, func(a, b memproxy.ReasonTally) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Code, b.Code), cmp.Compare(a.Rule, b.Rule))
	})
	s.Reasons = s.Reasons[:min(len(s.Reasons), maxReasons)]
}

// Sessions lists, unlocks and ends the sessions with rejected writes. The gate calls
// Ledger.SessionLocked before and Ledger.NoteSession after a write.
type Sessions struct{ *store }

// Get returns a record by its id, as stored or as notices and records of the audit log
// show it, or by the caller's name for a session if that is unique, with its reasons and
// newest refusals. A nil tenant matches all tenants.
// ErrUnknown means that there is none, ErrState that several have the name.
func (ss Sessions) Get(ctx context.Context, tenant *string, id string) (memproxy.Session, error) {
	const named = `id LIKE 'session:%' AND substr(id, length(id) - length(CAST(? AS TEXT)) + 1) = ?`
	given := memproxy.SessionKeyOf(id)
	given.Name = memproxy.InertSession(given.Name)
	suffix, kept := memproxy.NameSuffix(id), memproxy.NameSuffix(memproxy.InertSession(id)) // a name given by an agent, and the stored form of one given by a caller
	for _, by := range [...]struct {
		where string
		args  []any
	}{{`id IN (?, ?)`, []any{id, given.ID()}}, {named, []any{suffix, suffix}}, {named, []any{kept, kept}}} {
		c := conditions{}
		c.tenant("tenant", tenant)
		c.add(by.where, by.args...)
		found, err := queryRows(ctx, ss.store, "look up a session", scanSession(ss.store, true), `SELECT `+sessionColumns+` FROM session`+c.where()+` LIMIT 2`, c.args...)
		switch {
		case err != nil:
			return memproxy.Session{}, err
		case len(found) == 1:
			return found[0].Session, nil
		case len(found) > 1:
			return memproxy.Session{}, fmt.Errorf("%w: several sessions have that name: give the id of one, and its tenant", ErrState)
		}
	}
	c := conditions{}
	c.tenant("tenant", tenant)
	ids, err := queryRows(ctx, ss.store, "look up a session", scanOne[string], `SELECT id FROM session`+c.where(), c.args...)
	if i := slices.IndexFunc(ids, func(stored string) bool { return stored != id && memproxy.InertID(stored) == id }); i >= 0 {
		return ss.Get(ctx, tenant, ids[i])
	}
	return memproxy.Session{}, cmp.Or(err, fmt.Errorf("%w: session", ErrUnknown))
}

// List returns a page of records with their reasons: the locked ones, or all.
func (ss Sessions) List(ctx context.Context, f memproxy.SessionFilter) (memproxy.SessionPage, error) {
	c := conditions{}
	c.text("principal", "principal = ?", f.Principal)
	c.tenant("tenant", f.Tenant)
	n := min(cmp.Or(max(0, f.Limit), 50), 500)
	var after [2]string // the id and the tenant of the last record of a page
	text, err := base64.RawURLEncoding.DecodeString(f.After)
	if err != nil || f.After != "" && json.Unmarshal(text, &after) != nil {
		return memproxy.SessionPage{}, invalidArgument("not a cursor")
	}
	if err := cmp.Or(c.bad, storableParts("cursor", after[:]...)); err != nil {
		return memproxy.SessionPage{}, err
	}
	if c.add("(id, tenant) > (?, ?)", after[0], after[1]); !f.All {
		c.add(inForce, ss.opt.limits()...)
	}
	rows, err := queryRows(ctx, ss.store, "list sessions", scanSession(ss.store, false),
		`SELECT `+sessionColumns+` FROM session`+c.where()+` ORDER BY id, tenant LIMIT ?`, append(c.args, n+1)...)
	found := sessions(rows)
	if err != nil || len(found) <= n {
		return memproxy.SessionPage{Sessions: found}, err
	}
	return memproxy.SessionPage{Sessions: found[:n], Next: base64.RawURLEncoding.EncodeToString(inJSON([2]string{found[n-1].ID, found[n-1].Tenant}))}, nil
}

// Unlock ends a record's lock and resets its rejections. ErrState means that the record
// is not locked, ErrOwnReview that the reviewer is its principal.
func (ss Sessions) Unlock(ctx context.Context, tenant, id string, r memproxy.Review) error {
	return ss.change(ctx, checkReview(r), func(t *transaction) {
		s, there := row(t, scanSession(t.store, false),
			`UPDATE session SET last = last WHERE tenant = ? AND id = ? RETURNING `+sessionColumns, tenant, id)
		switch {
		case !there:
			t.fail(fmt.Errorf("%w: session", ErrUnknown))
			return
		case s.Principal == r.Reviewer:
			t.fail(ErrOwnReview)
			return
		case s.Until.IsZero():
			t.fail(fmt.Errorf("%w: the session is not locked", ErrState))
			return
		}
		now := toMicros(t.store.opt.Clock()) + 1
		s.CountedRejections, s.Counted = 0, fromMicros(now)
		s.mark(t)
		t.run(`UPDATE session SET unlocked = ?, unlocked_by = ? WHERE tenant = ? AND id = ?`, now, r.Reviewer, tenant, id)
	})
}

// End ends the sessions that have been idle since a time, queues a notice for each, and
// returns their number.
func (ss Sessions) End(ctx context.Context, idleSince time.Time) (int, error) {
	return inSteps(ctx, ss.store, job{}, endStep, func(t *transaction) int {
		ended := sessions(rows(t, scanSession(t.store, false), `UPDATE session SET ended = ? WHERE (tenant, id) IN
			(SELECT tenant, id FROM session WHERE ended = 0 AND last < ? ORDER BY last LIMIT ?) RETURNING `+sessionColumns,
			t.now(), toMicros(idleSince), endStep))
		for i := range ended {
			t.notify(memproxy.NoticeEnded, ended[i].Tenant, ended[i].ID, ended[i])
		}
		return len(ended)
	})
}

// pruneSessions deletes the records that ended before a time, except locked ones,
// because deleting those would unlock them.
func pruneSessions(ctx context.Context, s *store, before time.Time) (int, error) {
	return inSteps(ctx, s, job{}, pruneStep, func(t *transaction) int {
		return int(t.run(`DELETE FROM session WHERE (tenant, id) IN (SELECT tenant, id FROM session WHERE ended > 0 AND ended < ? AND NOT `+inForce+` LIMIT ?)`,
			slices.Concat([]any{toMicros(before)}, s.opt.limits(), []any{pruneStep})...))
	})
}
