package identity_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves TRL-1: any combination of credentials in one request, four kinds in each of
// five places, identifies one caller or is refused: known ones must agree, those for
// memproxy must be valid, and an unknown backend key is left to the backend unless a
// known one is in its other header and nothing else identifies the caller.
func TestCredentialsTogether(t *testing.T) {
	spiffe := must.Get(identity.NewSPIFFE("example.org", []identity.Rule{{Name: "/a", Principal: who("a")}, {Name: "/b", Principal: who("b")}}))(t)
	theirs := who("a") // the same name in another tenant is another caller
	theirs.Tenant = "globex"
	fallback := who("workload:any")
	id := must.Get(identity.New(identity.Options{
		Keys:   []identity.Key{{SHA256: hash("key-a"), Principal: who("a")}, {SHA256: hash("key-b"), Principal: who("b")}, {SHA256: hash("key-c"), Principal: theirs}},
		SPIFFE: spiffe, Default: &fallback,
	}))(t)
	kinds := []string{"", "key-a", "key-b", "key-c", "what"}
	uris := map[string]string{"key-a": "spiffe://example.org/a", "key-b": "spiffe://example.org/b", "key-c": "spiffe://example.org/a", "what": "spiffe://example.org/none"}
	seen := map[bool]int{}
	for n := range 5 * 5 * 5 * 5 * 5 {
		at := [5]string{kinds[n%5], kinds[n/5%5], kinds[n/25%5], kinds[n/125%5], kinds[n/625]}
		own, proxy, cert, api, auth := at[0], at[1], at[2], at[3], at[4]
		if cert == "key-c" {
			continue // no certificate is of the other tenant
		}
		c := memproxy.Credentials{Header: memproxy.Header{}}
		for name, value := range map[string]string{"X-Memproxy-Token": own, "Proxy-Authorization": proxy, "X-Api-Key": api, "Authorization": auth} {
			switch {
			case value == "":
			case name == "Authorization" || name == "Proxy-Authorization":
				c.Header[name] = []string{"Bearer " + value}
			default:
				c.Header[name] = []string{value}
			}
		}
		if cert != "" {
			c.PeerURIs = []string{uris[cert]}
		}

		// The rule of docs/identity.md.
		counts := map[string]bool{own: true, proxy: true, api: true, auth: true}
		if own == "" && proxy == "" {
			counts[cert] = true
		}
		delete(counts, "")
		bad := own == "what" || proxy == "what" || own == "" && proxy == "" && cert == "what"
		stray := own == "" && proxy == "" && cert == "" && (api == "what") != (auth == "what") && api != "" && auth != ""
		delete(counts, "what")
		want := ""
		switch known := slices.Collect(maps.Keys(counts)); {
		case bad, stray, len(known) > 1:
		case len(known) == 0:
			want = "workload:any"
		default:
			want = map[string]string{"key-a": "a", "key-b": "b", "key-c": "a"}[known[0]]
		}
		p, err := id.Identify(t.Context(), c)
		if want == "" {
			if err == nil {
				t.Errorf("%q is %s", at, p.ID)
			} else {
				refused(t, err, memproxy.IdentityInvalid)
			}
		} else if err != nil || p.ID != want || (p.Tenant == "globex") != counts["key-c"] {
			t.Errorf("%q is %s of %q (%v), want %s", at, p.ID, p.Tenant, err, want)
		}
		seen[want != ""]++
	}
	if seen[true] < 100 || seen[false] < 1000 {
		t.Errorf("%v: not much was tried", seen)
	}
}
