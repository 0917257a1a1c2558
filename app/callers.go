package app

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/ledger"
)

// callers identifies callers by the current configuration.
type callers struct {
	key    []byte
	issuer time.Duration // timeout of a request to an issuer
	now    atomic.Pointer[identity.Identifier]
}

func newCallers(cfg *config.Config, key []byte, issuer time.Duration) (*callers, error) {
	first, err := buildIdentifier(cfg, key, issuer)
	c := &callers{key: key, issuer: issuer}
	c.now.Store(first)
	return c, err
}

// Identify implements gate.Identifier.
func (c *callers) Identify(ctx context.Context, presented memproxy.Credentials) (memproxy.Principal, error) {
	return c.now.Load().Identify(ctx, presented)
}

// watchIssuer adds the issuer of tokens to the readiness, and logs whether it answers at
// the start. An issuer that does not answer prevents no start.
func (c *callers) watchIssuer(stores *readiness, log *slog.Logger) {
	stores.add(probe{name: "issuer", okDetail: func() string { return c.now.Load().Issuer() }, ask: func(ctx context.Context) error {
		return issuerAnswers(ctx, c.now.Load())
	}})
	stores.begin("issuer", func(ctx context.Context) {
		first := c.now.Load()
		if err := issuerAnswers(ctx, first); err != nil && ctx.Err() == nil {
			log.Warn("the token issuer is unavailable", "setting", "identity.oidc.issuer", "error", err)
		} else if err == nil && first.Issuer() != "" {
			log.Info("the token issuer answers", "issuer", first.Issuer())
		}
	})
}

func issuerAnswers(ctx context.Context, by *identity.Identifier) error {
	if err := by.CheckIssuer(ctx); err != nil {
		return fmt.Errorf("tokens whose keys are not known are answered 503 (identity.oidc.issuer %s): %w", by.Issuer(), err)
	}
	return nil
}

// buildIdentifier compiles the identity section of the configuration. key is the key of
// the hashes in the ids of callers without credentials; issuer is the timeout of a
// request to an issuer.
func buildIdentifier(cfg *config.Config, key []byte, issuer time.Duration) (*identity.Identifier, error) {
	opt := identity.Options{AnonymousKey: key}
	for _, k := range cfg.Identity.Keys {
		opt.Keys = append(opt.Keys, identity.Key{SHA256: config.Sum(k.SHA256), Principal: k.ToPrincipal()})
	}
	if d := cfg.Identity.Default; d != nil {
		opt.Default = new(d.ToPrincipal())
	}
	var err error
	if o := cfg.Identity.OIDC; o != nil {
		c := o.Claims
		client, err := issuerClient(o)
		if err != nil {
			return nil, cfg.Fault(err, "identity", "oidc", "ca")
		}
		var rules []identity.Rule
		for _, r := range o.Rules {
			rules = append(rules, identity.Rule{Name: r.Subject, Principal: r.ToPrincipal()})
		}
		opt.OIDC = identity.NewOIDC(identity.OIDCOptions{
			Client: client, Timeout: issuer, Bearer: bearerIn(o.TokenFile), Rules: rules,
			Issuer: o.Issuer, Audience: o.Audience, Prefix: *o.Prefix, Clock: time.Now,
			Kind: memproxy.PrincipalKind(o.Kind), Trust: memproxy.Trust(o.Trust), MaxTrust: memproxy.Trust(o.MaxTrust),
			Claims: identity.Claims{
				ID: c["id"], Tenant: c["tenant"], Roles: c["roles"], Kind: c["kind"], Trust: c["trust"],
				ActsAs: c["acts_as"], Users: c["users"], Apps: c["apps"], Runs: c["runs"],
			},
		})
	}
	if s := cfg.Identity.SPIFFE; s != nil {
		var rules []identity.Rule
		for _, r := range s.Rules {
			rules = append(rules, identity.Rule{Name: r.Path, Principal: r.ToPrincipal()})
		}
		if opt.SPIFFE, err = identity.NewSPIFFE(s.TrustDomain, rules); err != nil {
			return nil, cfg.Fault(err, "identity", "spiffe")
		}
	}
	found, err := identity.New(opt)
	return found, cfg.Fault(err, "identity")
}

