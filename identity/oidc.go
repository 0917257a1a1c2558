package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cache"
)

// Bounds of a verifier of tokens.
const (
	DefaultOIDCTimeout = 3 * time.Second
	DefaultOIDCCache   = 4096
)

// Claims are the names of the claims from which a principal is made. A claim without a
// name is not read.
type Claims struct {
	ID, Tenant, Roles, Kind, Trust string
	ActsAs, Users, Apps, Runs      string
}

// OIDCOptions configure token verification (OpenID Connect Core 1.0, 3.1.3.7). Client and
// Bearer may be nil, and Prefix, Claims and Rules empty. A Bearer needs an https issuer.
type OIDCOptions struct {
	Issuer   string
	Audience string
	Claims   Claims
	// Prefix is prepended to the id claim: "oidc:" makes sub 42 the principal oidc:42.
	Prefix string
	// Kind and Trust are the defaults for tokens without these claims.
	Kind  memproxy.PrincipalKind
	Trust memproxy.Trust
	// MaxTrust is the highest trust that a token may claim.
	MaxTrust memproxy.Trust
	// Rules map subjects to principals. If there are any, a token whose subject matches
	// none is refused, and no claim but the id is read.
	Rules   []Rule
	Timeout time.Duration
	Clock   func() time.Time
	Client  *http.Client
	// Bearer returns the token for requests to the issuer, and is called for each
	// request; nil means that none is sent. The token is sent to the issuer and to the
	// URL of its keys.
	Bearer func() (string, error)
}

// OIDC verifies bearer tokens. NewOIDC does not contact the issuer, so that the proxy can
// start while it is unavailable.
type OIDC struct {
	opt    OIDCOptions
	issuer *issuer
	cache  cache.Cache[[sha256.Size]byte, cached]
}

type cached struct {
	principal memproxy.Principal
	until     time.Time
}

// algorithms lists the accepted signature algorithms. They are all asymmetric, so that a
// public key can never be used as a shared secret (algorithm confusion).
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

func (o OIDCOptions) ruleset() ruleset { return ruleset{o.Rules, ":", "oidc"} }

func (o OIDCOptions) couldIdentify(p memproxy.Principal) bool {
	subject, of := strings.CutPrefix(p.ID, o.Prefix)
	return len(o.Rules) == 0 && of || o.ruleset().couldIdentify(p, subject, of)
}

// NewOIDC returns a verifier.
func NewOIDC(opt OIDCOptions) *OIDC {
	opt.Claims.ID = cmp.Or(opt.Claims.ID, "sub")
	client := http.Client{}
	if opt.Client != nil {
		client = *opt.Client
	}
	client.Timeout = opt.Timeout
	client.CheckRedirect = secureRedirects
	return &OIDC{opt: opt, issuer: newIssuer(opt.Issuer, &client, opt.Timeout, opt.Clock, opt.Bearer), cache: cache.New[[sha256.Size]byte, cached](DefaultOIDCCache)}
}

// principal verifies a token. An invalid token is a *memproxy.CredentialError; any other
// error means that the issuer is unavailable.
func (o *OIDC) principal(ctx context.Context, token string) (memproxy.Principal, error) {
	sum := sha256.Sum256([]byte(token))
	now := o.opt.Clock()
	if c, ok := o.cache.Get(sum); ok {
		if elapsed(c.until, now) < 0 {
			return c.principal, nil
		}
		o.cache.Remove(sum)
	}
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return memproxy.Principal{}, errNotAccepted
	}
	// The issuer is asked for its keys only for a token that could be accepted.
	raw, end, err := o.opt.valid(jws.UnsafePayloadWithoutVerification(), now)
	if err != nil {
		return memproxy.Principal{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.opt.Timeout)
	defer cancel()
	if err := o.issuer.verify(ctx, jws); errors.Is(err, errSignature) {
		return memproxy.Principal{}, errNotAccepted
	} else if err != nil {
		return memproxy.Principal{}, err
	}
	p, err := o.opt.principalOf(raw)
	if err != nil {
		return memproxy.Principal{}, err
	}
	until := now.Add(freshTime) // a verified token is cached for a limited time, so that a revoked key stops working
	if end < float64(until.Unix()) {
		until = time.Unix(int64(end), 0)
	}
	o.cache.Add(sum, cached{p, until})
	return p, nil
}

var errNotAccepted = rejected("the token was not accepted")

// valid reads the claims of a token whose signature is verified afterwards, and checks
// that it is meant for memproxy and valid now; end is when it expires. Claims are read by
// their exact names and occur once: encoding/json would take "AUD" for the audience too,
// and an issuer may let its users name claims.
func (o *OIDCOptions) valid(payload []byte, now time.Time) (raw map[string]json.RawMessage, end float64, err error) {
	if jsonv2.Unmarshal(payload, &raw) != nil {
		return nil, 0, rejected("the token's claims cannot be read")
	}
	if iss, _ := text(raw, "iss"); iss != o.Issuer || !slices.Contains(list(raw, "aud"), o.Audience) {
		return nil, 0, errNotAccepted
	}
	end, ok := seconds(raw["exp"])
	switch {
	case !ok:
		return nil, 0, rejected("the token has no expiry time")
	case end <= float64(now.Unix()):
		return nil, 0, rejected("the token has expired")
	}
	if begin, ok := seconds(raw["nbf"]); raw["nbf"] != nil && (!ok || begin > float64(now.Add(leeway).Unix())) {
		return nil, 0, rejected("the token is not valid yet")
	}
	return raw, end, nil
}

// leeway is the allowed difference between two clocks.
const leeway = time.Minute

// seconds reads a time in a token, which is a number (RFC 7519, section 2).
func seconds(claim json.RawMessage) (s float64, ok bool) {
	return s, claim != nil && string(claim) != "null" && json.Unmarshal(claim, &s) == nil
}
