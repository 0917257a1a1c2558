package mem0_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
)

func FuzzLaws(f *testing.F) { adaptertest.Fuzz(f, adapter(f), own) }

// own reports whether a string belongs to the format and is no text of the client's.
func own(op *memproxy.Operation, ptr, text string) bool {
	switch {
	case strings.HasPrefix(ptr, "/filters"): // filters select and are not stored
	case slices.Contains(op.Targets, text) && (strings.HasSuffix(ptr, "memory_id") || ptr == "/memory_export_id"):
	case strings.HasPrefix(ptr, "/messages/") && strings.HasSuffix(ptr, "/role"):
	case strings.HasSuffix(ptr, "/type"): // the type of a part
	default:
		return false
	}
	return true
}
