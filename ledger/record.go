package ledger

import (
	"context"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Lookup returns what is known of objects, by key. One of which nothing is
// recorded is absent, unless its backend was sealed without it; tombstones are
// there, with Owner.Deleted set. Any number of objects may be asked for. What
// was put before is found. An error means that nothing is known.
func (l *Ledger) Lookup(ctx context.Context, keys ...memproxy.MemoryKey) (map[memproxy.MemoryKey]memproxy.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// What Put refuses is not there. An error instead would let one odd id in an
	// answer hide what is known of all the others.
	if slices.ContainsFunc(keys, unstorable) {
		keys = slices.DeleteFunc(slices.Clone(keys), unstorable)
	}
	if l.coming.any(keys) {
		if err := l.Sync(ctx); err != nil {
			return nil, err
		}
	}
	found := make(map[memproxy.MemoryKey]memproxy.Record, len(keys))
	ask, moment := l.recent.get(found, keys)
	if len(ask) == 0 {
		return found, l.alive()
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	had := make(map[memproxy.MemoryKey]memproxy.Record, len(ask))
	for some := range slices.Chunk(ask, chunk) {
		if err := l.ask(ctx, had, some); err != nil {
			return nil, l.wrap("look up records", err)
		}
	}
	l.recent.fill(moment, ask, had)
	for k, rec := range had {
		if put := found[k]; put.Owned() { // and on its way to the store
			rec = owned(rec, &put.Owner)
		}
		found[k] = rec
	}
	return found, nil
}

func unstorable(k memproxy.MemoryKey) bool {
	return k.ID == "" || storable(k.ID) != nil || storable(k.Backend) != nil || storable(string(k.Kind)) != nil
}

// recordQuery asks for records by a list of keys, of which each is a list of
// three. What a table does not have is empty.
func recordQuery() string {
	joined := func(table, columns string) string {
		list := strings.Split(columns, ", ")
		for i, column := range list {
			none := "''"
			switch column {
			case "confidence", "written", "deleted", "changed", "contested", "pinned", "expires":
				none = "0"
			}
			list[i] = "coalesce(" + table + "." + column + ", " + none + ")"
		}
		return strings.Join(list, ", ")
	}
	const on = `.backend = k.backend AND %.kind = k.kind AND %.id = k.id`
	join := func(table, as string) string {
		return ` LEFT JOIN ` + table + ` AS ` + as + ` ON ` + as + strings.ReplaceAll(on, "%", as)
	}
	return `SELECT k.backend, k.kind, k.id, ` + joined("o", columns) + `, ` + joined("s", statusColumns) + `, f.id IS NOT NULL, coalesce(f.sha256, ''), sealed.backend IS NOT NULL
		FROM (SELECT value->>0 AS backend, value->>1 AS kind, value->>2 AS id FROM json_each(?)) AS k` +
		join("ownership", "o") + join("standing", "s") + join("found", "f") + ` AND o.id IS NULL LEFT JOIN sealed ON sealed.backend = k.backend
		WHERE coalesce(o.id, s.id, f.id, sealed.backend) IS NOT NULL`
}

// ask puts into had what the store has of objects.
func (l *Ledger) ask(ctx context.Context, had map[memproxy.MemoryKey]memproxy.Record, keys []memproxy.MemoryKey) error {
	list := make([][3]string, len(keys))
	for i, k := range keys {
		list[i] = [3]string{k.Backend, string(k.Kind), k.ID}
	}
	rows, err := l.records.QueryContext(ctx, asJSON(list))
	if err != nil {
		return err
	}
	defer rows.Close()
	var k memproxy.MemoryKey
	var owner ownerRow
	var status statusRow
	var first string
	var listed, sealed bool
	to := []any{&k.Backend, &k.Kind, &k.ID}
	to = append(append(append(to, owner.into()...), status.into()...), &listed, &first, &sealed)
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		rec := memproxy.Record{Owner: owner.owner(), Status: status.Status}
		if rec.Rated() {
			if rec.Status, err = status.status(); err != nil {
				return err
			}
		}
		switch {
		case rec.Owned():
		case listed:
			rec.Listing, rec.FirstSeen = memproxy.Listed, first
		case sealed:
			rec.Listing = memproxy.Unlisted
		}
		had[k] = rec
	}
	return rows.Err()
}
