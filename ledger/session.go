package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/memproxy/memproxy"
)

const (
	// maxRefused bounds the refusals of a session that are kept one by one;
	// the counts go on.
	maxRefused = 100
	// endStep is how many sessions one call ends.
	endStep = 200
)

const sessionColumns = `tenant, id, principal, begun, last, passed, held, rejections, strikes, struck, counted, unlocked, unlocked_by, ended`

// scanSession reads a row as it is; a reader also needs lock.
func scanSession(s scanner) (memproxy.Session, error) {
	var v memproxy.Session
	var begun, last, struck, counted, unlocked, ended int64
	err := s.Scan(&v.Tenant, &v.ID, &v.Principal, &begun, &last, &v.Passed, &v.Held, &v.Rejections, &v.Strikes, &struck, &counted, &unlocked, &v.UnlockedBy, &ended)
	v.Begun, v.Last, v.Struck, v.Counted, v.Unlocked, v.Ended = moment(begun), moment(last), moment(struck), moment(counted), moment(unlocked), moment(ended)
	key := memproxy.SessionKeyOf(v.ID)
	v.Kind, v.User, v.Name = key.Kind, key.User, key.Name
	return v, err
}

// lock says whether a session's writes are locked by today's limits.
func (l *Ledger) lock(s *memproxy.Session, now time.Time) {
	s.Limit, s.Locked, s.Until = l.opt.Locks.Of(s.Kind), time.Time{}, time.Time{}
	if s.Limit > 0 && s.Strikes >= s.Limit {
		if until := s.Struck.Add(l.opt.Locks.For); now.Before(until) {
			s.Locked, s.Until = s.Struck, until
		}
	}
}

// NoteSession counts a decision in its session; locked is set by the one that
// locks its writes. A refused or held decision counts once. Events of an ended
// session begin it again, and so does a rejection the counting once a lock is
// over. The session comes back without reasons and refusals.
func (l *Ledger) NoteSession(ctx context.Context, e memproxy.SessionEvent) (s memproxy.Session, locked bool, err error) {
	for _, part := range [...]string{e.Tenant, e.Session, e.Principal, e.Decision, e.Route} {
		if err := storable(part); err != nil {
			return s, false, refused("a part of the event %v", err)
		}
	}
	if e.Session == "" || e.Decision == "" {
		return s, false, refused("an event has a session and a decision")
	}
	var after memproxy.Session
	var now bool
	there := func() { l.absent.end(absent{"lock", e.Tenant, e.Session}) }
	err = l.do(ctx, &job{after: there, also: func(t *transaction) (err error) {
		after, now, err = t.noteSession(e)
		return err
	}})
	if err != nil {
		return s, false, err
	}
	return after, now, nil
}

func (t *transaction) noteSession(e memproxy.SessionEvent) (s memproxy.Session, locked bool, err error) {
	now := t.l.opt.Clock()
	at := max(1, micros(now))
	_, err = t.run(`INSERT INTO session (`+sessionColumns+`, locked) VALUES (?,?,?,?,?,0,0,0,0,0,0,0,'',0,0) ON CONFLICT DO NOTHING`,
		e.Tenant, e.Session, e.Principal, at, at)
	if err != nil {
		return s, false, err
	}
	// The update also keeps other writers of the session away.
	if _, err := t.run(`UPDATE session SET last = ?, principal = ?, ended = 0 WHERE tenant = ? AND id = ?`, at, e.Principal, e.Tenant, e.Session); err != nil {
		return s, false, err
	}
	if s, err = t.session(e.Tenant, e.Session); err != nil {
		return s, false, err
	}
	if e.Verdict.Stops() {
		fresh, err := t.noteRefusal(e, at, max(maxRefused, t.l.opt.Locks.Of(s.Kind)))
		if err != nil || !fresh {
			return s, false, err
		}
	}
	switch e.Verdict {
	case memproxy.Deny:
		s.Rejections++
		if e.Unsure {
			break
		}
		if err := t.strike(&s, at); err != nil {
			return s, false, err
		}
		locked = s.Locked.IsZero()
		t.l.lock(&s, now)
		locked = locked && !s.Locked.IsZero()
	case memproxy.Hold:
		s.Held++
	default:
		s.Passed++
	}
	_, err = t.run(`UPDATE session SET passed = ?, held = ?, rejections = ?, strikes = ?, struck = ?, counted = ? WHERE tenant = ? AND id = ?`,
		s.Passed, s.Held, s.Rejections, s.Strikes, micros(s.Struck), micros(s.Counted), e.Tenant, e.Session)
	if err == nil && locked {
		err = t.tell(memproxy.NoticeLocked, s)
	}
	return s, locked, err
}

