package ledger

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/circuit"
)

// maxText is the longest string of a row, in bytes. Backends' ids are UUIDs or
// short slugs; a longer one is somebody trying something.
const maxText = 1024

type key = memproxy.MemoryKey

// recordColumns are texts and then numbers, as rowScanner reads them.
const recordColumns = `backend, kind, id, tenant, "user", agent, app, run, actor, trust, source, decision, sha256,
	state, status_tenant, prior, reason, status_decision, attestation, rules, findings, unverified, reviewed, current, first_seen,
	owned, confidence, written, deleted, validated, changed, contested, pinned, expires, listed`

const recordTexts, recordNumbers = 25, 10

// part is the owner of a record, or its status, or both. Its listing is never changed.
type part int

const (
	ownerPart part = 1 << iota
	statusPart
)

const (
	ownerColumns  = `tenant, "user", agent, app, run, actor, trust, source, decision, sha256, owned, confidence, written, deleted, validated`
	statusColumns = `state, status_tenant, prior, reason, status_decision, attestation, rules, findings, unverified, reviewed, current, changed, contested, pinned, expires`
)

// upserts write parts of a record, by part: an index of which no column is set is left
// as it is.
var upserts = [...]string{ownerPart: upsert(ownerColumns), statusPart: upsert(statusColumns), ownerPart | statusPart: upsert(ownerColumns + ", " + statusColumns)}

func upsert(columns string) string {
	var set []string
	for name := range strings.SplitSeq(columns, ",") {
		set = append(set, name+" = excluded."+strings.TrimSpace(name))
	}
	return `INSERT INTO record (` + recordColumns + `) VALUES (?` + strings.Repeat(", ?", recordTexts+recordNumbers-1) +
		`) ON CONFLICT (backend, kind, id) DO UPDATE SET ` + strings.Join(set, ",")
}

const (
	oneRecord = `SELECT ` + recordColumns + ` FROM record WHERE backend = ? AND kind = ? AND id = ?`
	// lockRecord keeps other proxies away from a record until the transaction is over,
	// also from one that is not there yet; save removes what stays empty.
	lockRecord = `INSERT INTO record (backend, kind, id) VALUES (?, ?, ?) ON CONFLICT (backend, kind, id) DO UPDATE SET prior = record.prior RETURNING ` + recordColumns
)

// recordRow is a record as it is stored.
type recordRow struct {
	key
	memproxy.Record
	deleted   int64                // when it was deleted
	validated bool                 // it counts for its author
	prior     memproxy.MemoryState // before it expired
	listed    bool                 // also where an owner ends what that says

	// stored: there is a row. Sure: the listing is known of one without an owner.
	stored, sure bool
	dirty        part // what save has to write
	touched      bool // something was changed in this transaction
}

// rowScanner reads records, without an allocation for each.
func rowScanner() func(scanner) (recordRow, error) {
	var s [recordTexts]string
	var n [recordNumbers]int64
	to := make([]any, 0, len(s)+len(n))
	for i := range s {
		to = append(to, &s[i])
	}
	for i := range n {
		to = append(to, &n[i])
	}
	return func(from scanner) (r recordRow, err error) {
		if err := from.Scan(to...); err != nil {
			return r, err
		}
		r.key, r.stored = key{Backend: s[0], Kind: memproxy.TargetKind(s[1]), ID: s[2]}, true
		if n[0] > 0 {
			r.Owner = memproxy.Ownership{
				Backend: r.Backend, Kind: r.Kind, ID: r.ID, Scope: memproxy.Scope{Tenant: s[3], User: s[4], Agent: s[5], App: s[6], Run: s[7]},
				Actor: s[8], Trust: memproxy.Trust(s[9]), Source: memproxy.Source(s[10]), Decision: s[11], SHA256: s[12],
				Confidence: memproxy.PerMille(n[1]), Written: moment(n[2]), Deleted: n[3] > 0,
			}
			r.deleted, r.validated = n[3], n[4] > 0
		}
		if s[13] != "" {
			r.Status = memproxy.Status{
				MemoryKey: r.key, State: memproxy.MemoryState(s[13]), Tenant: s[14], Reason: s[16], Decision: s[17], Attestation: memproxy.Attestation(s[18]), Rules: s[19],
				Unverified: memproxy.ReasonCode(s[21]), Reviewed: s[22], CurrentRules: memproxy.MemoryState(s[23]),
				Changed: moment(n[5]), Contested: n[6] > 0, Pinned: n[7] > 0, Expires: moment(n[8]),
			}
			r.prior = memproxy.MemoryState(s[15])
			err = readFindings(&r.Status, s[20])
		}
		if r.listed = n[9] > 0; r.listed && !r.Owned() {
			r.Listing, r.FirstSeen = memproxy.Listed, s[24]
		}
		r.sure = r.listed || r.Owned()
		return r, err
	}
}

