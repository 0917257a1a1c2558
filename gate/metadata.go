package gate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

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
	there, err := besides(m.Metadata)
	return glimpseOf(adapter, row, m, there, err)
}

func glimpseOf(adapter any, row *memproxy.Ownership, m *memproxy.Memory, there []pair, err error) memproxy.Glimpse {
	return memproxy.Glimpse{
		MemoryKey: memproxy.MemoryKey{Backend: row.Backend, Kind: row.Kind, ID: row.ID},
		Decision:  row.Decision, SHA256: metadataHash(m.Metadata, mixedBy(adapter), there, err),
	}
}

// mixedBy tells the names that an adapter's backend mixes into metadata.
func mixedBy(adapter any) func(string) bool {
	if mixer, ok := adapter.(Mixer); ok {
		return mixer.Mixed
	}
	return func(string) bool { return false }
}

// metadataHash is the hash of metadata that was taken apart, or could not be.
func metadataHash(raw []byte, mixed func(string) bool, there []pair, err error) string {
	kept := make([]pair, 0, len(there))
	plain := true // names that stand for themselves, in an order that is that of their bytes
	for _, p := range there {
		if !mixed(p.name) {
			kept = append(kept, p)
			plain = plain && !strings.ContainsFunc(p.name, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
		}
	}
	if errors.Is(err, errNoObject) || err == nil && len(kept) == 0 {
		return memproxy.NoMetadata // none, null and nothing but ours are one
	}
	slices.SortFunc(kept, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	out := append(make(jsontext.Value, 0, len(raw)), '{')
	for i, p := range kept {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, p.name) // it was decoded just now
		out = append(append(out, ':'), p.value...)
	}
	if out = append(out, '}'); err != nil || !plain && out.Canonicalize() != nil {
		out = loose(raw, mixed)
	}
	sum := sha256.Sum256(out)
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
	_ = (*jsontext.Value)(&plain).Canonicalize() // left as it is when what is inside is loose too
	return plain
}

// glimpse compares the metadata in an answer with what it was when it was
// first seen after its write, and keeps it where it was not seen yet.
func (ret *returning) glimpse(ctx context.Context) map[memproxy.MemoryKey]bool {
	differ := map[memproxy.MemoryKey]bool{}
	var fresh []memproxy.Glimpse
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		row, known := ret.known[kindOf(m)][m.ID]
		// An answer without metadata says nothing of it: some routes leave it out.
		if m.Drop || m.Missing || !known || row.Deleted || len(m.Metadata) == 0 {
			continue
		}
		there, err := ret.beside(m)
		switch g := glimpseOf(ret.call.Backend.Adapter, &row, m, there, err); row.Seen {
		case g.SHA256:
		case "":
			fresh = append(fresh, g)
		default:
			differ[g.MemoryKey] = true
		}
	}
	if len(fresh) > 0 {
		ret.g.opt.Later(fresh[0].ID, func() {
			_, _ = ret.g.opt.Ledger.Glimpse(context.WithoutCancel(ctx), fresh...) // if it fails, the next read does it
		})
	}
	return differ
}
