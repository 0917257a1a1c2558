package ledger

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/keys"
)

// notify queues a notice in the transaction that it is about, so that both are
// committed or neither.
func (t *transaction) notify(kind memproxy.NoticeKind, tenant, subject string, data any) {
	if t.store.opt.OnNotice == nil {
		return
	}
	t.noticed = true
	subject, data = memproxy.InertID(subject), shown(data)
	at := t.now()
	n := memproxy.Notice{ID: ref(string(kind)+"/", tenant, subject) + strconv.FormatInt(at, 36), Kind: kind, Tenant: tenant, Subject: subject, Created: fromMicros(at), Data: inJSON(data)}
	t.run(`INSERT INTO notice (id, kind, tenant, subject, created, data, attempts, due, error, mac)
		VALUES (?, ?, ?, ?, ?, ?, 0, 0, '', ?) ON CONFLICT DO NOTHING`,
		n.ID, string(kind), tenant, subject, at, string(n.Data), t.store.opt.Vault.MarkRow(noticeRow(&n)))
	t.run(`DELETE FROM notice WHERE (SELECT COUNT(*) FROM notice) > ? AND id IN (SELECT id FROM notice
		WHERE tenant = (SELECT tenant FROM notice GROUP BY tenant ORDER BY COUNT(*) DESC, tenant LIMIT 1) ORDER BY created, id LIMIT 1)`, t.store.opt.MaxNotices)
}

// shown returns the data of a notice with all names made inert (see memproxy.Inert),
// because the receiver may be a model.
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
	}
	return data
}

// Notices is the queue of events that a webhook delivers.
type Notices struct{ *store }

// Due leases at most limit of the notices that are due to the caller, oldest first. A
// notice that is not marked as delivered or postponed before the lease expires is handed
// out again, so that each is delivered at least once. next is the time at which the next
// of the remaining notices is due, or zero if there are none.
func (ns Notices) Due(ctx context.Context, limit int, lease time.Duration) (notices []memproxy.Notice, next time.Time, err error) {
	now := ns.opt.Clock()
	type found struct {
		mine []memproxy.Notice
		next int64
	}
	out, err := changeResult(ctx, ns.store, nil, func(t *transaction) (out found) {
		due := rows(t, scanNotice(t.store), `UPDATE notice SET due = ?1 WHERE (due <= ?2 OR due > ?3) AND id IN
			(SELECT id FROM notice WHERE due <= ?2 OR due > ?3 ORDER BY created, id LIMIT ?4) RETURNING `+noticeColumns,
			toMicros(now.Add(lease)), toMicros(now), toMicros(now.Add(longestLease)), limit)
		for _, n := range due {
			if n.Data == nil { // the row was edited
				t.run(`DELETE FROM notice WHERE id = ?`, n.ID)
			} else {
				out.mine = append(out.mine, n)
			}
		}
		slices.SortFunc(out.mine, func(a, b memproxy.Notice) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
		t.one(`SELECT coalesce(MIN(due), 0) FROM notice`, nil, &out.next)
		return out
	})
	return out.mine, fromMicros(out.next), err
}

const noticeColumns = `id, kind, tenant, subject, created, data, attempts, mac`

// scanNotice reads notices. An edited one has no data.
func scanNotice(of *store) func(scanner) (memproxy.Notice, error) {
	return func(s scanner) (n memproxy.Notice, err error) {
		var mark []byte
		err = s.Scan(&n.ID, &n.Kind, &n.Tenant, &n.Subject, (*sqlTime)(&n.Created), &n.Data, &n.Attempts, &mark)
		if err == nil && !of.opt.Vault.MarkedRow(noticeRow(&n), mark) {
			n.Data = nil
			of.edits.note(memproxy.MemoryKey{Kind: "notice", ID: memproxy.InertID(n.Subject)}, n.Tenant, editedRow)
		}
		return n, err
	}
}

func noticeRow(n *memproxy.Notice) func([]byte) []byte {
	return func(b []byte) []byte {
		return keys.AppendFields(b, []string{"notice", n.ID, string(n.Kind), n.Tenant, n.Subject, string(n.Data)}, toMicros(n.Created))
	}
}

// MarkDelivered deletes a notice that was delivered or is given up.
func (ns Notices) MarkDelivered(ctx context.Context, id string) error {
	return ns.exec(ctx, `DELETE FROM notice WHERE id = ?`, id)
}

// Postpone records that a notice could not be delivered, and when it is due again.
func (ns Notices) Postpone(ctx context.Context, id string, due time.Time, why string) error {
	return ns.exec(ctx, `UPDATE notice SET attempts = attempts + 1, due = ?, error = ? WHERE id = ?`, toMicros(due), clean(why), id)
}
