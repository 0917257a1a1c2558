package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
)

// A Mixer is an Adapter whose backend shows fields of its own among a memory's
// metadata in some answers, and beside it in others.
type Mixer interface {
	// Mixed reports whether a name may be such a field's.
	Mixed(name string) bool
}

// GlimpseOf is a memory's metadata as it is compared: without the proxy's own
// keys, which their signature speaks for, and without what the backend mixes
// in; and in canonical form, because backends write it in any order. Row is
// what the ledger knows of the memory.
func GlimpseOf(adapter any, row *memproxy.Ownership, m *memproxy.Memory) memproxy.Glimpse {
	mixed := func(string) bool { return false }
	if mixer, ok := adapter.(Mixer); ok {
		mixed = mixer.Mixed
	}
	return memproxy.Glimpse{
		MemoryKey: memproxy.MemoryKey{Backend: row.Backend, Kind: row.Kind, ID: row.ID},
		Decision:  row.Decision, SHA256: metadataHash(m.Metadata, mixed),
	}
}

func metadataHash(raw []byte, mixed func(string) bool) string {
	plain := append(make(jsontext.Value, 0, len(raw)), '{')
	err := members(raw, func(name string, value jsontext.Value) (err error) {
		if mixed(name) {
			return nil
		}
		if len(plain) > 1 {
			plain = append(plain, ',')
		}
		plain, err = jsontext.AppendQuote(plain, name)
		plain = append(append(plain, ':'), value...)
		return err
	})
	if errors.Is(err, errNoObject) || err == nil && len(plain) == 1 {
		return "" // none, null and nothing but ours are one
	}
	if plain = append(plain, '}'); err != nil || plain.Canonicalize() != nil {
		plain = loose(raw, mixed)
	}
	sum := sha256.Sum256(plain)
	return hex.EncodeToString(sum[:])
}

// loose is metadata that two readers may read differently, as one of them does.
func loose(raw []byte, mixed func(string) bool) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return raw
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return mixed(name) || memproxy.Reserved(name) })
	plain, err := json.Marshal(all)
	if err != nil {
		return raw
	}
	return plain
}

// glimpse compares the metadata in an answer with what it was when it was
// first seen after its write, and keeps it where it was not seen yet.
func (ret *returning) glimpse(ctx context.Context) map[memproxy.MemoryKey]bool {
	custodian, ok := ret.g.opt.Ledger.(Custodian)
	if !ok {
		return nil
	}
	seen := map[memproxy.TargetKind]map[string]memproxy.Glimpse{}
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		row, known := ret.known[kindOf(m)][m.ID]
		// An answer without metadata says nothing of it: some routes leave it out.
		if m.Drop || m.Missing || !known || row.Deleted || len(m.Metadata) == 0 {
			continue
		}
		if seen[kindOf(m)] == nil {
			seen[kindOf(m)] = map[string]memproxy.Glimpse{}
		}
		seen[kindOf(m)][m.ID] = GlimpseOf(ret.call.Backend.Adapter, &row, m)
	}
	differ := map[memproxy.MemoryKey]bool{}
	var fresh []memproxy.Glimpse
	for kind, now := range seen {
		ids := make([]string, 0, len(now))
		for id := range now {
			ids = append(ids, id)
		}
		before, err := custodian.Glimpses(ctx, ret.op.Backend, kind, ids)
		if err != nil {
			ret.g.opt.Meter.LedgerFailed(ctx)
			continue
		}
		for id, g := range now {
			switch was, known := before[id]; {
			case !known || was.Decision != g.Decision:
				fresh = append(fresh, g)
			case was.SHA256 != g.SHA256:
				differ[g.MemoryKey] = true
			}
		}
	}
	if len(fresh) > 0 {
		ret.g.opt.Later(fresh[0].ID, func() {
			if _, err := custodian.Glimpse(context.WithoutCancel(ctx), fresh...); err != nil {
				ret.g.opt.Meter.LedgerFailed(ctx)
			}
		})
	}
	return differ
}