// defaultOrigin returns the log's name if the configuration gives it none.
func defaultOrigin(key ed25519.PrivateKey) string {
	return "memproxy/" + memproxy.TextSHA256(string(key.Public().(ed25519.PublicKey)))[:16]
}

// issuerClient returns a client for requests to an issuer that trusts the configured roots.
func issuerClient(o *config.OIDC) (*http.Client, error) {
	trusted, err := upstreamTLS(config.TLS{UpstreamCA: o.CA})
	if err != nil {
		return nil, fmt.Errorf("identity.oidc.ca: %w", err)
	}
	if trusted == nil {
		return nil, nil
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = trusted
	return &http.Client{Transport: t}, nil
}

func sameIssuer(a, b *config.OIDC) bool {
	return a != nil && b != nil && a.Issuer == b.Issuer && a.CA == b.CA && a.TokenFile == b.TokenFile
}

const maxBearer = 64 << 10 // maximum size of a token's file in bytes

// bearerIn returns a function that reads a token from its file each time, because
// projected tokens are replaced before they expire. It returns nil if path is "".
func bearerIn(path string) func() (string, error) {
	if path == "" {
		return nil
	}
	return func() (string, error) {
		b, err := durable.ReadPrefix(path, maxBearer)
		token := strings.TrimSpace(string(b))
		if err == nil && token == "" {
			err = fmt.Errorf("%s is empty", path)
		}
		return token, err
	}
}

// bindNames binds the names in the configuration to their tenants in the ledger, which is
// the only authority on names. If the ledger has a name for another tenant, memproxy does
// not start in production; in other profiles the ledger's record remains and the log
// reports the contradiction.
func bindNames(ctx context.Context, cfg *config.Config, l *ledger.Ledger, now time.Time, log *slog.Logger) error {
	var faults config.Faults
	for i := range cfg.Backends {
		b := &cfg.Backends[i]
		listed := slices.DeleteFunc(cfg.OwnerNames(), func(n config.OwnerName) bool { return !b.Serves(n.Tenant) })
		for names := range slices.Chunk(listed, namesAtOnce) {
			rows := make([]memproxy.Ownership, len(names))
			ids := make([]string, len(names))
			for j, n := range names {
				rows[j] = memproxy.Ownership{Backend: b.Name, Kind: memproxy.TargetEntity, ID: n.ID, Scope: memproxy.Scope{Tenant: n.Tenant}, Written: now}
				_, ids[j], _ = strings.Cut(n.ID, ":")
			}
			bound, err := l.Assign(ctx, rows...)
			if err != nil {
				return fmt.Errorf("bind the names that the configuration lists: %w", err)
			}
			objects, err := ledger.ByID(ctx, l, b.Name, memproxy.TargetMemory, ids...) // Letta's agents are stored as memories
			if err != nil {
				return fmt.Errorf("bind the names that the configuration lists: %w", err)
			}
			for j, n := range names {
				if rec := objects[ids[j]]; rec.HasOwner() && rec.Owner.Scope.Tenant != n.Tenant {
					bound[j] = rec.Owner
				}
				if whose := bound[j].Scope.Tenant; whose != n.Tenant {
					faults = append(faults, nameConflict(b.Name, n, whose))
				}
			}
		}
	}
	if len(faults) > 0 && cfg.Profile == "production" {
		return faults
	}
	for _, f := range faults {
		log.Error("a name in the configuration belongs to another tenant", "fault", f)
	}
	return nil
}

// nameConflict describes a configured name that the ledger has for another tenant, and
// how to fix it.
func nameConflict(backend string, n config.OwnerName, whose string) string {
	dim, name, _ := strings.Cut(n.ID, ":")
	has := fmt.Sprintf("the ledger assigns it to tenant %q", whose)
	if whose == memproxy.TenantInaccessible {
		has = "the ledger has memories of several tenants under it, or its row there was edited (memproxy ledger sweep says so), so no tenant owns it"
	}
	return fmt.Sprintf("%s: %s %q is listed for tenant %q, and on backend %s %s. List another name; or start without this one, "+
		"delete the memories of tenants other than %q under it through memproxy, and list it again: a name that no other tenant uses is given to the tenant that lists it",
		n.Place, dim, name, n.Tenant, backend, has, n.Tenant)
}
