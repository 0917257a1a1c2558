package policy_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

func fleetKey(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func small() policy.Bundle {
	l, c := memproxy.DefaultLimits(), memproxy.DefaultCeilings()
	l.Tenants = map[string]memproxy.WriteLimit{"acme": {PerHour: 7}}
	c.Unclaimed = 333
	return policy.Bundle{
		Policies: []policy.Source{{Name: "a.cedar", Text: permit}, {Name: "b.cedar", Text: "// b <&> ü"}},
		Schema:   policy.Source{Name: "s.cedarschema", Text: "entity Role;"},
		Disabled: []string{"x.y"}, Shadowed: []string{"z"}, Limits: &l, Ceilings: &c, Screening: []byte{0, 1, 0xff},
	}
}

func seal(t testing.TB, s policy.Statement) *policy.Release {
	t.Helper()
	return must.Get(policy.SignRelease(small(), s, fleetKey(1)))(t)
}

var statement = policy.Statement{Fleet: "north", Number: 12, Floor: 11, Selector: policy.Selector{Tenant: "acme", Labels: map[string]string{"env": "prod"}}, Note: "a <note>"}

// Proves CARD-9: a sealed bundle is opened unchanged, with all its parts.
func TestReleaseArrivesWhole(t *testing.T) {
	for name, b := range map[string]policy.Bundle{"small": small(), "built-in": policy.Builtin()} {
		r := must.Get(policy.SignRelease(b, statement, fleetKey(1)))(t)
		got, err := policy.OpenRelease(r.Encoded(), public(fleetKey(2)), public(fleetKey(1)))
		must.Do(t, err, name)
		want := statement
		want.Bundle = b.Version()
		expect.Deep(t, got.Statement, want, name, "statement")
		c := got.Contents
		if c.Version() != b.Version() || !reflect.DeepEqual(c.Limits, normal(b.Limits)) || !reflect.DeepEqual(c.Ceilings, b.Ceilings) || !bytes.Equal(c.Screening, b.Screening) {
			t.Errorf("%s: other contents: %+v", name, c)
		}
		expect.Equal(t, got.Name(), "000012-"+b.Version()[:12], "name")
	}
}

// No release is signed in which chance would decide between two spellings of a field.
// Proves CARD-9
func TestReleaseSpellsAFieldOnce(t *testing.T) {
	limits := memproxy.DefaultLimits()
	limits.Namespaces = map[string]memproxy.WriteLimit{"gotchas": {Total: 5}, "Gotchas": {Total: 500}}
	_, err := policy.SignRelease(policy.Bundle{Schema: policy.Builtin().Schema, Limits: &limits}, statement, fleetKey(1))
	expect.ErrorHas(t, err, "budgets.namespaces.gotchas is listed twice")
}

// normal replaces nil maps in limits by empty ones.
func normal(l *memproxy.Limits) *memproxy.Limits {
	if l == nil {
		return nil
	}
	n := *l
	for _, m := range []*map[string]memproxy.WriteLimit{&n.Overrides, &n.Tenants, &n.Namespaces} {
		if *m == nil {
			*m = map[string]memproxy.WriteLimit{}
		}
	}
	return &n
}

// A release with any byte flipped, in itself or in the key, is refused.
// Proves CARD-3, CARD-9
func TestEveryFlippedByteIsSeen(t *testing.T) {
	r := seal(t, statement)
	key := slices.Clone(public(fleetKey(1)))
	encoded := slices.Clone(r.Encoded())
	flips := 0
	for _, at := range [...][]byte{encoded, key} {
		for i := range at {
			for _, mask := range []byte{1, 0x20, 0x80} {
				at[i] ^= mask
				flips++
				if got, err := policy.OpenRelease(encoded, key); err == nil && (got.Contents.Version() != r.Bundle || !reflect.DeepEqual(got.Statement, r.Statement)) {
					t.Errorf("byte %d, %q: opened as another release", i, at[max(0, i-10):i+1])
				}
				at[i] ^= mask
			}
		}
	}
	if _, err := policy.OpenRelease(encoded, key); err != nil || flips < 1000 {
		t.Errorf("after %d flips: %v", flips, err)
	}
}

// Proves CARD-9: each kind of invalid release has its own error.
func TestOpenRefuses(t *testing.T) {
	good := string(seal(t, statement).Encoded())
	key := public(fleetKey(1))
	must.Get(policy.OpenRelease([]byte(good), key))(t)
	other := must.Get(policy.SignRelease(policy.Builtin(), statement, fleetKey(1)))(t)
	_, body, _ := strings.Cut(string(other.Encoded()), `"bundle":{`)
	head, _, _ := strings.Cut(good, `"bundle":{`)
	for _, tc := range []struct {
		name, text string
		keys       []ed25519.PublicKey
		want       error
	}{
		{"another key", good, []ed25519.PublicKey{public(fleetKey(2))}, policy.ErrSignature},
		{"no key", good, nil, policy.ErrSignature},
		{"half a key", good, []ed25519.PublicKey{key[:31]}, policy.ErrSignature},
		{"a statement of another number", strings.Replace(good, `"number":12`, `"number":13`, 1), []ed25519.PublicKey{key}, policy.ErrSignature},
		{"another bundle under the statement", head + `"bundle":{` + body, []ed25519.PublicKey{key}, policy.ErrContent},
		{"a policy's text", strings.Replace(good, "// b", "// c", 1), []ed25519.PublicKey{key}, policy.ErrContent},
		{"a limit", strings.Replace(good, `"writes_per_hour":7`, `"writes_per_hour":8`, 1), []ed25519.PublicKey{key}, policy.ErrContent},
		{"a member twice", strings.Replace(good, `"signature":`, `"signature":"","signature":`, 1), []ed25519.PublicKey{key}, nil},
		{"an unknown member", strings.Replace(good, `"signature":`, `"more":1,"signature":`, 1), []ed25519.PublicKey{key}, nil},
		{"more after it", good + "{}", []ed25519.PublicKey{key}, nil},
		{"cut off", good[:len(good)-1], []ed25519.PublicKey{key}, nil},
		{"nothing", "", []ed25519.PublicKey{key}, nil},
		{"a path for a name", strings.Replace(good, `"a.cedar"`, `"../a.cedar"`, 1), []ed25519.PublicKey{key}, nil},
		{"too large", strings.Repeat(" ", policy.MaxRelease) + good, []ed25519.PublicKey{key}, nil},
	} {
		if _, err := policy.OpenRelease([]byte(tc.text), tc.keys...); err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
	for name, s := range map[string]policy.Statement{
		"no fleet":                {Number: 1},
		"no number":               {Fleet: "north"},
		"a floor above":           {Fleet: "north", Number: 1, Floor: 2},
		"a label of two":          {Fleet: "north", Number: 1, Selector: policy.Selector{Labels: map[string]string{"a": "1,b=2"}}},
		"a label called tenant":   {Fleet: "north", Number: 1, Selector: policy.Selector{Labels: map[string]string{"tenant": "acme"}}},
		"a tenant of two":         {Fleet: "north", Number: 1, Selector: policy.Selector{Tenant: "acme,env=prod"}},
		"a fleet with a line end": {Fleet: "north\n", Number: 1},
	} {
		expect.Error(t, expect.Err(policy.SignRelease(small(), s, fleetKey(1))), name, "sealed")
	}
}

func TestSelector(t *testing.T) {
	prod := map[string]string{"env": "prod", "region": "eu"}
	for _, tc := range []struct {
		spelling string
		s        policy.Selector
		tenant   string
		labels   map[string]string
		want     bool
	}{
		{"*", policy.Selector{}, "", nil, true},
		{"*", policy.Selector{}, "acme", prod, true},
		{"tenant=acme", policy.Selector{Tenant: "acme"}, "acme", nil, true},
		{"tenant=acme", policy.Selector{Tenant: "acme"}, "", nil, false},
		{"tenant=acme", policy.Selector{Tenant: "acme"}, "acme2", nil, false},
		{"env=prod,region=eu", policy.Selector{Labels: prod}, "acme", prod, true},
		{"env=prod,region=eu", policy.Selector{Labels: prod}, "acme", map[string]string{"env": "prod"}, false},
		{"env=", policy.Selector{Labels: map[string]string{"env": ""}}, "", nil, false},
		{"tenant=acme,env=prod", statement.Selector, "acme", prod, true},
		{"tenant=acme,env=prod", statement.Selector, "acme", map[string]string{"env": "test"}, false},
	} {
		expect.Equal(t, tc.s.Matches(tc.tenant, tc.labels), tc.want, tc.s, tc.tenant, tc.labels)
		expect.Equal(t, tc.s.String(), tc.spelling, tc.s, tc.tenant, tc.labels)
	}
	narrow, wide := policy.Selector{Tenant: "acme"}, policy.Selector{Labels: prod}
	if narrow.Specificity() <= wide.Specificity() || wide.Specificity() <= (policy.Selector{}).Specificity() {
		t.Error("a tenant must outweigh labels, and labels nothing")
	}
}

// Any input is a release signed by the key, or an error.
func FuzzOpen(f *testing.F) {
	good := seal(f, statement).Encoded()
	f.Add(good)
	f.Add([]byte(`{"statement":{},"signature":"","bundle":{"schema":{"name":"","text":""},"policies":null}}`))
	f.Add([]byte(strings.Replace(string(good), `"x.y"`, `"x.z"`, 1)))
	want := small().Version()
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := policy.OpenRelease(b, public(fleetKey(1))); err == nil && (r.Contents.Version() != want || r.Number != statement.Number) {
			t.Errorf("a release that nobody signed: %s", r.Name())
		}
	})
}
