package identity_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves TRL-1: only a token that the issuer signed for this audience and that is valid
// now identifies a caller.
func TestTokens(t *testing.T) {
	d := newDesk(t, nil)
	if p := d.accept(d.token()); p.ID != "oidc:42" || p.Kind != memproxy.KindAgent || p.Trust != memproxy.TrustAuthenticated {
		t.Errorf("%+v", p)
	}
	at := func(d2 time.Duration) int64 { return d.Now().Add(d2).Unix() }
	other := newKey(t, "k1") // the right key id, another key
	for _, c := range []struct {
		name string
		good bool
		tok  string
	}{
		{"audience among others", true, d.token("aud", []string{"x", "memproxy"})},
		{"another audience", false, d.token("aud", "mem0")},
		{"an audience that begins alike", false, d.token("aud", "memproxy2")},
		{"no audience", false, d.token("aud", nil)},
		{"another issuer", false, d.token("iss", "https://elsewhere.example")},
		{"an issuer with a slash", false, d.token("iss", d.server.URL+"/")},
		{"no issuer", false, d.token("iss", nil)},
		{"ends in a second", true, d.token("exp", at(time.Second))},
		{"ended", false, d.token("exp", at(-time.Second))},
		{"never ends", false, d.token("exp", nil)},
		{"ends with a word", false, d.token("exp", "tomorrow")},
		{"ends with a number in quotes", false, d.token("exp", fmt.Sprint(at(time.Hour)))},
		{"ends with null", false, d.token("exp", json.RawMessage("null"))},
		{"begins with a number in quotes", false, d.token("nbf", fmt.Sprint(at(-time.Hour)))},
		{"a name that occurs twice", false, signText(t, jose.ES256, d.key, bytes.Replace(must.Get(json.Marshal(d.claims()))(t), []byte(`"sub":"42"`), []byte(`"sub":"43","sub":"42"`), 1))},
		{"begins within the leeway", true, d.token("nbf", at(50*time.Second))},
		{"begins later", false, d.token("nbf", at(2*time.Minute))},
		{"begins with a word", false, d.token("nbf", "now")},
		{"begins after the last second that fits", false, d.token("nbf", 1e300)},
		{"nobody", false, d.token("sub", nil)},
		{"an empty name", false, d.token("sub", "")},
		{"a name that is a number", false, d.token("sub", 42)},
		{"the longest name", true, d.token("sub", strings.Repeat("a", 255))},
		{"a longer name", false, d.token("sub", strings.Repeat("a", 256))},
		{"a name of two lines", false, d.token("sub", "a\nlevel=error")},
		{"another key by the same name", false, sign(t, jose.ES256, other, d.claims())},
		{"no key id", true, sign(t, jose.ES256, d.key.Key, d.claims())},
		{"a changed payload", false, tamper(t, d.token())},
		{"a cut signature", false, d.token()[:len(d.token())-8]},
		{"not a token", false, "hunter2hunter2"},
		{"two dots", false, ".."},
		{"a token as JSON with two signatures", false, twice(t, d)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := d.present(c.tok)
			if c.good {
				must.Do(t, err, p)
				must.Equal(t, strings.HasPrefix(p.ID, "oidc:"), true, p)
				return
			}
			refused(t, err, memproxy.IdentityInvalid)
		})
	}
}

