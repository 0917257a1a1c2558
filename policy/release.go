package policy

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxRelease bounds an encoded release, in bytes.
const MaxRelease = 16 << 20

// The errors of Open that a reader may want to tell apart.
var (
	ErrSignature = errors.New("the signature is none of the fleet's keys'")
	ErrContent   = errors.New("the bundle is not the one that was signed")
)

// Selector says for which sidecars a release is: those of the tenant that
// carry all of the labels. The zero value is every sidecar.
type Selector struct {
	Tenant string            `json:"tenant,omitzero"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Matches reports whether a sidecar of that tenant and with those labels is
// meant.
func (s Selector) Matches(tenant string, labels map[string]string) bool {
	if s.Tenant != "" && s.Tenant != tenant {
		return false
	}
	for k, v := range s.Labels {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Weight orders selectors that match one sidecar: the heavier is narrower. A
// tenant outweighs every number of labels.
func (s Selector) Weight() int {
	w := len(s.Labels)
	if s.Tenant != "" {
		w += 1 << 16
	}
	return w
}

// String is the selector's one spelling, "tenant=acme,env=prod"; "*" for
// every sidecar. Two selectors with one spelling are one channel.
func (s Selector) String() string {
	var parts []string
	for k, v := range s.Labels {
		parts = append(parts, k+"="+v)
	}
	slices.Sort(parts)
	if s.Tenant != "" {
		parts = append([]string{"tenant=" + s.Tenant}, parts...)
	}
	return cmp.Or(strings.Join(parts, ","), "*")
}

// Statement is what the fleet's key signs of a bundle.
type Statement struct {
	// Fleet is the installation. A sidecar takes releases of its own only.
	Fleet string `json:"fleet"`
	// Number orders the releases of a fleet, whatever their selector. A number
	// is used once.
	Number uint64 `json:"number"`
	// Floor is the lowest number that a sidecar that took this release may
	// return to. At Number there is no way back; below it, a rollout that goes
	// wrong can be taken back without the key.
	Floor uint64   `json:"floor"`
	For   Selector `json:"for,omitzero"`
	// Bundle is the version of the bundle, its hash.
	Bundle string `json:"bundle"`
	// Note is a sentence for people.
	Note string `json:"note,omitzero"`
}

// Name names a release in files, logs and on the wire: number and the start of
// the bundle's hash.
func (s Statement) Name() string {
	return fmt.Sprintf("%06d-%.12s", s.Number, s.Bundle)
}

// Release is a bundle with the statement that the fleet's key signed. It comes
// from Seal or Open and is not changed.
type Release struct {
	Statement
	Contents Bundle
	encoded  []byte
}

// Encoded is the release as it is stored and sent.
func (r *Release) Encoded() []byte { return r.encoded }

// envelope is a release as it is written. Statement keeps its bytes: they are
// what was signed.
type envelope struct {
	Statement jsontext.Value `json:"statement"`
	Signature []byte         `json:"signature"`
	Bundle    wireBundle     `json:"bundle"`
}

type wireBundle struct {
	Schema    wireSource   `json:"schema"`
	Policies  []wireSource `json:"policies"`
	Disabled  []string     `json:"disabled,omitempty"`
	Shadowed  []string     `json:"shadowed,omitempty"`
	Tables    tables       `json:",inline"`
	Screening []byte       `json:"screening,omitempty"`
}

type wireSource struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// signed is what the signature is over.
func signed(statement []byte) []byte {
	return append([]byte("memproxy release v1\n"), statement...)
}

// Seal signs a bundle as a release. The statement's Bundle is filled in.
func Seal(b Bundle, s Statement, key ed25519.PrivateKey) (*Release, error) {
	s.Bundle = b.Version()
	statement, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("policy: the statement: %w", err)
	}
	w := wireBundle{Disabled: b.Disabled, Shadowed: b.Shadowed, Tables: tablesOf(b), Screening: b.Screening}
	w.Schema = wireSource{b.Schema.base(), string(b.Schema.Text)}
	for _, p := range b.Policies {
		w.Policies = append(w.Policies, wireSource{p.base(), string(p.Text)})
	}
	encoded, err := json.Marshal(envelope{statement, ed25519.Sign(key, signed(statement)), w}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("policy: the bundle: %w", err)
	}
	return Open(encoded, key.Public().(ed25519.PublicKey))
}

// Open reads a release and checks it: the signature is one of the keys', and
// the bundle is the one that was signed. Whether it compiles is not asked.
func Open(encoded []byte, keys ...ed25519.PublicKey) (*Release, error) {
	fail := func(err error) (*Release, error) { return nil, fmt.Errorf("policy: release: %w", err) }
	if len(encoded) > MaxRelease {
		return fail(fmt.Errorf("over %d bytes", MaxRelease))
	}
	var e envelope
	if err := json.Unmarshal(encoded, &e, json.RejectUnknownMembers(true)); err != nil {
		return fail(err)
	}
	message := signed(e.Statement)
	if !slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool {
		return len(k) == ed25519.PublicKeySize && ed25519.Verify(k, message, e.Signature)
	}) {
		return fail(ErrSignature)
	}
	r := &Release{encoded: encoded}
	if err := json.Unmarshal(e.Statement, &r.Statement, json.RejectUnknownMembers(true)); err != nil {
		return fail(err)
	}
	if err := r.Statement.check(); err != nil {
		return fail(err)
	}
	b, err := e.Bundle.bundle()
	if err != nil {
		return fail(err)
	}
	if b.Version() != r.Bundle {
		return fail(ErrContent)
	}
	r.Contents = b
	return r, nil
}

func (w wireBundle) bundle() (Bundle, error) {
	b := Bundle{Disabled: w.Disabled, Shadowed: w.Shadowed, Screening: w.Screening}
	b.Schema = Source{w.Schema.Name, []byte(w.Schema.Text)}
	for _, p := range w.Policies {
		b.Policies = append(b.Policies, Source{p.Name, []byte(p.Text)})
	}
	for _, s := range append([]Source{b.Schema}, b.Policies...) {
		if s.Name != s.base() || !plain(s.Name) { // names stand in logs and errors
			return Bundle{}, errors.New("the name of a policy is not that of a file")
		}
	}
	return b, w.Tables.into(&b)
}

func (s Statement) check() error {
	switch {
	case s.Fleet == "":
		return errors.New("the statement names no fleet")
	case s.Number == 0:
		return errors.New("the statement has no number")
	case s.Floor > s.Number:
		return errors.New("the floor is above the number")
	case len(s.For.Labels) > 100 || !plain(s.Fleet) || !plain(s.Note) || !plain(s.For.Tenant):
		return errors.New("the statement is not plain text")
	}
	for k, v := range s.For.Labels {
		// "=" and "," would give two selectors one spelling.
		if k == "" || k == "tenant" || !plain(k) || !plain(v) || strings.ContainsAny(k+v, "=,") {
			return fmt.Errorf("the label %q is not a plain name with a plain value", k)
		}
	}
	if strings.ContainsAny(s.For.Tenant, "=,") {
		return errors.New("the tenant is not a plain name")
	}
	return nil
}

// plain reports whether s is short and has no control characters.
func plain(s string) bool {
	return len(s) <= 255 && strings.IndexFunc(s, unicode.IsControl) < 0
}