// strike counts one more rejection, which is among the events already.
func (t *transaction) strike(s *memproxy.Session, at int64) error {
	if s.Limit > 0 && s.Strikes >= s.Limit && s.Locked.IsZero() { // a lock that is over
		s.Strikes, s.Counted = 0, moment(at)
	}
	s.Struck = moment(at)
	if s.Kind == memproxy.SessionNamed {
		s.Strikes++
		return nil
	}
	since := max(at-t.l.opt.Locks.Window.Microseconds()+1, micros(s.Counted))
	_, err := t.one(`SELECT count(*) FROM session_event WHERE tenant = ? AND session = ? AND verdict = ? AND at >= ?`,
		[]any{s.Tenant, s.ID, memproxy.Deny.String(), since}, &s.Strikes)
	return err
}

// noteRefusal keeps a refusal and its reasons. It reports whether it is new.
func (t *transaction) noteRefusal(e memproxy.SessionEvent, at int64, keep int) (bool, error) {
	n, err := t.run(`INSERT INTO session_event (tenant, session, decision, principal, verdict, route, reasons, at)
		VALUES (?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
		e.Tenant, e.Session, e.Decision, e.Principal, e.Verdict.String(), e.Route, asJSON(e.Reasons), at)
	if err != nil || n == 0 {
		return false, err
	}
	for _, r := range e.Reasons {
		_, err := t.run(`INSERT INTO session_reason (tenant, session, code, rule, n) VALUES (?,?,?,?,1)
			ON CONFLICT (tenant, session, code, rule) DO UPDATE SET n = session_reason.n + 1`,
			e.Tenant, e.Session, clean(string(r.Code)), clean(r.Rule))
		if err != nil {
			return false, err
		}
	}
	_, err = t.run(`DELETE FROM session_event WHERE tenant = ?1 AND session = ?2 AND decision IN
		(SELECT decision FROM session_event WHERE tenant = ?1 AND session = ?2 ORDER BY at DESC, decision LIMIT 1000 OFFSET ?3)`,
		e.Tenant, e.Session, keep)
	return true, err
}

func (t *transaction) session(tenant, id string) (memproxy.Session, error) {
	found, err := rows(t, scanSession, `SELECT `+sessionColumns+` FROM session WHERE tenant = ? AND id = ?`, tenant, id)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: session", ErrUnknown)
	}
	if err != nil {
		return memproxy.Session{}, err
	}
	t.l.lock(&found[0], t.l.opt.Clock())
	return found[0], nil
}

const (
	sessionReasons = `SELECT code, rule, n FROM session_reason WHERE tenant = ? AND session = ? ORDER BY n DESC, code, rule LIMIT 200`
	sessionEvents  = `SELECT decision, principal, verdict, route, reasons, at FROM session_event WHERE tenant = ? AND session = ? ORDER BY at, decision`
)

func scanTally(s scanner) (memproxy.ReasonTally, error) {
	var r memproxy.ReasonTally
	err := s.Scan(&r.Code, &r.Rule, &r.Count)
	return r, err
}

func scanEvent(s scanner) (memproxy.SessionEvent, error) {
	var e memproxy.SessionEvent
	var verdict, reasons []byte
	var at int64
	if err := s.Scan(&e.Decision, &e.Principal, &verdict, &e.Route, &reasons, &at); err != nil {
		return e, err
	}
	e.Time = moment(at)
	return e, errors.Join(e.Verdict.UnmarshalText(verdict), json.Unmarshal(reasons, &e.Reasons))
}

// tell queues a notice of a session with its reasons.
func (t *transaction) tell(kind memproxy.NoticeKind, s memproxy.Session) error {
	if t.l.opt.Noticed == nil {
		return nil
	}
	var err error
	if s.Reasons, err = rows(t, scanTally, sessionReasons, s.Tenant, s.ID); err != nil {
		return err
	}
	return t.notify(kind, s.Tenant, s.ID, s)
}

// Session returns a session with its reasons, the most frequent first, and its
// newest refusals. ErrUnknown when there is none.
func (l *Ledger) Session(ctx context.Context, tenant, id string) (memproxy.Session, error) {
	if storable(tenant) != nil || storable(id) != nil {
		return memproxy.Session{}, ErrUnknown
	}
	id, err := l.named(ctx, tenant, id)
	if err != nil {
		return memproxy.Session{}, err
	}
	found, err := glance(ctx, l, "look up a session", scanSession, `SELECT `+sessionColumns+` FROM session WHERE tenant = ? AND id = ?`, tenant, id)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: session", ErrUnknown)
	}
	if err != nil {
		return memproxy.Session{}, err
	}
	s := found[0]
	l.lock(&s, l.opt.Clock())
	if s.Reasons, err = glance(ctx, l, "list a session's reasons", scanTally, sessionReasons, tenant, id); err != nil {
		return s, err
	}
	s.Refused, err = glance(ctx, l, "list a session's refusals", scanEvent, sessionEvents, tenant, id)
	return s, err
}

// EndSessions ends the sessions in which nothing happened since a time and
// returns them, at most some hundred; of those in which something was refused
// or held it queues a notice. Call it until it returns none.
func (l *Ledger) EndSessions(ctx context.Context, idleSince time.Time) ([]memproxy.Session, error) {
	var ended []memproxy.Session
	err := l.do(ctx, &job{also: func(t *transaction) (err error) {
		ended, err = rows(t, scanSession, `UPDATE session SET ended = ? WHERE (tenant, id) IN
			(SELECT tenant, id FROM session WHERE ended = 0 AND last < ? ORDER BY last LIMIT ?) RETURNING `+sessionColumns,
			max(1, micros(t.l.opt.Clock())), micros(idleSince), endStep)
		if err != nil {
			return err
		}
		for i := range ended {
			t.l.lock(&ended[i], t.l.opt.Clock())
		}
		for _, s := range ended {
			if s.Rejections+s.Held == 0 {
				continue
			}
			if err := t.tell(memproxy.NoticeEnded, s); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// PruneSessions forgets the sessions that ended before a time, but not locked
// ones: to be forgotten must not unlock. It returns how many it forgot.
func (l *Ledger) PruneSessions(ctx context.Context, before time.Time) (int, error) {
	if before.IsZero() {
		return 0, refused("prune sessions: no time given")
	}
	for total := 0; ; {
		n := 0
		err := l.do(ctx, &job{also: func(t *transaction) error {
			gone, err := rows(t, scanSession, `DELETE FROM session WHERE (tenant, id) IN
				(SELECT tenant, id FROM session WHERE ended > 0 AND ended < ? AND NOT `+l.inForce()+` LIMIT ?) RETURNING `+sessionColumns,
				micros(before), micros(l.opt.Clock().Add(-l.opt.Locks.For)), pruneStep)
			for _, s := range gone {
				for _, table := range [...]string{"session_event", "session_reason"} {
					_, derr := t.run(`DELETE FROM `+table+` WHERE tenant = ? AND session = ?`, s.Tenant, s.ID)
					err = errors.Join(err, derr)
				}
			}
			n = len(gone)
			return err
		}})
		if err != nil {
			return total, err
		}
		if total += n; n < pruneStep {
			return total, nil
		}
	}
}