// What decides whether a token is accepted is read from the claims of these exact names:
// an issuer lets users choose the names of some claims, so "AUD" is not the audience, nor
// does it change the one that is there. Proves TRL-1.
func TestClaimsAreReadByTheirExactNames(t *testing.T) {
	d := newDesk(t, nil)
	for name, c := range map[string]struct {
		bad    any
		others []string
	}{
		"aud": {"mem0", []string{"AUD", "Aud"}},
		"iss": {"https://elsewhere.example", []string{"ISS", "i\u017f\u017f"}},
		"exp": {d.Now().Add(-time.Minute).Unix(), []string{"EXP", "Exp"}},
		"nbf": {d.Now().Add(time.Hour).Unix(), []string{"NBF", "Nbf"}},
	} {
		good := d.claims()[name]
		if name == "nbf" {
			good = d.Now().Unix()
		}
		for _, other := range c.others {
			alone := must.Get(json.Marshal(d.claims(name, nil, other, good)))(t)
			after := fmt.Appendf(nil, "%s,%s}", bytes.TrimSuffix(must.Get(json.Marshal(d.claims(name, c.bad)))(t), []byte("}")), member(t, other, good))
			before := fmt.Appendf(nil, "{%s,%s", member(t, other, good), bytes.TrimPrefix(must.Get(json.Marshal(d.claims(name, c.bad)))(t), []byte("{")))
			d.refuse(signText(t, jose.ES256, d.key, after))
			d.refuse(signText(t, jose.ES256, d.key, before))
			if name != "nbf" {
				d.refuse(signText(t, jose.ES256, d.key, alone))
			}
			d.accept(d.token(name, good, other, c.bad))
		}
	}
}

func member(t *testing.T, name string, value any) string {
	t.Helper()
	whole := must.Get(json.Marshal(map[string]any{name: value}))(t)
	return string(whole[1 : len(whole)-1])
}

// tamper changes a claim and keeps the signature.
func tamper(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	body := must.Get(base64.RawURLEncoding.DecodeString(parts[1]))(t)
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(body), `"sub":"42"`, `"sub":"1"`, 1)))
	return strings.Join(parts, ".")
}

// twice is a token in JSON form with two signatures: the issuer's and another.
func twice(t *testing.T, d *desk) string {
	t.Helper()
	s := must.Get(jose.NewMultiSigner([]jose.SigningKey{{Algorithm: jose.ES256, Key: d.key}, {Algorithm: jose.ES256, Key: newKey(t, "k2")}}, nil))(t)
	body, _ := json.Marshal(d.claims())
	jws := must.Get(s.Sign(body))(t)
	return jws.FullSerialize()
}

// Unsigned tokens, and the public key used as a shared secret, in the forms that
// libraries have accepted.
func TestAlgorithmConfusion(t *testing.T) {
	d := newDesk(t, nil)
	k := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	rs := jose.JSONWebKey{Key: k, KeyID: "rsa", Algorithm: "RS256"}
	weak := jose.JSONWebKey{Key: must.Get(rsa.GenerateKey(rand.Reader, 1024))(t), KeyID: "weak"}
	d.publish(d.key, rs, weak)
	d.raw = []any{map[string]any{"kty": "oct", "kid": "shared", "k": base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))}}
	d.accept(sign(t, jose.RS256, rs, d.claims()))
	d.refuse(sign(t, jose.RS256, weak, d.claims()))

	body, _ := json.Marshal(d.claims())
	for _, head := range []string{`{"alg":"none"}`, `{"alg":"None","kid":"rsa"}`, `{"alg":"","kid":"rsa"}`, `{"kid":"rsa"}`} {
		d.refuse(base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + base64.RawURLEncoding.EncodeToString(body) + ".")
	}
	der := must.Get(x509.MarshalPKIXPublicKey(&k.PublicKey))(t)
	public, _ := json.Marshal(rs.Public())
	for _, secret := range [][]byte{
		der, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), k.N.Bytes(), public, []byte(strings.Repeat("s", 32)),
	} {
		for _, kid := range []string{"rsa", "shared", ""} {
			d.refuse(sign(t, jose.HS256, jose.JSONWebKey{Key: secret, KeyID: kid}, d.claims()))
		}
	}
	// A key published for one algorithm is not accepted for another.
	d.refuse(sign(t, jose.PS256, jose.JSONWebKey{Key: k, KeyID: "rsa"}, d.claims()))
	// A key embedded in the token is not trusted.
	own := newKey(t, "k1")
	s := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: own.Key}, &jose.SignerOptions{EmbedJWK: true}))(t)
	jws := must.Get(s.Sign(body))(t)
	tok, _ := jws.CompactSerialize()
	d.refuse(tok)
}

