package letta_test

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
	inJSON := ptr == "" // see TestImportString
	return inJSON || slices.Contains(op.Targets, text) || plain(text) && (strings.HasSuffix(ptr, "/role") || strings.HasSuffix(ptr, "/type"))
}

// plain reports whether a text is a name.
func plain(s string) bool {
	return len(s) <= 40 && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("_-.$0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", r)
	})
}

// A located object is the requested one, or has no owner.
func FuzzLocated(f *testing.F) {
	f.Add("block-1", 200, []byte(`{"id":"block-1","label":"human","limit":5,"metadata":{"a":1}}`))
	f.Add("agent-1/human", 200, []byte(`{"id":"block-1","label":"human"}`))
	f.Add("passage-1", 200, []byte(`[{"id":"passage-1","text":"t"}]`))
	f.Add("file-1", 404, []byte(`{"detail":"not found"}`))
	a := adapter(f)
	rt := memproxy.Route{ID: "letta.modify_block", Params: map[string]string{"agent_id": "agent-1"}}
	f.Fuzz(func(t *testing.T, target string, status int, body []byte) {
		m, err := a.ReadLocated(rt, target, memproxy.Reply{Status: status, Body: body})
		if err == nil && m.ID != "" && m.ID != target && !strings.Contains(target, "/") {
			t.Errorf("asked for %q and got %q", target, m.ID)
		}
	})
}
