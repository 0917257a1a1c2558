package keys_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger/keys"
)

// An envelope opens as what was sealed, under its name and tenant, or not at all.
func FuzzEnvelope(f *testing.F) {
	f.Add("hold/1", "acme", []byte("text"), []byte{}, []byte{}, "k")
	f.Add("a", "", []byte{}, bytes.Repeat([]byte{1}, 60), bytes.Repeat([]byte{2}, 40), "")
	k := must.Get(keys.New(bytes.Repeat([]byte{7}, keys.Size)))(f)
	v := must.Get(keys.NewVault(keys.Set{Signing: k}))(f)
	f.Fuzz(func(t *testing.T, ref, tenant string, plain, wrapped, body []byte, key string) {
		e := must.Get(v.Seal(ref, tenant, plain))(t)
		must.Equal(t, string(must.Get(v.Open(ref, tenant, e))(t)), string(plain))
		id, itemKey, text := e[:4], e[4:64], e[64:] // as keys.Vault.Seal says
		for name, bad := range map[string][]byte{
			"wrapped": slices.Concat(id, wrapped, text), "body": slices.Concat(id, itemKey, body),
			"all": slices.Concat(id, wrapped, body), "key": slices.Concat([]byte(key), itemKey, text),
		} {
			if bytes.Equal(bad, e) {
				continue
			}
			must.Error(t, expect.Err(v.Open(ref, tenant, bad)), "another", name, "opens")
		}
		must.Error(t, expect.Err(v.Open(ref+"x", tenant, e)), "it opens under another name")
		must.Error(t, expect.Err(v.Open(ref, tenant+"x", e)), "it opens for another tenant")
	})
}

// An entry of a log opens under the id of its key, its number and its text, and under no other.
func TestLogEntriesAreBound(t *testing.T) {
	v := must.Get(keys.NewVault(keys.Set{Signing: must.Get(keys.New(bytes.Repeat([]byte{7}, keys.Size)))(t)}))(t)
	id, sealed := v.Current(), v.SealEntry(1, []byte("text"))
	must.Equal(t, string(must.Get(v.OpenEntry(id, 1, sealed))(t)), "text")
	must.Error(t, expect.Err(v.OpenEntry(id, 2, sealed)), "it opens under another number")
	must.Error(t, expect.Err(v.OpenEntry(id, 1, sealed[1:])), "another text opens")
	for _, other := range []string{"", id[:6], id + "0", id + "00", id + "zz", strings.ToUpper(id)} {
		must.Error(t, expect.Err(v.OpenEntry(other, 1, sealed)), "it opens under", other)
	}
}