// Proves TRL-1: claims become roles, tenant and limits; a missing claim allows nothing;
// a token cannot exceed the configured tier.
func TestClaims(t *testing.T) {
	all := func(o *identity.OIDCOptions) {
		o.Claims = identity.Claims{ID: "azp", Tenant: "org", Roles: "groups", Kind: "kind", Trust: "tier", ActsAs: "agents", Users: "users", Apps: "apps", Runs: "runs"}
		o.MaxTrust = memproxy.TrustEstablished
	}
	d := newDesk(t, all)
	base := []any{"azp", "ci", "org", "acme"}
	with := func(more ...any) string { return d.token(append(base[:len(base):len(base)], more...)...) }
	got := d.accept(with("groups", []string{"dev", "qa"}, "kind", "human", "tier", "system", "agents", []string{"a", "b"}, "users", "alice", "apps", []string{"*"}))
	expect.Deep(t, got, memproxy.Principal{
		ID: "oidc:ci", Kind: memproxy.KindHuman, Tenant: "acme", Roles: []string{"dev", "qa"}, Trust: memproxy.TrustEstablished, Method: "oidc",
		ActsAs: memproxy.Limit{Values: []string{"a", "b"}}, Users: memproxy.Limit{Values: []string{"alice"}}, Apps: memproxy.Limit{All: true, Values: []string{"*"}},
	})
	if p := d.accept(with("tier", "anonymous")); p.Trust != memproxy.TrustAnonymous || p.LimitIn(memproxy.DimUser).Allows("alice") || p.LimitIn(memproxy.DimAgent).Allows("a") {
		t.Errorf("claims that are absent allow: %+v", p)
	}
	if p := d.accept(with("users", []any{"alice", 7}, "groups", 7, "agents", map[string]any{"*": true})); p.Users.Allows("alice") || len(p.Roles) != 0 || p.ActsAs.Allows("*") {
		t.Errorf("claims that cannot be read allow: %+v", p)
	}
	for _, bad := range []string{
		d.token("azp", "ci"), d.token("azp", "ci", "org", ""), d.token("azp", "ci", "org", 7), d.token("azp", "ci", "org", "a\x00b"), d.token("org", "acme"),
		with("kind", "anonymous"), with("kind", "root"), with("kind", 1), with("tier", "god"), with("tier", 1000),
	} {
		d.refuse(bad)
	}
	// Claims that are not configured are ignored.
	plain := newDesk(t, nil)
	p := plain.accept(plain.token("org", "acme", "groups", []string{"admin"}, "tier", "system", "agents", []string{"*"}))
	if p.Tenant != "" || p.Roles != nil || p.Trust != memproxy.TrustAuthenticated || p.ActsAs.Allows("a") || !p.Users.Allows("alice") {
		t.Errorf("%+v", p)
	}
}

// A verified token is cached, but not beyond its expiry.
func TestVerifiedTokensAreRemembered(t *testing.T) {
	d := newDesk(t, nil)
	tok := d.token("exp", d.Now().Add(5*time.Minute).Unix())
	d.accept(tok)
	d.set("down")
	d.publish()
	d.Advance(5*time.Minute - time.Second)
	d.accept(tok)
	expect.Equal(t, d.requests("/keys"), 1, "the keys were fetched")
	d.set("")
	d.publish(d.key)
	d.Advance(time.Second + time.Nanosecond)
	d.refuse(tok)
}

// Concurrent callers with one token, and with many.
func TestManyCallersFetchOnce(t *testing.T) {
	d := newDesk(t, nil)
	tokens := make([]string, 16)
	for i := range tokens {
		tokens[i] = d.token("sub", fmt.Sprint(i))
	}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			p, err := d.id.Identify(context.Background(), memproxy.Credentials{Header: memproxy.Header{"Proxy-Authorization": {"Bearer " + tokens[i%16]}}})
			expect.OK(t, err, p)
			expect.Equal(t, p.ID, fmt.Sprintf("oidc:%d", i%16), p)
		})
	}
	wg.Wait()
	if n, m := d.requests("/keys"), d.requests("/.well-known/openid-configuration"); n != 1 || m != 1 {
		t.Errorf("%d and %d requests", n, m)
	}
}
