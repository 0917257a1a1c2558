package redo_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger/redo"
)

// An entry of another version of memproxy, or one that is cut or longer than its fields, is
// refused. That Decode returns what Encode was given is shown by the ledger's tests, which
// compare the rows of entries with every member set.
func TestUnreadableEntries(t *testing.T) {
	whole := redo.Encode(&memproxy.Entry{
		Versions: []memproxy.Version{{Text: "text", Metadata: []byte("{}")}},
		States:   []memproxy.StateChange{{Findings: []memproxy.Finding{{Rule: "r"}}}},
		Owners:   []memproxy.Ownership{{ID: "m"}},
	})
	must.Get(redo.Decode(whole))(t)
	for n := range whole {
		if e, err := redo.Decode(whole[:n]); err == nil {
			t.Errorf("of %d of %d bytes: %+v", n, len(whole), e)
		}
	}
	newer := append([]byte{whole[0] + 1}, whole[1:]...)
	for _, form := range [][]byte{append(whole, 0), newer, []byte("{"), {whole[0], 255, 255, 255, 255, 127}} {
		_, err := redo.Decode(form)
		expect.Error(t, err, form[0])
	}
}

// Any bytes are an entry, or an error.
func FuzzDecode(f *testing.F) {
	f.Add(redo.Encode(&memproxy.Entry{Owners: []memproxy.Ownership{{ID: "m"}}, Renewed: []memproxy.Renewal{{Sooner: true}}}))
	f.Fuzz(func(t *testing.T, form []byte) {
		if e, err := redo.Decode(form); err == nil && form[0] != '{' {
			must.Get(redo.Decode(redo.Encode(e)))(t)
		}
	})
}
