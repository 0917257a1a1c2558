package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/identity"
)

// buildIdentifier compiles the identity section.
func buildIdentifier(cfg *config.Config) (*identity.Identifier, error) {
	opt := identity.Options{}
	for _, k := range cfg.Identity.Keys {
		opt.Keys = append(opt.Keys, identity.Key{SHA256: k.SHA256, Principal: k.Memproxy()})
	}
	if d := cfg.Identity.Default; d != nil {
		p := d.Memproxy()
		opt.Default = &p
	}
	var err error
	if o := cfg.Identity.OIDC; o != nil {
		prefix := "oidc:"
		if o.Prefix != nil {
			prefix = *o.Prefix
		}
		c := o.Claims
		opt.OIDC, err = identity.NewOIDC(identity.OIDCOptions{
			Issuer: o.Issuer, Audience: o.Audience, Prefix: prefix, Clock: time.Now,
			Kind: memproxy.PrincipalKind(o.Kind), Trust: memproxy.Trust(o.Trust), MaxTrust: memproxy.Trust(o.MaxTrust),
			Claims: identity.Claims{
				ID: c["id"], Tenant: c["tenant"], Roles: c["roles"], Kind: c["kind"], Trust: c["trust"],
				ActsAs: c["acts_as"], Users: c["users"], Apps: c["apps"], Runs: c["runs"],
			},
		})
		if err != nil {
			return nil, err
		}
	}
	if s := cfg.Identity.SPIFFE; s != nil {
		var rules []identity.SPIFFERule
		for _, r := range s.Rules {
			rules = append(rules, identity.SPIFFERule{Path: r.Path, Principal: r.Memproxy()})
		}
		if opt.SPIFFE, err = identity.NewSPIFFE(s.TrustDomain, rules); err != nil {
			return nil, err
		}
	}
	return identity.New(opt)
}

// fingerprint names a key, for the log's origin: 16 hex digits.
func fingerprint(key ed25519.PrivateKey) string {
	sum := sha256.Sum256(key.Public().(ed25519.PublicKey))
	return hex.EncodeToString(sum[:8])
}
