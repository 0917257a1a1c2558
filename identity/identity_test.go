package identity_test

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func hash(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

func who(id string) memproxy.Principal {
	return memproxy.Principal{ID: id, Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated}
}

func header(fields ...string) memproxy.Header {
	h := memproxy.Header{}
	for i := 0; i < len(fields); i += 2 {
		h[fields[i]] = append(h[fields[i]], fields[i+1])
	}
	return h
}

// Proves TRL-1: backend keys in every header that clients use, and credentials for
// memproxy. An ambiguous credential is refused; an unknown backend key is left to the
// backend and identifies nobody.
func TestKeys(t *testing.T) {
	const (
		auth, api, own, proxy = "Authorization", "X-Api-Key", "X-Memproxy-Token", "Proxy-Authorization"
		anybody               = "workload:any"
	)
	huge, sum := strings.Repeat("h", 16<<10), hash("key-a")
	fallback := who(anybody)
	fallback.Trust = memproxy.TrustAnonymous
	id := must.Get(identity.New(identity.Options{
		Keys: []identity.Key{
			{SHA256: hash("key-a"), Principal: who("a")}, {SHA256: hash("key-b"), Principal: who("b")},
			{SHA256: hash("key-a2"), Principal: who("a")}, {SHA256: hash(huge), Principal: who("huge")},
		},
		Default: &fallback,
	}))(t)
	for _, c := range []struct {
		name string
		h    memproxy.Header
		want string // "": refused
	}{
		{"nothing", header(), anybody},
		{"Mem0's scheme", header(auth, "Token key-a"), "a"},
		{"Letta's scheme", header(auth, "Bearer key-b"), "b"},
		{"scheme in another case", header(auth, "bEARER key-a"), "a"},
		{"many spaces", header(auth, "Token   key-a  "), "a"},
		{"X-API-Key", header(api, "key-a"), "a"},
		{"both, one key", header(api, "key-a", auth, "Token key-a"), "a"},
		{"both, two keys of one", header(api, "key-a", auth, "Token key-a2"), "a"},
		{"both, of two", header(api, "key-a", auth, "Token key-b"), ""},
		{"both, the first unknown", header(api, "what", auth, "Token key-b"), ""},
		{"both, the second unknown", header(api, "key-a", auth, "Bearer nonsense"), ""},
		{"both, the second too huge", header(api, "key-a", auth, "Bearer "+huge+"h"), ""},
		{"both unknown", header(api, "what", auth, "Bearer nonsense"), anybody},
		{"twice the same", header(auth, "Token key-a", auth, "Token key-a"), "a"},
		{"twice, known first", header(auth, "Token key-a", auth, "Token key-b"), ""},
		{"twice, unknown first", header(auth, "Token what", auth, "Token key-b"), ""},
		{"twice, empty first", header(api, "", api, "key-a"), ""},
		{"twice, in two schemes", header(auth, "Token key-a", auth, "Bearer key-a"), ""},
		{"unknown", header(auth, "Token what"), anybody},
		{"without a scheme", header(auth, "key-a"), anybody},
		{"another scheme", header(auth, "Basic key-a"), anybody},
		{"scheme and key run together", header(auth, "Tokenkey-a"), anybody},
		{"a tab", header(auth, "Token\tkey-a"), anybody},
		{"X-API-Key with a scheme", header(api, "Token key-a"), anybody},
		{"almost", header(auth, "Token key-A"), anybody},
		{"two keys in one", header(auth, "Token key-a,key-b"), anybody},
		{"empty", header(auth, ""), anybody},
		{"only a scheme", header(auth, "Token"), anybody},
		{"a scheme and a space", header(auth, "Token "), anybody},
		{"empty X-API-Key", header(api, ""), anybody},
		{"huge", header(api, huge), "huge"},
		{"too huge", header(api, huge+"h"), anybody},
		{"the hash itself", header(auth, "Token "+hex.EncodeToString(sum[:])), anybody},

		{"own", header(own, "key-a"), "a"},
		{"own in the proxy's header", header(proxy, "Bearer key-a"), "a"},
		{"own beside another's", header(own, "key-a", auth, "Token key-b"), ""},
		{"own beside the backend's", header(own, "key-a", auth, "Token what"), "a"},
		{"own in both headers", header(own, "key-a", proxy, "Bearer key-a"), "a"},
		{"own, two of one", header(own, "key-a", proxy, "Bearer key-a2"), ""},
		{"own, of two", header(own, "key-a", proxy, "Bearer key-b"), ""},
		{"own twice the same", header(own, "key-a", own, "key-a"), "a"},
		{"own twice", header(own, "key-a", own, "key-b"), ""},
		{"own unknown", header(own, "what"), ""},
		{"own unknown beside a known key", header(own, "what", auth, "Token key-a"), ""},
		{"own empty", header(own, ""), ""},
		{"own empty, then good", header(own, "", own, "key-a"), ""},
		{"own with a scheme", header(own, "Bearer key-a"), ""},
		{"own as Basic", header(proxy, "Basic a2V5LWE="), ""},
		{"own as Token", header(proxy, "Token key-a"), ""},
		{"own without a scheme", header(proxy, "key-a"), ""},
		{"own with an empty Bearer", header(proxy, "Bearer  "), ""},
		{"own huge", header(own, huge), "huge"},
		{"own too huge", header(own, huge+"h"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := id.Identify(t.Context(), memproxy.Credentials{Header: c.h})
			if c.want == "" {
				refused(t, err, memproxy.IdentityInvalid)
				for _, secret := range []string{"key-a", "key-b", "what", "a2V5LWE="} {
					expect.Text(t, err.Error(), "the error quotes the credential", err).Lacks(secret)
				}
				return
			}
			must.Do(t, err)
			must.Equal(t, p.ID, c.want)
			expect.Equal(t, p.Method, map[bool]string{true: "default", false: "key"}[c.want == anybody])
		})
	}
}

// Proves TRL-1: without a default, absent credentials and unknown keys are refused,
// with different reasons.
func TestNoDefaultPrincipal(t *testing.T) {
	id := must.Get(identity.New(identity.Options{Keys: []identity.Key{{SHA256: hash("key-a"), Principal: who("a")}}}))(t)
	expect.Equal(t, must.Get(id.Identify(t.Context(), memproxy.Credentials{Header: header("X-Api-Key", "key-a")}))(t).ID, "a")
	_, err := id.Identify(t.Context(), memproxy.Credentials{})
	refused(t, err, memproxy.IdentityMissing)
	_, err = id.Identify(t.Context(), memproxy.Credentials{Header: header("Authorization", "Basic x")})
	refused(t, err, memproxy.IdentityMissing)
	_, err = id.Identify(t.Context(), memproxy.Credentials{Header: header("X-Api-Key", "what")})
	refused(t, err, memproxy.IdentityInvalid)
}

func TestNobodyCanBeIdentified(t *testing.T) {
	expect.Error(t, expect.Err(identity.New(identity.Options{})), "taken")
}

// A caller cannot modify the principal of the next one.
func TestPrincipalsAreCopies(t *testing.T) {
	fallback := who("any")
	id := must.Get(identity.New(identity.Options{Default: &fallback}))(t)
	p, _ := id.Identify(t.Context(), memproxy.Credentials{})
	p.ID, p.Trust = "root", memproxy.TrustSystem
	if p, _ = id.Identify(t.Context(), memproxy.Credentials{}); p.ID != "any" || p.Trust != memproxy.TrustAuthenticated || fallback.Method != "" {
		t.Errorf("%+v", p)
	}
}

// Proves TRL-1: anonymous callers are identified by session and address; an IPv6
// network counts as one address, and no caller with a credential has such an id.
func TestAnonymousSessions(t *testing.T) {
	open := func(kind memproxy.PrincipalKind, key string) func(peer, session string) memproxy.Principal {
		id := must.Get(identity.New(identity.Options{
			Default: &memproxy.Principal{ID: "public", Kind: kind, Trust: memproxy.TrustAnonymous}, AnonymousKey: []byte(key),
			Keys: []identity.Key{{SHA256: hash("key-a"), Principal: memproxy.Principal{ID: "anonymous:a", Kind: memproxy.KindAgent}}},
		}))(t)
		expect.Error(t, expect.Err(id.Identify(t.Context(), memproxy.Credentials{Header: memproxy.Header{"X-Api-Key": {"key-a"}}})), "a key is taken for an anonymous session")
		return func(peer, session string) memproxy.Principal {
			return must.Get(id.Identify(t.Context(), memproxy.Credentials{Peer: peer, Session: memproxy.NameSession(session)}))(t)
		}
	}
	who := open(memproxy.KindAnonymous, "k")
	one := who("192.0.2.1", "s")
	if one.Group != "public" || one.Method != "default" || !strings.HasPrefix(one.ID, memproxy.AnonymousPrefix) {
		t.Errorf("%+v", one)
	}
	for what, same := range map[string][2]memproxy.Principal{
		"again":           {one, who("192.0.2.1", "s")},
		"mapped":          {one, who("::ffff:192.0.2.1", "s")},
		"one network":     {who("2001:db8::1", ""), who("2001:db8::ffff:2", "")},
		"without a place": {who("", "s"), who("", "s")},
	} {
		expect.Equal(t, same[0].ID, same[1].ID, what)
	}
	for what, other := range map[string]memproxy.Principal{
		"another session": who("192.0.2.1", "t"), "no session": who("192.0.2.1", ""), "another address": who("192.0.2.2", "s"),
		"another network": who("2001:db8:0:1::1", "s"), "another key": open(memproxy.KindAnonymous, "l")("192.0.2.1", "s"),
	} {
		expect.Equal(t, other.ID != one.ID, true, what, "is the same caller")
	}
	expect.Equal(t, open(memproxy.KindAgent, "k")("192.0.2.1", "s").ID, "public", "a workload that is named is")
}

// A principal stays known while the configuration has what identified it: its key, a
// rule that names it, the issuer or trust domain, the default.
//
// Proves EDGE-15
func TestKnows(t *testing.T) {
	dev := memproxy.Principal{ID: "agent:dev", Tenant: "acme"}
	oidc := func(rules ...identity.Rule) *identity.OIDC {
		return identity.NewOIDC(identity.OIDCOptions{Issuer: "https://issuer.example", Audience: "memproxy", Prefix: "oidc:", Rules: rules, Clock: time.Now})
	}
	spiffe := func(rules ...identity.Rule) *identity.SPIFFE {
		return must.Get(identity.NewSPIFFE("example.org", rules))(t)
	}
	keyed := identity.Options{Keys: []identity.Key{{SHA256: hash("secret"), Principal: dev}}}
	ruled, open, served := keyed, keyed, keyed
	ruled.OIDC = oidc(identity.Rule{Name: "robot", Principal: memproxy.Principal{ID: "agent:robot", Tenant: "acme"}}, identity.Rule{Name: "team:*", Principal: memproxy.Principal{Tenant: "acme"}})
	ruled.SPIFFE = spiffe(identity.Rule{Name: "/ci", Principal: memproxy.Principal{ID: "agent:ci"}}, identity.Rule{Name: "/ns/*", Principal: memproxy.Principal{Tenant: "acme"}})
	open.OIDC, open.SPIFFE = oidc(), spiffe()
	served.Default = &memproxy.Principal{ID: "public", Kind: memproxy.KindAnonymous}
	served.AnonymousKey = make([]byte, 32)
	by := func(method, id, tenant, group string) memproxy.Principal {
		return memproxy.Principal{ID: id, Tenant: tenant, Method: method, Group: group}
	}
	for name, c := range map[string]struct {
		opt  identity.Options
		p    memproxy.Principal
		want bool
	}{
		"a key":                          {keyed, by("key", "agent:dev", "acme", ""), true},
		"a removed key":                  {keyed, by("key", "agent:old", "acme", ""), false},
		"a key, of another tenant":       {keyed, by("key", "agent:dev", "globex", ""), false},
		"an issuer that is gone":         {keyed, by("oidc", "oidc:old", "acme", ""), false},
		"a trust domain that is gone":    {keyed, by("spiffe", "spiffe://example.org/ci", "", ""), false},
		"a rule by its id":               {ruled, by("oidc", "agent:robot", "acme", ""), true},
		"a rule of another tenant":       {ruled, by("oidc", "agent:robot", "globex", ""), false},
		"a rule by its subject":          {ruled, by("oidc", "oidc:team:ann", "acme", ""), true},
		"a subject that no rule names":   {ruled, by("oidc", "oidc:ann", "acme", ""), false},
		"an id that no rule has":         {ruled, by("oidc", "agent:gone", "acme", ""), false},
		"a path's id":                    {ruled, by("spiffe", "agent:ci", "", ""), true},
		"a path":                         {ruled, by("spiffe", "spiffe://example.org/ns/a", "acme", ""), true},
		"a path that no rule names":      {ruled, by("spiffe", "spiffe://example.org/other", "acme", ""), false},
		"a path of another domain":       {ruled, by("spiffe", "spiffe://example.com/ns/a", "acme", ""), false},
		"a token, without rules":         {open, by("oidc", "oidc:ann", "globex", ""), true},
		"another issuer's, without":      {open, by("oidc", "elsewhere:ann", "globex", ""), false},
		"a certificate, without":         {open, by("spiffe", "spiffe://example.org/x", "", ""), true},
		"another domain's, without":      {open, by("spiffe", "spiffe://example.com/x", "", ""), false},
		"nothing presented":              {served, by("default", "anonymous:00", "", "public"), true},
		"nothing, and nobody is served":  {keyed, by("default", "anonymous:00", "", "public"), false},
		"nothing, and others are served": {served, by("default", "workload:demo", "", ""), false},
		"by nothing that is known":       {served, by("", "agent:dev", "acme", ""), false},
	} {
		id := must.Get(identity.New(c.opt))(t)
		expect.Equal(t, id.StillValid(c.p), c.want, name)
	}
}

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
