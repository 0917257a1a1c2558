package panel

import (
	"crypto/sha256"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cache"
)

// DefaultCacheSize is how many judgements of one layer on one text are kept. What is
// read again and again is then judged once.
const DefaultCacheSize = 8192

// known keeps what the layers find that look at one text alone.
type known struct {
	found cache.Cache[[sha256.Size]byte, []memproxy.Finding] // nil: nothing is kept
}

func newKnown(size int) known {
	if size == 0 {
		size = DefaultCacheSize
	}
	if size < 0 {
		return known{}
	}
	return known{cache.New[[sha256.Size]byte, []memproxy.Finding](size)}
}

// in returns the findings of a layer, by its name and settings, in each text of an
// operation that is kept.
func (k known) in(op *memproxy.Operation, findings []memproxy.Finding, layer string, look func(text string) []memproxy.Finding) []memproxy.Finding {
	for i := range op.Items {
		it := &op.Items[i]
		if !judged(it) {
			continue
		}
		for _, f := range k.of(layer, it.Text, look) {
			f.Item = i
			findings = append(findings, f)
		}
	}
	return findings
}

func (k known) of(layer, text string, look func(text string) []memproxy.Finding) []memproxy.Finding {
	if k.found == nil {
		return look(text)
	}
	key := sha256.Sum256([]byte(layer + "\x00" + text))
	found, ok := k.found.Get(key)
	if !ok {
		found = look(text)
		k.found.Add(key, found)
	}
	return found
}