func (r *recordRow) arguments() []any {
	o, st, findings := &r.Owner, &r.Status, ""
	if r.Rated() {
		findings = asJSON(spans{st.Text, st.Findings})
	}
	return []any{r.Backend, string(r.Kind), r.ID,
		o.Scope.Tenant, o.Scope.User, o.Scope.Agent, o.Scope.App, o.Scope.Run, o.Actor, string(o.Trust), string(o.Source), o.Decision, o.SHA256,
		string(st.State), st.Tenant, string(r.prior), st.Reason, st.Decision, string(st.Attestation), st.Rules, findings, string(st.Unverified), st.Reviewed, string(st.CurrentRules), "",
		count(r.Owned()), int64(o.Confidence), micros(o.Written), r.deleted, count(r.validated),
		micros(st.Changed), count(st.Contested), count(st.Pinned), micros(st.Expires), int64(0)}
}

func scanOwner(s scanner) (memproxy.Ownership, error) {
	r, err := rowScanner()(s)
	return r.Owner, err
}

func scanStatus(s scanner) (memproxy.Status, error) {
	r, err := rowScanner()(s)
	return r.Status, err
}

// own gives a record an owner. A tombstone keeps the time of the first deletion.
func (r *recordRow) own(row *memproxy.Ownership, now int64) {
	r.Record = owned(r.Record, row)
	if !row.Deleted {
		r.deleted = 0
	} else if r.deleted == 0 {
		r.deleted = now
	}
	r.dirty |= ownerPart
}

func keyOf(row *memproxy.Ownership) key {
	return key{Backend: row.Backend, Kind: row.Kind, ID: row.ID}
}

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

// scanOne reads rows of one column.
func scanOne[T any](s scanner) (v T, err error) {
	err = s.Scan(&v)
	return v, err
}

func scanKey(s scanner) (k key, err error) {
	err = s.Scan(&k.Backend, &k.Kind, &k.ID)
	return k, err
}

// when reads a time that was written by micros.
type when time.Time

func (w *when) Scan(column any) error {
	at, ok := column.(int64)
	if !ok {
		return fmt.Errorf("%T is no time", column)
	}
	*w = when(moment(at))
	return nil
}

// flag reads a number that is over zero, such as count's or the time of a deletion.
type flag bool

func (f *flag) Scan(column any) error {
	n, ok := column.(int64)
	if !ok {
		return fmt.Errorf("%T is no number", column)
	}
	*f = n > 0
	return nil
}

// parsed reads what was written by asJSON.
type parsed struct{ to any }

func (p parsed) Scan(column any) error {
	switch text := column.(type) {
	case string:
		return json.Unmarshal([]byte(text), p.to)
	case []byte:
		return json.Unmarshal(text, p.to)
	}
	return fmt.Errorf("%T is no JSON", column)
}

// stored is the row as it will be read back.
func stored(row memproxy.Ownership) memproxy.Ownership {
	if !row.Written.IsZero() {
		row.Written = row.Written.UTC().Truncate(time.Microsecond)
	}
	return row
}

// storable says why a string cannot be part of a row. NUL and broken UTF-8
// are refused because stores differ in what they make of them, and two ids
// that are one in the store would be one owner for two memories.
func storable(s string) error {
	switch {
	case len(s) > maxText:
		return fmt.Errorf("longer than %d bytes", maxText)
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("has a NUL")
	case !utf8.ValidString(s):
		return errors.New("is not UTF-8")
	}
	return nil
}

