package identity_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// provider is an OpenID provider in the test's process.
type provider struct {
	t      *testing.T
	server *httptest.Server
	mu     sync.Mutex
	keys   []jose.JSONWebKey // as published
	raw    []any             // published in addition
	mode   string            // "", "down", "hang", "garbage", "foreign", "empty", "huge"
	asked  map[string]int
	free   chan struct{} // closed: hanging requests continue
	// hanging receives requests that arrived and hang.
	hanging chan struct{}
}

func newProvider(t *testing.T) *provider {
	p := &provider{t: t, asked: map[string]int{}, free: make(chan struct{}), hanging: make(chan struct{}, 100)}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		close(p.free)
		p.server.Close()
	})
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked[r.URL.Path]++
	mode, keys := p.mode, append([]any{}, p.raw...)
	for _, k := range p.keys {
		keys = append(keys, k.Public())
	}
	p.mu.Unlock()
	url := p.server.URL
	switch mode {
	case "down":
		http.Error(w, "no", http.StatusBadGateway)
		return
	case "hang":
		p.hanging <- struct{}{}
		select {
		case <-p.free:
		case <-r.Context().Done():
		}
		return
	case "garbage":
		fmt.Fprint(w, "<html>sign in</html>")
		return
	case "foreign":
		url = "https://elsewhere.example"
	case "empty":
		keys = []any{}
	case "huge":
		fmt.Fprint(w, `{"keys":[`, strings.Repeat(" ", 1<<20), `]}`)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": url, "jwks_uri": p.server.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"}})
	case "/keys":
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
	default:
		http.NotFound(w, r)
	}
}

func (p *provider) set(mode string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = mode
}

// publish replaces the published keys.
func (p *provider) publish(keys ...jose.JSONWebKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = keys
}

// requests counts the requests for a path.
func (p *provider) requests(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func newKey(t *testing.T, id string) jose.JSONWebKey {
	t.Helper()
	k := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return jose.JSONWebKey{Key: k, KeyID: id, Algorithm: "ES256", Use: "sig"}
}

// sign makes a token.
func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	return signText(t, alg, key, must.Get(json.Marshal(claims))(t))
}

func signText(t *testing.T, alg jose.SignatureAlgorithm, key any, body []byte) string {
	t.Helper()
	s := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT")))(t)
	jws := must.Get(s.Sign(body))(t)
	return must.Get(jws.CompactSerialize())(t)
}

// clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// desk identifies callers by a provider's tokens.
type desk struct {
	*clock
	*provider
	id  *identity.Identifier
	key jose.JSONWebKey
}

// newDesk returns a desk whose provider publishes one key. change may alter the
// options.
func newDesk(t *testing.T, change func(*identity.OIDCOptions)) *desk {
	t.Helper()
	d := &desk{clock: &clock{now: time.Date(2031, 3, 14, 12, 0, 0, 0, time.UTC)}, provider: newProvider(t), key: newKey(t, "k1")}
	d.publish(d.key)
	opt := d.options()
	if change != nil {
		change(&opt)
	}
	o := identity.NewOIDC(opt)
	d.id = must.Get(identity.New(identity.Options{OIDC: o}))(t)
	return d
}

// options are those that the configuration gives by default.
func (d *desk) options() identity.OIDCOptions {
	return identity.OIDCOptions{
		Issuer: d.server.URL, Audience: "memproxy", Prefix: "oidc:", Clock: d.Now, Timeout: ring.Limit,
		Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, MaxTrust: memproxy.TrustHuman,
	}
}

// claims of a valid token, with changes.
func (d *desk) claims(changes ...any) map[string]any {
	c := map[string]any{"iss": d.server.URL, "aud": "memproxy", "sub": "42", "iat": d.Now().Unix(), "exp": d.Now().Add(time.Hour).Unix()}
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == nil {
			delete(c, changes[i].(string))
		} else {
			c[changes[i].(string)] = changes[i+1]
		}
	}
	return c
}

func (d *desk) token(changes ...any) string {
	return sign(d.t, jose.ES256, d.key, d.claims(changes...))
}

func (d *desk) present(token string) (memproxy.Principal, error) {
	d.t.Helper()
	p, err := d.id.Identify(context.Background(), memproxy.Credentials{Header: memproxy.Header{"X-Memproxy-Token": {token}}})
	if err != nil {
		quiet(d.t, err, token)
		expect.Equal(d.t, p.ID, "", "a principal beside an error", p)
	}
	return p, err
}

// quiet fails if an error quotes a credential.
func quiet(t *testing.T, err error, secret string) {
	t.Helper()
	for _, part := range append(strings.Split(secret, "."), secret) {
		if len(part) > 8 && strings.Contains(err.Error(), part) {
			t.Errorf("the error quotes the credential: %v", err)
		}
	}
}

func (d *desk) accept(token string) memproxy.Principal {
	d.t.Helper()
	p, err := d.present(token)
	must.Do(d.t, err, p)
	must.Equal(d.t, p.Method, "oidc", p)
	return p
}

// refuse expects a rejection.
func (d *desk) refuse(token string) {
	d.t.Helper()
	_, err := d.present(token)
	refused(d.t, err, memproxy.IdentityInvalid)
}

func refused(t *testing.T, err error, code memproxy.ReasonCode) {
	t.Helper()
	var r *memproxy.CredentialError
	if !errors.As(err, &r) || r.Code != code {
		t.Fatalf("%v, want %s", err, code)
	}
}

// breakage expects an error that is not a rejection.
func (d *desk) breakage(token string) {
	d.t.Helper()
	_, err := d.present(token)
	var r *memproxy.CredentialError
	must.Error(d.t, err, "breakage")
	must.Equal(d.t, errors.As(err, &r), false, "breakage")
}
