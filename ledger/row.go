package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/keys"
)

// maxText is the longest string of a row, in bytes. Ids are UUIDs or short slugs.
const maxText = 1024

type key = memproxy.MemoryKey

// recordColumns lists the columns with texts and then those with numbers, as fields does.
const recordColumns = `backend, kind, id, tenant, "user", agent, app, run, actor, trust, source, decision, sha256,
	state, status_tenant, prior, reason, status_decision, attestation, rules, findings, unverified, reviewed, current, first_seen,
	owned, confidence, written, deleted, validated, changed, contested, pinned, expires, listed, mac`

const recordTexts, recordNumbers, recordValues = 25, 10, 36

const bulkRows = 50 // number of rows in one statement for Postgres

// upserts are the statements that write one record, and bulkRows of them: the first for records
// whose decision is the stored one, which do not touch its index.
var upserts = func() (by [2]struct{ one, bulk string }) {
	row := `(?` + strings.Repeat(", ?", recordValues-1) + `)`
	for decided := range by {
		var set []string
		for name := range strings.FieldsFuncSeq(recordColumns, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
			if decided == 1 || name != "decision" {
				set = append(set, name+" = excluded."+name)
			}
		}
		begin, end := `INSERT INTO record (`+recordColumns+`) VALUES `, ` ON CONFLICT (backend, kind, id) DO UPDATE SET `+strings.Join(set[3:], ", ") // all but the key
		by[decided].one, by[decided].bulk = begin+row+end, begin+row+strings.Repeat(", "+row, bulkRows-1)+end
	}
	return by
}()

const (
	oneRecord = `SELECT ` + recordColumns + ` FROM record` + ofKey
	// lockRecord locks a record against other proxies until the transaction ends. It
	// inserts a record that does not exist; save deletes rows that stay empty.
	lockRecord = `INSERT INTO record (backend, kind, id, mac) VALUES (?, ?, ?, '') ON CONFLICT (backend, kind, id) DO UPDATE SET prior = record.prior RETURNING ` + recordColumns
)

// recordRow is a record as it is stored.
type recordRow struct {
	key
	memproxy.Record
	deleted   int64                // time of the deletion
	validated bool                 // the memory counts for its author
	prior     memproxy.MemoryState // state before it expired
	findings  string               // stored form of the status's findings
	listed    bool                 // the record has a listing, which an owner supersedes
	firstSeen string               // part of the listing

	// stored: there is a row. listingKnown: the listing is known, even without an owner.
	stored, listingKnown bool
	dirty                bool // save has to write it
	decided              bool // its decision is not the stored one
	touched              bool // something was changed in this transaction
	// edited: the row was changed outside of memproxy, and is evidence until a person accepts
	// it. historyBegun: in this transaction. rowRemoved: it has a history and no row.
	edited, historyBegun, rowRemoved bool
}

// fields has the columns of a record. mark is a MAC over all the others: it detects
// rows that were changed outside of memproxy.
type fields struct {
	texts   [recordTexts]string
	numbers [recordNumbers]int64
	mark    []byte
}

// The indexes of columns in fields that are used one by one.
const (
	tenantText, stateText, statusTenantText, findingsText = 3, 13, 14, 20
	ownedNumber, deletedNumber, listedNumber              = 0, 3, 9
)

func (f *fields) key() key {
	return key{Backend: f.texts[0], Kind: memproxy.TargetKind(f.texts[1]), ID: f.texts[2]}
}

// tenant returns the tenant that the record names.
func (f *fields) tenant() string { return cmp.Or(f.texts[tenantText], f.texts[statusTenantText]) }

// nextRecords selects the records after a key, in order.
const nextRecords = `SELECT ` + recordColumns + ` FROM record WHERE (backend, kind, id) > (?, ?, ?) ORDER BY backend, kind, id LIMIT ?`

// eachPage calls do with page after page of what read returns after an element, from the zero
// element on. It ends with the first page that is not full.
func eachPage[T any](size int, read func(after T) ([]T, error), do func(page []T) error) error {
	for after, n := *new(T), size; n == size; {
		page, err := read(after)
		if n = len(page); err != nil || n == 0 {
			return err
		}
		after = page[n-1]
		if err := do(page); err != nil {
			return err
		}
	}
	return nil
}

// scanFields reads a row without checking its mark.
func scanFields(from scanner) (f fields, err error) {
	err = from.Scan(f.columns(&f.mark)...)
	return f, err
}

func (f *fields) columns(mark any) []any {
	to := make([]any, 0, recordValues)
	for i := range f.texts {
		to = append(to, &f.texts[i])
	}
	for i := range f.numbers {
		to = append(to, &f.numbers[i])
	}
	return append(to, mark)
}

