// Claims, headers, ids and key sets are read as they are, without the tokens, requests and
// certificates that bear them: so these are in the slow ring, where the package is compiled once
// more for them.

//go:build slow

package identity

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

// FuzzClaims: the principal of any token has a name, at most the configured tier, and
// no limit that the token did not state.
func FuzzClaims(f *testing.F) {
	for _, s := range []string{
		`{"sub":"42","org":"acme"}`, `{"sub":"42","org":"acme","tier":"system","kind":"human","agents":["*"],"users":"alice","groups":["a","b"]}`,
		`{"sub":null,"org":[]}`, `{"sub":"a\u0000","org":"x"}`, `{"sub":"a","org":"b","tier":7}`, `{"SUB":"a"}`, `{"sub":"a","sub":"b","org":"c"}`, `[]`, `{`,
	} {
		f.Add([]byte(s))
	}
	o := OIDCOptions{
		Prefix: "oidc:", Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, MaxTrust: memproxy.TrustEstablished,
		Claims: Claims{ID: "sub", Tenant: "org", Roles: "groups", Kind: "kind", Trust: "tier", ActsAs: "agents", Users: "users"},
	}
	f.Fuzz(func(t *testing.T, claims []byte) {
		var raw map[string]json.RawMessage
		if json.Unmarshal(claims, &raw) != nil {
			return
		}
		p, err := o.principalOf(raw)
		if err != nil {
			must.Equal(t, p.ID, "", "a principal beside an error", p)
			return
		}
		tier := slices.Index(memproxy.Trusts[:], p.Trust)
		switch {
		case len(p.ID) <= len("oidc:") || !strings.HasPrefix(p.ID, "oidc:") || strings.ContainsFunc(p.ID, unicode.IsControl):
			t.Fatalf("named %q", p.ID)
		case p.Tenant == "":
			t.Fatal("without a tenant")
		case tier < 0 || tier > slices.Index(memproxy.Trusts[:], memproxy.TrustEstablished):
			t.Fatalf("tier %q", p.Trust)
		case p.Kind != memproxy.KindAgent && p.Kind != memproxy.KindHuman && p.Kind != memproxy.KindService:
			t.Fatalf("kind %q", p.Kind)
		case !has(raw, "agents") && (p.ActsAs.All || len(p.ActsAs.Values) > 0), !has(raw, "users") && (p.Users.All || len(p.Users.Values) > 0):
			t.Fatalf("limits from nowhere: %+v", p)
		case (p.ActsAs.All || p.Users.All) && !strings.Contains(string(claims), "*") && !strings.Contains(string(claims), `\u002`):
			t.Fatalf("everything, and no star: %+v", p)
		case !p.Apps.All || !p.Runs.All:
			t.Fatalf("limited where nothing is configured: %+v", p)
		}
	})
}

// FuzzHeaders: no header yields an empty or oversized credential, errors quote nothing,
// and a repeated value counts once.
func FuzzHeaders(f *testing.F) {
	for _, s := range []string{"", "Bearer x", "Token x", "bearer  x ", "Bearer", "Bearer ", "x", "Basic eDp4", "Bearer\tx", "Bearer x, Bearer y", "\x00"} {
		f.Add(s, s)
		f.Add(s, "Bearer other-secret")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Memproxy-Token", "Proxy-Authorization"} {
			own, ownErr := ownToken(memproxy.Header{name: {a, b}})
			keys, keysErr := backendKeys(memproxy.Header{name: {a, b}})
			if ownErr == nil && len(own) > maxToken || ownErr != nil && own != "" || keysErr != nil && keys != nil {
				t.Fatalf("%s: %q %v, %q %v", name, own, ownErr, keys, keysErr)
			}
			for _, k := range keys {
				if k == "" || len(k) > maxToken || !strings.Contains(a, k) {
					t.Fatalf("%s: key %q of %q", name, k, a)
				}
			}
			if a != b && len(keys) > 0 {
				t.Fatalf("%s: %q and %q were read as one", name, a, b)
			}
			for _, err := range []error{ownErr, keysErr} {
				if err != nil && len(a) > 12 && strings.Contains(err.Error(), a) {
					t.Fatalf("%s: the error quotes %q", name, a)
				}
			}
			once, onceErr := ownToken(memproxy.Header{name: {a}})
			twice, twiceErr := ownToken(memproxy.Header{name: {a, a}})
			must.Equal(t, once, twice, name, a)
			must.Equal(t, onceErr == nil, twiceErr == nil, name, a, onceErr, twiceErr)
		}
	})
}

// FuzzSPIFFE: only ids of the trust domain are accepted.
func FuzzSPIFFE(f *testing.F) {
	for _, s := range []string{"spiffe://example.org/a", "spiffe://example.org", "spiffe://example.org/", "SPIFFE://example.org/a", "spiffe://example.org/a/../b", "spiffe://example.org.evil/a", "https://example.org/a", "spiffe://example.org/%61", "spiffe://example.org/.0", ""} {
		f.Add(s)
	}
	s := must.Get(NewSPIFFE("example.org", nil))(f)
	f.Fuzz(func(t *testing.T, uri string) {
		p, err := s.principal([]string{uri})
		if err == nil && (p.ID != uri || uri != "spiffe://example.org" && !strings.HasPrefix(uri, "spiffe://example.org/") || strings.ContainsAny(uri, "?#%@ \n") || strings.Contains(uri+"/", "/./") || strings.Contains(uri+"/", "/../") || len(uri) > maxSPIFFE) {
			t.Fatalf("%q is %+v", uri, p)
		}
	})
}

// says is a transport that returns one body for everything.
type says []byte

func (s says) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(s))), Request: r}, nil
}

// FuzzKeySet: whatever an issuer publishes, only public keys are kept.
func FuzzKeySet(f *testing.F) {
	for _, s := range []string{
		`{"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`,
		`{"keys":[{"kty":"oct","k":"c2VjcmV0"},{"kty":"RSA","n":"AQAB","e":"AQAB","use":"enc"}]}`, `{"keys":[null,{},[],"x"]}`, `{"keys":{}}`, `{}`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := newIssuer("https://i.example", &http.Client{Transport: says(body)}, time.Minute, time.Now, nil)
		keys, _, err := s.fetch(t.Context(), "https://i.example/keys")
		if (err == nil) != (len(keys) > 0) {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		for _, k := range keys {
			must.Equal(t, k.IsPublic(), true, "kept", k)
		}
		_, _, _ = s.fetch(t.Context(), "") // as a discovery document
	})
}
