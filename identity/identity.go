package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Key maps one secret to a principal. The secret is a backend API key or a bearer token;
// memproxy knows only its hash.
type Key struct {
	// SHA256 is the hash of the whole token, as presented after "Token ", "Bearer " or in
	// X-API-Key. No two keys have the same.
	SHA256    [sha256.Size]byte
	Principal memproxy.Principal
}

// Options configure an Identifier. At least one method of identification must be set.
type Options struct {
	Keys []Key
	// Default is the principal of callers without known credentials; nil refuses them. If
	// its kind is anonymous, each session has its own principal; see Identify.
	Default *memproxy.Principal
	// AnonymousKey is the secret with which the ids of anonymous sessions are made.
	// Processes that must agree on the ids need the same key.
	AnonymousKey []byte
	// OIDC verifies tokens in Proxy-Authorization or X-Memproxy-Token.
	OIDC *OIDC
	// SPIFFE maps verified client certificates.
	SPIFFE *SPIFFE
}

// Identifier implements the gate's interface. It is safe for concurrent use.
type Identifier struct {
	opt  Options
	keys map[[sha256.Size]byte]memproxy.Principal
}

// New returns an identifier.
func New(opt Options) (*Identifier, error) {
	id := &Identifier{opt: opt, keys: make(map[[sha256.Size]byte]memproxy.Principal, len(opt.Keys))}
	for _, k := range opt.Keys {
		k.Principal.Method = "key"
		id.keys[k.SHA256] = k.Principal
	}
	if len(id.keys) == 0 && opt.Default == nil && opt.OIDC == nil && opt.SPIFFE == nil {
		return nil, errors.New("identity: no caller can be identified: give keys, oidc or spiffe, or a default")
	}
	return id, nil
}

// maxToken is the maximum size of a token for memproxy in bytes.
const maxToken = 16 << 10

// Identify implements the gate's interface. It tries, in order, the credentials for
// memproxy (X-Memproxy-Token, Proxy-Authorization), the client certificate, the backend's
// own key, and the default. A credential for memproxy must be valid; an unknown backend
// key is left to the backend to check. All other known credentials must name the same
// caller. A default of kind anonymous has a separate id for each session at each address.
func (id *Identifier) Identify(ctx context.Context, c memproxy.Credentials) (memproxy.Principal, error) {
	p, err := id.identify(ctx, c)
	if err == nil && strings.HasPrefix(p.ID, memproxy.AnonymousPrefix) && p.Group == "" {
		return memproxy.Principal{}, rejected("ids that begin with " + memproxy.AnonymousPrefix + " are reserved for callers without a credential")
	}
	return p, err
}

func (id *Identifier) identify(ctx context.Context, c memproxy.Credentials) (memproxy.Principal, error) {
	token, err := ownToken(c.Header)
	if err != nil {
		return memproxy.Principal{}, err
	}
	keys, err := backendKeys(c.Header)
	if err != nil {
		return memproxy.Principal{}, err
	}
	var p memproxy.Principal
	switch {
	case token != "":
		p, err = id.token(ctx, token)
	case len(c.PeerURIs) > 0 && id.opt.SPIFFE != nil && c.PeerExpired:
		err = rejected("the client certificate has expired; connect again with a valid one")
	case len(c.PeerURIs) > 0 && id.opt.SPIFFE != nil:
		p, err = id.opt.SPIFFE.principal(c.PeerURIs)
	}
	if err != nil {
		return memproxy.Principal{}, err
	}
	toMemproxy, unknown := p.ID != "", 0 // p is named by a credential for memproxy
	for _, k := range keys {
		switch known, ok := id.lookup(k); {
		case !ok:
			unknown++
		case p.ID == "":
			p = known
		case known.ID != p.ID || known.Tenant != p.Tenant:
			return memproxy.Principal{}, rejected("the two credentials belong to different principals")
		}
	}
	switch {
	case p.ID == "":
	case unknown > 0 && !toMemproxy:
		return memproxy.Principal{}, rejected("one of two credentials is not known to memproxy; identity.keys lists the SHA-256 of those that are")
	default:
		return p, nil
	}
	if id.opt.Default == nil {
		if len(keys) > 0 {
			return memproxy.Principal{}, rejected("the API key is not known to memproxy; identity.keys lists the SHA-256 of those that are")
		}
		return memproxy.Principal{}, &memproxy.CredentialError{Code: memproxy.IdentityMissing, Detail: "a credential is required; identity says which are accepted"}
	}
	if fromWebPage(c) {
		return memproxy.Principal{}, &memproxy.CredentialError{Code: memproxy.IdentityMissing, Detail: "a web page may have sent this request, by its Origin, Sec-Fetch-Site or Host; it requires a credential"}
	}
	p = *id.opt.Default
	p.Method = "default"
	if p.Kind == memproxy.KindAnonymous {
		p = id.anonymous(p, c)
	}
	return p, nil
}

