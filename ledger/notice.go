package ledger

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// notify queues a notice in the transaction that it tells of, so that neither
// is there without the other.
func (t *transaction) notify(kind memproxy.NoticeKind, tenant, subject string, data any) error {
	if t.store.opt.Noticed == nil {
		return nil
	}
	t.noticed = true
	subject, data = memproxy.InertID(subject), shown(data)
	at := t.now()
	_, err := t.run(`INSERT INTO notice (id, kind, tenant, subject, created, data, attempts, due, error)
		VALUES (?, ?, ?, ?, ?, ?, 0, 0, '') ON CONFLICT DO NOTHING`,
		ref(string(kind)+"/", tenant, subject)+strconv.FormatInt(at, 36), string(kind), tenant, subject, at, asJSON(data))
	if err != nil {
		return err
	}
	_, err = t.run(`DELETE FROM notice WHERE (SELECT COUNT(*) FROM notice) > ? AND id IN (SELECT id FROM notice
		WHERE tenant = (SELECT tenant FROM notice GROUP BY tenant ORDER BY COUNT(*) DESC, tenant LIMIT 1) ORDER BY created, id LIMIT 1)`, t.store.opt.MaxNotices)
	return err
}

// shown is what a notice tells, with no name in it that reads like a sentence:
// whoever receives it may be a model.
func shown(data any) any {
	switch v := data.(type) {
	case memproxy.HeldWrite:
		v.Session, v.Scope, v.EscapedPath = memproxy.InertSession(v.Session), memproxy.InertScope(v.Scope), memproxy.InertPath(v.EscapedPath)
		v.Principal = memproxy.Inert(v.Principal)
		return v
	case memproxy.Session:
		v.ID, v.Principal = memproxy.InertID(v.ID), memproxy.Inert(v.Principal)
		return v
	case memproxy.Status:
		v.ID = memproxy.InertID(v.ID)
		return v
	case *memproxy.Status:
		return shown(*v)
	}
	return data
}

// Notices is the queue of events that a webhook delivers.
type Notices struct{ *store }

// Due gives the caller notices to deliver that are due, oldest first, at
// most limit of them. Nobody else gets them for the length of the lease; what
// is not Delivered or Delayed by then is given out again. So each is delivered
// at least once, and now and then twice. Next is when the first of all that are
// left, or given out, is due; zero is never.
func (ns Notices) Due(ctx context.Context, limit int, lease time.Duration) (notices []memproxy.Notice, next time.Time, err error) {
	now := ns.opt.Clock()
	type found struct {
		mine []memproxy.Notice
		next sql.NullInt64
	}
	out, err := changed(ctx, ns.store, func(t *transaction) (out found, err error) {
		due, err := rows(t, scanNotice, `SELECT id, kind, tenant, subject, created, data, attempts FROM notice
			WHERE due <= ? ORDER BY created, id LIMIT ?`, micros(now), limit)
		if err != nil {
			return out, err
		}
		for _, n := range due {
			got, err := t.run(`UPDATE notice SET due = ? WHERE id = ? AND due <= ?`, micros(now.Add(lease)), n.ID, micros(now))
			if err != nil {
				return out, err
			}
			if got == 1 {
				out.mine = append(out.mine, n)
			}
		}
		_, err = t.one(`SELECT MIN(due) FROM notice`, nil, &out.next)
		return out, err
	})
	if out.next.Valid {
		next = moment(out.next.Int64)
	}
	return out.mine, next, err
}

func scanNotice(s scanner) (n memproxy.Notice, err error) {
	err = s.Scan(&n.ID, &n.Kind, &n.Tenant, &n.Subject, (*when)(&n.Created), &n.Data, &n.Attempts)
	return n, err
}

// Delivered forgets a notice that reached its reader, or is given up.
func (ns Notices) Delivered(ctx context.Context, id string) error {
	return ns.change(ctx, func(t *transaction) error {
		_, err := t.run(`DELETE FROM notice WHERE id = ?`, id)
		return err
	})
}

// Delayed notes that a notice could not be delivered and when it is due again.
func (ns Notices) Delayed(ctx context.Context, id string, due time.Time, why string) error {
	return ns.change(ctx, func(t *transaction) error {
		_, err := t.run(`UPDATE notice SET attempts = attempts + 1, due = ?, error = ? WHERE id = ?`, micros(due), clean(why), id)
		return err
	})
}

// clean makes a sentence of somebody else's storable.
func clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return text
}