func (f *fields) row(b []byte) []byte {
	b = append(b, "record"...)
	for i := range f.texts {
		b = append(binary.AppendUvarint(b, uint64(len(f.texts[i]))), f.texts[i]...)
	}
	for _, n := range f.numbers {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// rowScanner reads records without an allocation per row. With a vault it returns
// quarantinedRow instead of a record with an invalid mark.
func rowScanner(of *store) func(scanner) (recordRow, error) {
	var f fields
	s, n, to := &f.texts, &f.numbers, f.columns((*sql.RawBytes)(&f.mark))
	return func(from scanner) (r recordRow, err error) {
		if err := from.Scan(to...); err != nil {
			return r, err
		}
		r.key, r.stored = f.key(), true
		if n[0] > 0 {
			r.Owner = memproxy.Ownership{
				Backend: r.Backend, Kind: r.Kind, ID: r.ID, Scope: memproxy.Scope{Tenant: s[3], User: s[4], Agent: s[5], App: s[6], Run: s[7]},
				Actor: s[8], Trust: memproxy.Trust(s[9]), Source: memproxy.Source(s[10]), Decision: s[11], SHA256: s[12],
				Confidence: memproxy.PerMille(n[1]), Written: fromMicros(n[2]), Deleted: n[3] > 0,
			}
			r.deleted, r.validated = n[3], n[4] > 0
		}
		if r.findings = s[20]; s[13] != "" {
			r.Status = memproxy.Status{
				MemoryKey: r.key, State: memproxy.MemoryState(s[13]), Tenant: s[14], Reason: s[16], Decision: s[17], Attestation: memproxy.Attestation(s[18]), Rules: s[19],
				Unverified: memproxy.ReasonCode(s[21]), Reviewed: s[22], CurrentRules: memproxy.MemoryState(s[23]),
				Changed: fromMicros(n[5]), Contested: n[6] > 0, Pinned: n[7] > 0, Expires: fromMicros(n[8]),
			}
			r.prior = memproxy.MemoryState(s[15])
			err = readFindings(&r.Status, s[20])
		}
		if r.listed, r.firstSeen = n[9] > 0, s[24]; r.listed && !r.HasOwner() {
			r.Presence, r.FirstSeen = memproxy.PresentAtSeal, s[24]
		}
		r.listingKnown = r.listed || r.HasOwner()
		if !marked(of.opt.Vault, &f) {
			r, err = quarantinedRow(of, &f), nil
		}
		return r, err
	}
}

// blank reports whether a row is empty, which means the same as no row.
func (r *recordRow) blank() bool { return !r.HasOwner() && !r.HasStatus() && !r.listed }

func (r *recordRow) fields() fields {
	o, st := &r.Owner, &r.Status
	return fields{
		[...]string{
			r.Backend, string(r.Kind), r.ID,
			o.Scope.Tenant, o.Scope.User, o.Scope.Agent, o.Scope.App, o.Scope.Run, o.Actor, string(o.Trust), string(o.Source), o.Decision, o.SHA256,
			string(st.State), st.Tenant, string(r.prior), st.Reason, st.Decision, string(st.Attestation), st.Rules, r.findings, string(st.Unverified), st.Reviewed,
			string(st.CurrentRules), r.firstSeen,
		},
		[...]int64{
			count(r.HasOwner()), int64(o.Confidence), toMicros(o.Written), r.deleted, count(r.validated),
			toMicros(st.Changed), count(st.Contested), count(st.Pinned), toMicros(st.Expires), count(r.listed),
		}, nil,
	}
}

// append appends the values of a record's columns and the mark.
func (f *fields) append(args []any, v *keys.Vault) []any {
	for _, text := range f.texts {
		args = append(args, text)
	}
	for _, n := range f.numbers {
		args = append(args, n)
	}
	return append(args, v.MarkRow(f.row))
}

// scanPart reads a part of each record.
func scanPart[T any](of *store, part func(*recordRow) T) func(scanner) (T, error) {
	scan := rowScanner(of)
	return func(s scanner) (T, error) {
		r, err := scan(s)
		return part(&r), err
	}
}

func ownerOf(r *recordRow) memproxy.Ownership { return r.Owner }

func statusOf(r *recordRow) memproxy.Status { return r.Status }

// setOwner sets the owner of a record. A tombstone keeps the time of the first deletion.
func (r *recordRow) setOwner(row *memproxy.Ownership, now int64) {
	if r.edited {
		return
	}
	if row.Kind == memproxy.TargetEntity && row.Deleted { // a released name is as if it had never been claimed
		row = &memproxy.Ownership{}
	}
	r.decided = r.decided || r.Owner.Decision != row.Decision
	r.Record, r.dirty = withOwner(r.Record, row), true
	if !row.Deleted {
		r.deleted = 0
	} else if r.deleted == 0 {
		r.deleted = now
	}
}

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

func scanOne[T any](s scanner) (v T, err error) {
	err = s.Scan(&v)
	return v, err
}

func scanKey(s scanner) (k key, err error) {
	err = s.Scan(&k.Backend, &k.Kind, &k.ID)
	return k, err
}

// sqlTime reads a time in the form of toMicros.
type sqlTime time.Time

func (w *sqlTime) Scan(column any) error {
	at, ok := column.(int64)
	if !ok {
		return fmt.Errorf("%T is not a time", column)
	}
	*w = sqlTime(fromMicros(at))
	return nil
}

// sqlFlag reads a positive number, such as a count or the time of a deletion, as true.
type sqlFlag bool

func (f *sqlFlag) Scan(column any) error {
	n, ok := column.(int64)
	if !ok {
		return fmt.Errorf("%T is not a number", column)
	}
	*f = n > 0
	return nil
}

// sqlJSON reads JSON that asJSON wrote.
type sqlJSON struct{ to any }

func (p sqlJSON) Scan(column any) error {
	switch text := column.(type) {
	case string:
		return json.Unmarshal([]byte(text), p.to)
	case []byte:
		return json.Unmarshal(text, p.to)
	}
	return fmt.Errorf("%T is not JSON", column)
}

// storable returns an error if a string cannot be part of a row. NUL and invalid UTF-8
// are refused because databases treat them differently: two ids that the database takes
// for the same would give two memories one owner.
func storable(s string) error { return storableUpTo(maxText, s) }

func storableUpTo(limit int, s string) error {
	switch {
	case len(s) > limit:
		return fmt.Errorf("longer than %d bytes", limit)
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("has a NUL")
	case !utf8.ValidString(s):
		return errors.New("is not UTF-8")
	}
	return nil
}

// storableParts returns an error if one of the parts is not storable. of says what they
// belong to.
func storableParts(of string, parts ...string) error {
	for _, s := range parts {
		if err := storable(s); err != nil {
			return invalidArgument("a part of the %s %v", of, err)
		}
	}
	return nil
}

func validOwner(row *memproxy.Ownership) error {
	return cmp.Or(validKey(row.Key()), storableParts("owner", row.Scope.Tenant, row.Scope.User, row.Scope.Agent, row.Scope.App, row.Scope.Run,
		row.Actor, string(row.Trust), string(row.Source), row.Decision, row.SHA256))
}

// Bind inserts owners for objects that have none, and returns for each object the owner
// that is then stored, tombstones included. The owners are on disk when Bind returns.
// If several proxies or callers bind one id at once, the first wins and all get the
// same answer.
//
// The owner of a name (memproxy.TargetEntity) is a claim while it has a Decision: an entry
// can release it with ExpectedOwners and a tombstone, which removes the owner. Bind by the
// same tenant with another decision makes the claim permanent, by removing its decision.
func (l *Ledger) Bind(ctx context.Context, bound ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return bindRows(ctx, l.store, bound, func(*transaction, *memproxy.Ownership) bool { return false })
}

// Assign is Bind for names of owners that an operator lists. It gives a name that
// belongs to another tenant, or to none, to the row's tenant, unless another tenant has
// memories under that name that are not deleted.
func (l *Ledger) Assign(ctx context.Context, listed ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return bindRows(ctx, l.store, listed, func(t *transaction, row *memproxy.Ownership) bool {
		dim, name, _ := strings.Cut(row.ID, ":")
		t.save()
		return !t.one(`SELECT 1 FROM record WHERE backend = ?1 AND kind = 'memory' AND owned = 1 AND deleted = 0 AND tenant <> ?2
			AND CASE ?3 WHEN 'user' THEN "user" WHEN 'agent' THEN agent WHEN 'app' THEN app WHEN 'run' THEN run ELSE ?4 END = ?4 LIMIT 1`,
			[]any{row.Backend, row.Scope.Tenant, dim, name}, new(int64))
	})
}

// bindRows inserts owners. A row replaces the owner of another tenant if free allows it.
func bindRows(ctx context.Context, s *store, bound []memproxy.Ownership, free func(*transaction, *memproxy.Ownership) bool) ([]memproxy.Ownership, error) {
	own, err := copyOwners(bound)
	if err != nil || len(own) == 0 {
		return nil, err
	}
	return changeResult(ctx, s, nil, func(t *transaction) []memproxy.Ownership {
		bound := make([]memproxy.Ownership, 0, len(own))
		for i := range own {
			row := &own[i]
			switch r := t.record(row.Key()); {
			case !r.HasOwner() || r.Owner.Scope.Tenant != row.Scope.Tenant && free(t, row):
				r.setOwner(row, t.now())
			case row.Kind == memproxy.TargetEntity && r.Owner.Scope.Tenant == row.Scope.Tenant && r.Owner.Decision != "" && r.Owner.Decision != row.Decision:
				kept := r.Owner
				kept.Decision = ""
				r.setOwner(&kept, t.now())
			}
			bound = append(bound, t.record(row.Key()).Owner)
		}
		return bound
	})
}