// storableParts is an error that names what a string belongs to that is not storable.
func storableParts(of string, parts ...string) error {
	for _, s := range parts {
		if err := storable(s); err != nil {
			return refused("a part of the %s %v", of, err)
		}
	}
	return nil
}

func validate(row *memproxy.Ownership) error {
	return cmp.Or(validKey(keyOf(row)), storableParts("owner", row.Scope.Tenant, row.Scope.User, row.Scope.Agent, row.Scope.App, row.Scope.Run,
		row.Actor, string(row.Trust), string(row.Source), row.Decision, row.SHA256))
}

// damaged adds ErrDamaged and what to do to the errors with which SQLite says
// that a file is broken.
func damaged(err error) error {
	var se *sqlite.Error
	if !errors.As(err, &se) || errors.Is(err, ErrDamaged) {
		return err
	}
	switch se.Code() & 0xff {
	case sqlitelib.SQLITE_CORRUPT, sqlitelib.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w; %s", ErrDamaged, err, advice)
	}
	return err
}

// canWait reports whether an error is the store's (no room on its disk, a lock, no answer),
// and not of what was to be written: the same entry can be written later.
func canWait(err error) bool {
	var se *sqlite.Error
	var pe *pgconn.PgError
	var ne net.Error
	switch {
	case errors.As(err, &se):
		switch se.Code() & 0xff {
		case sqlitelib.SQLITE_FULL, sqlitelib.SQLITE_IOERR, sqlitelib.SQLITE_READONLY, sqlitelib.SQLITE_CANTOPEN, sqlitelib.SQLITE_NOMEM, sqlitelib.SQLITE_BUSY, sqlitelib.SQLITE_LOCKED:
			return true
		}
		return false
	case errors.As(err, &pe): // it is out of something, stops, breaks or is read-only
		return slices.Contains([]string{"53", "57", "58", "08", "40", "25"}, pe.Code[:min(2, len(pe.Code))])
	}
	return errors.Is(err, circuit.ErrAway) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &ne) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, net.ErrClosed)
}

// Bind inserts rows of which there is none by (Backend, Kind, ID), and returns
// for each the one that is there then, tombstones too. They are in the file when
// it returns. Of proxies and callers that bind one id at once, one is the first,
// and all are told the same.
func (l *Ledger) Bind(ctx context.Context, bound ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return bindRows(ctx, l.store, bound, func(*transaction, *memproxy.Ownership) bool { return false })
}

// Assign is Bind for owners' names that an operator lists: a name that another
// tenant has, or nobody, comes to be the row's tenant's, unless there are memories
// under it that are another tenant's. What was deleted is not there.
func (l *Ledger) Assign(ctx context.Context, listed ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return bindRows(ctx, l.store, listed, func(t *transaction, row *memproxy.Ownership) bool {
		dim, name, _ := strings.Cut(row.ID, ":")
		t.save()
		return !t.one(`SELECT 1 FROM record WHERE backend = ?1 AND kind = 'memory' AND owned = 1 AND deleted = 0 AND tenant <> ?2
			AND CASE ?3 WHEN 'user' THEN "user" WHEN 'agent' THEN agent WHEN 'app' THEN app WHEN 'run' THEN run ELSE ?4 END = ?4 LIMIT 1`,
			[]any{row.Backend, row.Scope.Tenant, dim, name}, new(int64))
	})
}

// bindRows inserts rows. One of which there is another tenant's takes its place
// where free says so.
func bindRows(ctx context.Context, s *store, bound []memproxy.Ownership, free func(*transaction, *memproxy.Ownership) bool) ([]memproxy.Ownership, error) {
	own, err := take(bound)
	if err != nil || len(own) == 0 {
		return nil, err
	}
	return changed(ctx, s, func(t *transaction) ([]memproxy.Ownership, error) {
		bound := make([]memproxy.Ownership, 0, len(own))
		for i := range own {
			row := &own[i]
			r := t.record(keyOf(row))
			if !r.Owned() || r.Owner.Scope.Tenant != row.Scope.Tenant && free(t, row) {
				r.own(row, t.now())
			}
			bound = append(bound, r.Owner)
		}
		return bound, nil
	})
}
