package keys_test

import (
	"bytes"
	"crypto/rand"
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
	v := must.Get(keys.NewVault(keys.Set{Signing: k}, rand.Reader))(f)
	f.Fuzz(func(t *testing.T, ref, tenant string, plain, wrapped, body []byte, key string) {
		e := must.Get(v.Seal(ref, tenant, plain))(t)
		must.Equal(t, string(must.Get(v.Open(ref, tenant, e))(t)), string(plain))
		for name, bad := range map[string]keys.Envelope{
			"wrapped": {e.Key, wrapped, e.Body}, "body": {e.Key, e.Wrapped, body},
			"all": {v.Current(), wrapped, body}, "key": {key, e.Wrapped, e.Body},
		} {
			if name == "key" && key == e.Key {
				continue
			}
			must.Error(t, expect.Err(v.Open(ref, tenant, bad)), "another", name, "opens")
		}
		must.Error(t, expect.Err(v.Open(ref+"x", tenant, e)), "it opens under another name")
		must.Error(t, expect.Err(v.Open(ref, tenant+"x", e)), "it opens for another tenant")
	})
}
