package query

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

type reader struct {
	dir   verify.Dir
	f     Filter
	hints [][]byte
	each  func(*verify.Record) error
	next  uint64 // index after the last record that was read
	tip   []byte // that record
	seen  bool   // a bundle with records was read
	empty *int64 // a later bundle without records
}

func newReader(dir string, f Filter, each func(*verify.Record) error) *reader {
	return &reader{dir: verify.Dir(dir), f: f, hints: f.hints(), each: each}
}

// Query passes the selected records to each, in order. It stops at the first error of
// each, of ctx, or of a record that cannot be read.
func Query(ctx context.Context, dir string, f Filter, each func(*verify.Record) error) error {
	return newReader(dir, f, each).query(ctx)
}

// ErrUnknownName means that no record has a name of a query. Without it a misspelled name
// would look like an empty result.
var ErrUnknownName = errors.New("no record")

// ErrLastRange means that a query asked for fewer than 0 or more than MaxLast of the last
// records.
var ErrLastRange = fmt.Errorf("the number of last records must be from 0 to %d", MaxLast)

// CheckNames returns an error if a backend, principal, agent, tenant, user, session or field
// of a filter is in no record in dir, because these have no fixed set of names. The error
// wraps ErrUnknownName and lists names in the log. A log without any such name is not an
// error.
func CheckNames(ctx context.Context, dir string, f Filter) error {
	known, found := map[string]bool{}, map[string]map[string]bool{}
	err := Query(ctx, dir, Filter{}, func(r *verify.Record) error {
		for _, d := range dimensions(&f, r) {
			known[d.name] = known[d.name] || d.only.Match(r)
			if found[d.name] == nil {
				found[d.name] = map[string]bool{}
			}
			for _, name := range d.names {
				if name != "" && len(found[d.name]) < maxNamed {
					found[d.name][name] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, d := range dimensions(&f, &verify.Record{}) {
		if names := found[d.name]; !known[d.name] && len(names) > 0 {
			return fmt.Errorf("%w names the %s %q; they name: %s", ErrUnknownName, d.name, d.value, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
		}
	}
	return nil
}

// maxNamed bounds the names that an error lists.
const maxNamed = 100

// dimension is a part of a filter that has no fixed set of names.
type dimension struct {
	name, value string
	only        Filter   // selects the records with the name, whatever else they have; all if the filter names none
	names       []string // those of a record
}

func dimensions(f *Filter, r *verify.Record) []dimension {
	p, op := cmp.Or(r.Principal, &verify.Principal{}), cmp.Or(r.Operation, &verify.Operation{})
	fields := slices.Clone(op.Fields)
	for _, v := range r.Versions {
		fields = append(fields, v.Field)
	}
	return []dimension{
		{"backend", f.Backend, Filter{Backend: f.Backend}, []string{op.Backend}},
		{"principal", f.Principal, Filter{Principal: f.Principal}, []string{p.ID}},
		{"agent", f.Agent, Filter{Agent: f.Agent}, []string{p.ID, op.Scope.Agent}},
		{"tenant", f.Tenant, Filter{Tenant: f.Tenant}, []string{p.Tenant, op.Scope.Tenant}},
		{"user", f.User, Filter{User: f.User}, []string{op.Scope.User}},
		{"session", f.Session, Filter{Session: f.Session}, []string{r.Session}},
		{"field", f.Field, Filter{Field: f.Field}, fields},
	}
}

func (r *reader) query(ctx context.Context) error {
	if r.f.Last < 0 || r.f.Last > MaxLast {
		return ErrLastRange
	}
	from, to, err := r.dir.Bundles()
	if err != nil {
		return err
	}
	if r.f.Last > 0 {
		return r.last(ctx, from, to)
	}
	if !r.f.Since.IsZero() {
		from = r.since(from, to)
	}
	for n := from; n < to; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		found, err := r.bundle(n, 0)
		if err != nil {
			return err
		}
		if err := r.emit(found); err != nil || r.past(n) {
			return err
		}
	}
	return nil
}

func (r *reader) emit(found []*verify.Record) error {
	for _, rec := range found {
		if err := r.each(rec); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) bundle(n int64, from uint64) (found []*verify.Record, err error) {
	raws, err := r.dir.Records(n)
	if err != nil {
		return nil, err
	}
	first := uint64(n) * 256
	switch {
	case len(raws) > 0 && r.empty != nil && *r.empty != n:
		return nil, fmt.Errorf("records %d to %d: %w", *r.empty*256, *r.empty*256+255, verify.ErrGap)
	case len(raws) > 0: // r.empty is nil, or this bundle, which has been filled meanwhile
		r.seen, r.empty = true, nil
		if end := first + uint64(len(raws)); end > r.next {
			r.next, r.tip = end, bytes.Clone(raws[len(raws)-1])
		}
	case r.seen:
		r.empty = &n
	}
	for i, raw := range raws {
		missing := func(hint []byte) bool { return !bytes.Contains(raw, hint) }
		if first+uint64(i) < from || slices.ContainsFunc(r.hints, missing) {
			continue
		}
		rec, err := verify.Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", first+uint64(i), err)
		}
		if r.f.Match(rec) {
			found = append(found, rec)
		}
	}
	return found, nil
}

// last reads backwards until it has enough records.
func (r *reader) last(ctx context.Context, from, to int64) error {
	var kept []*verify.Record // latest first
	for n := to - 1; n >= from && len(kept) < r.f.Last; n-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		found, err := r.bundle(n, 0)
		if err != nil {
			return err
		}
		slices.Reverse(found)
		kept = append(kept, found...)
	}
	kept = kept[:min(len(kept), r.f.Last)]
	slices.Reverse(kept)
	return r.emit(kept)
}

func (r *reader) firstTime(n int64) (time.Time, bool) {
	raws, err := r.dir.Records(n)
	if err != nil || len(raws) == 0 {
		return time.Time{}, false
	}
	rec, err := verify.Decode(raws[0])
	if err != nil {
		return time.Time{}, false
	}
	at, err := rec.At()
	return at, err == nil
}

// since finds the first bundle by binary search, because times of append never decrease. A
// bundle without a readable record counts as later: the last journal may be preallocated.
func (r *reader) since(from, to int64) int64 {
	k := sort.Search(int(to-from), func(k int) bool {
		at, ok := r.firstTime(from + int64(k))
		return !ok || !at.Before(r.f.Since)
	})
	return max(from, from+int64(k)-1)
}

func (r *reader) past(n int64) bool {
	if r.f.Until.IsZero() {
		return false
	}
	at, ok := r.firstTime(n + 1)
	return ok && !at.Before(r.f.Until)
}

// pollEvery is how often Tail looks for new records.
const pollEvery = 200 * time.Millisecond

// Tail passes the last n selected records to each and, with follow, further ones until
// ctx ends, which is not an error.
func Tail(ctx context.Context, dir string, f Filter, n int, follow bool, each func(*verify.Record) error) (err error) {
	f.Last = n
	r := newReader(dir, f, each)
	if n != 0 {
		err = r.query(ctx)
	} else if follow {
		err = r.skip()
	}
	if err != nil || !follow {
		return err
	}
	// The bundles that were read backwards are no gap before those that follow.
	r.seen, r.empty = false, nil
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		if err := r.checkLog(); err != nil {
			return err
		}
		if err := r.more(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		}
	}
}

// skip goes to the end of the log. The last journals may be empty: the next one is there
// before it is used.
func (r *reader) skip() error {
	from, to, err := r.dir.Bundles()
	for n := to - 1; err == nil && n >= from && r.next == 0; n-- {
		_, err = r.bundle(n, 1<<63) // reads no record, only sets next
	}
	return err
}

// checkLog looks whether the last record that was read is in its place. A log that replaced
// the one that was read, as after it was archived, is read from its first record on.
func (r *reader) checkLog() error {
	if r.next == 0 {
		return nil
	}
	last := r.next - 1
	raws, err := r.dir.Records(int64(last / 256))
	if k := last % 256; err != nil || k < uint64(len(raws)) && bytes.Equal(raws[k], r.tip) {
		return err
	}
	from, _, err := r.dir.Bundles()
	switch kept := uint64(from) * 256; {
	case errors.Is(err, fs.ErrNotExist): // there is none at present
		return nil
	case err != nil || len(raws) == 0 && r.next == kept: // what was read has been pruned
		return err
	case len(raws) == 0 && r.next < kept:
		return fmt.Errorf("records %d to %d: %w", r.next, kept-1, verify.ErrGap)
	}
	r.next, r.seen, r.empty = 0, false, nil
	return nil
}

func (r *reader) more() error {
	for {
		next := r.next
		found, err := r.bundle(int64(next/256), next)
		if err != nil {
			return err
		}
		if err := r.emit(found); err != nil || r.next <= next {
			return err
		}
	}
}
