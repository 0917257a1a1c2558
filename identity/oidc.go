package identity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memproxy/memproxy"
)

// Defaults of OIDCOptions.
const (
	DefaultOIDCTimeout = 3 * time.Second
	DefaultOIDCCache   = 4096
	// quietTime is how long the issuer is left alone after a refresh of its
	// keys or a failure, so that hostile tokens cannot make us hammer it.
	quietTime = 10 * time.Second
)

// Claims names the token's claims that say who somebody is. Empty names are
// not read.
type Claims struct {
	ID, Tenant, Roles, Kind, Trust string
	ActsAs, Users, Apps, Runs      string
}

// OIDCOptions configure token verification (OpenID Connect Core 1.0, 3.1.3.7).
type OIDCOptions struct {
	Issuer   string
	Audience string
	Claims   Claims
	// Prefix is put before the id claim: "oidc:" makes sub 42 the principal oidc:42.
	Prefix string
	// Kind and Trust are those of principals whose token does not say.
	Kind  memproxy.PrincipalKind
	Trust memproxy.Trust
	// MaxTrust caps what a token may say of its own trust.
	MaxTrust memproxy.Trust
	Timeout  time.Duration
	Clock    func() time.Time
	Client   *http.Client
}

// OIDC verifies bearer tokens. Discovery happens at the first token and not at
// the start, so that an issuer that is away does not keep the proxy down.
type OIDC struct {
	opt   OIDCOptions
	cache *lru.Cache[[sha256.Size]byte, cached]

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
	failed   time.Time // the last failed discovery
}

type cached struct {
	principal memproxy.Principal
	expires   time.Time
}

// algorithms are those that a token may be signed with: asymmetric ones only,
// so that a public key never serves as a shared secret.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// NewOIDC returns a verifier.
func NewOIDC(opt OIDCOptions) (*OIDC, error) {
	if opt.Issuer == "" || opt.Audience == "" || opt.Clock == nil {
		return nil, errors.New("identity: OIDC needs an issuer, an audience and a clock")
	}
	if opt.Timeout <= 0 {
		opt.Timeout = DefaultOIDCTimeout
	}
	if opt.Claims.ID == "" {
		opt.Claims.ID = "sub"
	}
	if opt.Kind == "" {
		opt.Kind = memproxy.KindAgent
	}
	if opt.Trust == "" {
		opt.Trust = memproxy.TrustAuthenticated
	}
	if opt.MaxTrust == "" {
		opt.MaxTrust = memproxy.TrustHuman
	}
	client := http.Client{}
	if opt.Client != nil {
		client = *opt.Client
	}
	client.Timeout = opt.Timeout
	base := client.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	client.Transport = &calm{base: base, clock: opt.Clock, last: map[string]visit{}}
	opt.Client = &client
	c, err := lru.New[[sha256.Size]byte, cached](DefaultOIDCCache)
	if err != nil {
		return nil, err
	}
	return &OIDC{opt: opt, cache: c}, nil
}

// principal verifies a token. A bad one is a *memproxy.Rejected; an issuer
// that cannot be asked is another error.
func (o *OIDC) principal(ctx context.Context, token string) (memproxy.Principal, error) {
	sum := sha256.Sum256([]byte(token))
	now := o.opt.Clock()
	if c, ok := o.cache.Get(sum); ok {
		if now.Before(c.expires) {
			return c.principal, nil
		}
		o.cache.Remove(sum)
	}
	ctx, cancel := context.WithTimeout(ctx, o.opt.Timeout)
	defer cancel()
	v, err := o.ready(ctx)
	if err != nil {
		return memproxy.Principal{}, err
	}
	t, err := v.Verify(oidc.ClientContext(ctx, o.opt.Client), token)
	if err != nil {
		var late *oidc.TokenExpiredError
		switch {
		case errors.As(err, &late):
			return memproxy.Principal{}, rejected("the token has expired")
		case ctx.Err() != nil:
			return memproxy.Principal{}, fmt.Errorf("identity: the issuer did not answer: %w", ctx.Err())
		}
		return memproxy.Principal{}, rejected("the token was not accepted")
	}
	var raw map[string]json.RawMessage
	if err := t.Claims(&raw); err != nil {
		return memproxy.Principal{}, rejected("the token's claims cannot be read")
	}
	if err := notBefore(raw, now); err != nil {
		return memproxy.Principal{}, err
	}
	p, err := o.opt.principalOf(raw)
	if err != nil {
		return memproxy.Principal{}, err
	}
	o.cache.Add(sum, cached{p, t.Expiry})
	return p, nil
}

// leeway is how far two clocks may differ.
const leeway = time.Minute

func notBefore(raw map[string]json.RawMessage, now time.Time) error {
	var nbf float64
	if r, ok := raw["nbf"]; ok {
		if err := json.Unmarshal(r, &nbf); err != nil || now.Add(leeway).Before(time.Unix(int64(nbf), 0)) {
			return rejected("the token is not valid yet")
		}
	}
	return nil
}

// ready discovers the issuer once, and after a failure not again at once.
func (o *OIDC) ready(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.verifier != nil {
		return o.verifier, nil
	}
	if now := o.opt.Clock(); !o.failed.IsZero() && now.Sub(o.failed) < time.Second {
		return nil, errors.New("identity: the issuer was away a moment ago")
	}
	// The provider keeps the client of this context for fetching keys later,
	// so it must not be one that ends with this request.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), o.opt.Client), o.opt.Issuer)
	if err != nil {
		o.failed = o.opt.Clock()
		return nil, fmt.Errorf("identity: discovery: %w", err)
	}
	o.verifier = provider.Verifier(&oidc.Config{ClientID: o.opt.Audience, SupportedSigningAlgs: algorithms, Now: o.opt.Clock})
	return o.verifier, nil
}
