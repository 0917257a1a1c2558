package ledger

import (
	"cmp"
	"database/sql"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/keys"
)

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
	dirty                bool // saveRecords has to write it
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
		r.findings = s[20]
		if s[13] != "" {
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

func putOwner(t *transaction, owner *memproxy.Ownership, at int64) {
	r := t.record(owner.Key())
	if !r.HasOwner() && owner.Kind == memproxy.TargetMemory && owner.Actor != "" && !owner.Deleted {
		t.counted[account{owner.Scope.Tenant, memproxy.Account(owner.Actor)}]++
	}
	r.setOwner(owner, max(1, at))
}

// record returns an object's record, locked against other transactions until this one
// ends. save writes changes of it.
func (t *transaction) record(k key) *recordRow {
	if r := t.records[k]; r != nil {
		return r
	}
	r := recordRow{key: k}
	if r.Record, r.listingKnown = t.store.filter.absent(k); !r.listingKnown {
		text := oneRecord
		if t.store.dialect == postgresDialect {
			text = lockRecord
		}
		if found, there := row(t, rowScanner(t.store), text, k); there {
			r = found
		}
		if r.blank() {
			for _, k := range rows(t, scanKey, lostQuery, k.Backend, string(k.Kind), asJSON([]string{k.ID})) {
				r.Status, r.rowRemoved = lostStatus(t.store, k), true
			}
		}
	}
	t.records[k] = &r
	return &r
}

// lock returns at most limit records that match a condition, locked as by record.
func (t *transaction) lock(limit int, where string, args ...any) (all []*recordRow) {
	t.saveRecords()
	where += fmt.Sprintf(` LIMIT ?%d`, len(args)+1)
	text := `SELECT ` + recordColumns + ` FROM record WHERE ` + where
	if t.store.dialect == postgresDialect {
		text += ` FOR UPDATE`
	}
	found := rows(t, rowScanner(t.store), text, append(args, limit)...)
	for i := range found {
		r := &found[i]
		if old, known := t.records[r.key]; known { // nil: changed, and not in memory
			r.touched = old == nil || old.touched
		}
		t.records[r.key] = r
		all = append(all, r)
	}
	return all
}

// saveRecords writes changed records. It runs before the transaction ends, and before a
// statement that selects several records.
func (t *transaction) saveRecords() {
	var changed [len(upserts)][]*recordRow
	for _, r := range t.records {
		if r == nil || r.edited {
			continue
		}
		if r.historyBegun && r.blank() { // gives the history a record: a history without one would count as removed
			_, st := t.status(r.key)
			t.putStatus(r, st, "")
		}
		r.rowRemoved = r.rowRemoved && !r.dirty
		if (r.blank() || r.rowRemoved) && r.stored {
			t.run(`DELETE FROM record`+ofKey, r.key)
			r.stored = false
		} else if !r.blank() && r.dirty {
			r.findings = findingsOf(&r.Status)
			t.store.filter.add(r.key)
			changed[count(r.decided)] = append(changed[count(r.decided)], r)
			r.stored = true
		}
		r.touched, r.dirty, r.decided = r.touched || r.dirty, false, false
	}
	var f fields // reused for each row, like args
	var args []any
	for decided, left := range changed {
		slices.SortFunc(left, func(a, b *recordRow) int {
			return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
		})
		for len(left) > 0 {
			n, text := 1, upserts[decided].one
			if t.store.dialect == postgresDialect && len(left) >= bulkRows {
				n, text = bulkRows, upserts[decided].bulk
			}
			args = args[:0]
			for _, r := range left[:n] {
				f = r.fields()
				args = f.append(args, t.store.opt.Vault)
			}
			t.run(text, args...)
			left = left[n:]
		}
	}
}

// account identifies an author whose memories are counted.
type account struct{ tenant, actor string }

// putCounts writes the numbers of memories that authors added.
func putCounts(t *transaction) {
	// All processes use the same order: two that wait for each other's rows would deadlock.
	for _, who := range slices.SortedFunc(maps.Keys(t.counted), func(a, b account) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.actor, b.actor))
	}) {
		changeTrack(t, who, func(of *memproxy.Track) { of.Facts += t.counted[who] })
	}
}