// StillValid reports whether a principal that was identified before could still be
// identified: its key is configured, a rule of its issuer or trust domain names it, or
// callers without credentials are served. Tokens and certificates for which no rules are
// configured are left to their issuer.
func (id *Identifier) StillValid(p memproxy.Principal) bool {
	switch p.Method {
	case "key":
		for _, known := range id.keys {
			if known.ID == p.ID && known.Tenant == p.Tenant {
				return true
			}
		}
	case "oidc":
		return id.opt.OIDC != nil && id.opt.OIDC.opt.couldIdentify(p)
	case "spiffe":
		return id.opt.SPIFFE != nil && id.opt.SPIFFE.couldIdentify(p)
	case "default":
		d := id.opt.Default
		return d != nil && d.Tenant == p.Tenant && (d.ID == p.ID || d.ID == p.Group)
	}
	return false
}

// Issuer returns the URL of the issuer of tokens, or "" if no tokens are accepted.
func (id *Identifier) Issuer() string {
	if id.opt.OIDC == nil {
		return ""
	}
	return id.opt.OIDC.opt.Issuer
}

// KeepIssuer makes id use the issuer of from, with the keys that were fetched from it and
// the pauses between two fetches, if both name the same issuer. It must be called before
// id is used, and only if the settings of requests to the issuer are the same.
func (id *Identifier) KeepIssuer(from *Identifier) {
	if id.opt.OIDC != nil && id.Issuer() == from.Issuer() {
		id.opt.OIDC.issuer = from.opt.OIDC.issuer
	}
}

// CheckIssuer returns an error if the issuer's keys are not fresh and cannot be fetched.
func (id *Identifier) CheckIssuer(ctx context.Context) error {
	if id.opt.OIDC == nil {
		return nil
	}
	return id.opt.OIDC.issuer.ensureFresh(ctx)
}

// token verifies a credential for memproxy: a known key, or an OIDC token.
func (id *Identifier) token(ctx context.Context, token string) (memproxy.Principal, error) {
	if p, ok := id.lookup(token); ok {
		return p, nil
	}
	if id.opt.OIDC == nil {
		return memproxy.Principal{}, rejected("the token is not known to memproxy; identity.keys lists the SHA-256 of those that are")
	}
	return id.opt.OIDC.principal(ctx, token)
}

// lookup finds a secret by its hash. The map is keyed by the hash and not by the secret,
// so timing does not help to guess the secret.
func (id *Identifier) lookup(secret string) (memproxy.Principal, bool) {
	p, ok := id.keys[sha256.Sum256([]byte(secret))]
	return p, ok
}

func rejected(detail string) error {
	return &memproxy.CredentialError{Code: memproxy.IdentityInvalid, Detail: detail}
}

func ownToken(h memproxy.Header) (token string, err error) {
	for _, name := range [...]string{"X-Memproxy-Token", "Proxy-Authorization"} {
		for _, v := range h.Values(name) {
			if name == "Proxy-Authorization" {
				scheme, rest, _ := strings.Cut(v, " ")
				if v = strings.TrimSpace(rest); v == "" || !strings.EqualFold(scheme, "Bearer") {
					return "", rejected("Proxy-Authorization takes a Bearer token")
				}
			}
			switch {
			case v == "":
				return "", rejected("the token is empty")
			case len(v) > maxToken:
				return "", rejected("the token is too long")
			case token != "" && token != v:
				return "", rejected("two different tokens were presented")
			}
			token = v
		}
	}
	return token, nil
}

// backendKeys returns the credentials for the backend. A header that occurs twice with
// different values is ambiguous, and refused.
func backendKeys(h memproxy.Header) ([]string, error) {
	var out []string
	for _, name := range [...]string{"X-Api-Key", "Authorization"} {
		values := h.Values(name)
		if len(values) == 0 {
			continue
		}
		if slices.ContainsFunc(values, func(v string) bool { return v != values[0] }) {
			return nil, rejected(name + " is repeated with different values")
		}
		v := values[0]
		if name == "Authorization" {
			scheme, rest, ok := strings.Cut(v, " ")
			if !ok || !(strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Token")) {
				continue
			}
			v = strings.TrimSpace(rest)
		}
		if v != "" {
			out = append(out, v)
		}
	}
	return out, nil
}
