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

// MaxRelease is the maximum size of an encoded release in bytes.
const MaxRelease = 16 << 20

// Errors of OpenRelease that callers need to distinguish.
var (
	ErrSignature = errors.New("the signature matches no key of the fleet")
	ErrContent   = errors.New("the bundle is not the one that was signed")
)

// Selector selects the sidecars of a release: those of the tenant that have all of the
// labels. The zero value selects every sidecar.
type Selector struct {
	Tenant string            `json:"tenant,omitzero"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Matches reports whether a sidecar of this tenant and with these labels is selected.
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

// Specificity orders selectors that match the same sidecar: a heavier selector is more
// specific. A tenant outweighs any number of labels.
func (s Selector) Specificity() int {
	w := len(s.Labels)
	if s.Tenant != "" {
		w += 1 << 16
	}
	return w
}

// String returns the selector's canonical form, "tenant=acme,env=prod", or "*" for every
// sidecar. Releases with the same form belong to the same channel.
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

// Statement is the part of a release that the fleet's key signs.
type Statement struct {
	// Fleet is the name of the installation. A sidecar accepts only releases of its own
	// fleet.
	Fleet string `json:"fleet"`
	// Number orders all releases of a fleet, across selectors. Each number is used once.
	Number uint64 `json:"number"`
	// Floor is the lowest release number to which a sidecar with this release may return.
	// Floor == Number forbids a rollback; a lower floor permits one without a new
	// signature.
	Floor    uint64   `json:"floor"`
	Selector Selector `json:"for,omitzero"`
	// Bundle is the version of the bundle, which is its hash.
	Bundle string `json:"bundle"`
	// BuiltinOff says that the bundle leaves the built-in policies out.
	BuiltinOff bool `json:"builtin_off,omitzero"`
	// Note is free text for operators.
	Note string `json:"note,omitzero"`
}

// Name returns the name of a release in files, in logs and on the wire: its number and
// the beginning of the bundle's hash.
func (s Statement) Name() string {
	return fmt.Sprintf("%06d-%.12s", s.Number, s.Bundle)
}

// Release is a bundle with its signed statement, as returned by SignRelease or
// OpenRelease. It is immutable.
type Release struct {
	Statement
	Contents Bundle
	encoded  []byte
}

// Encoded returns the release as it is stored and sent.
func (r *Release) Encoded() []byte { return r.encoded }

// envelope is the encoded form of a release. Statement keeps the exact signed bytes.
type envelope struct {
	Statement jsontext.Value `json:"statement"`
	Signature []byte         `json:"signature"`
	Bundle    wireBundle     `json:"bundle"`
}

type wireBundle struct {
	Schema    Source   `json:"schema"`
	Policies  []Source `json:"policies"`
	Disabled  []string `json:"disabled,omitempty"`
	Shadowed  []string `json:"shadowed,omitempty"`
	Tables    tables   `json:",inline"`
	Screening []byte   `json:"screening,omitempty"`
}

// signed returns the message that the signature covers. Its prefix separates it from
// other signatures of the key.
func signed(statement []byte) []byte {
	return append([]byte("memproxy release v1\n"), statement...)
}

// SignRelease signs a bundle as a release. It sets the statement's Bundle and BuiltinOff.
func SignRelease(b Bundle, s Statement, key ed25519.PrivateKey) (*Release, error) {
	s.Bundle, s.BuiltinOff = b.Version(), b.BuiltinOff() != ""
	statement, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("policy: the statement: %w", err)
	}
	w := wireBundle{
		Schema: Source{b.Schema.base(), b.Schema.Text}, Policies: slices.Clone(b.Policies),
		Disabled: b.Disabled, Shadowed: b.Shadowed, Tables: tablesOf(b), Screening: b.Screening,
	}
	for i, p := range w.Policies {
		w.Policies[i].Name = p.base()
	}
	encoded, err := json.Marshal(envelope{statement, ed25519.Sign(key, signed(statement)), w}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("policy: the bundle: %w", err)
	}
	return OpenRelease(encoded, key.Public().(ed25519.PublicKey))
}

// OpenRelease decodes a release and verifies that one of the keys signed it and that it
// contains the signed bundle. It does not compile the bundle.
func OpenRelease(encoded []byte, keys ...ed25519.PublicKey) (*Release, error) {
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
	if r.BuiltinOff || !slices.ContainsFunc(b.Policies, func(s Source) bool { return slices.ContainsFunc(Builtin().Policies, s.sameName) }) {
		b.builtinOff = settingsFile + " of release " + r.Name()
	}
	r.Contents = b
	return r, nil
}

func (s Source) sameName(o Source) bool { return s.base() == o.base() }

func (w wireBundle) bundle() (Bundle, error) {
	b := Bundle{
		Schema: w.Schema, Policies: w.Policies, Disabled: w.Disabled, Shadowed: w.Shadowed,
		Screening: w.Screening,
	}
	for _, s := range append([]Source{b.Schema}, b.Policies...) {
		if s.Name != s.base() || !plain(s.Name) { // logs and errors show names
			return Bundle{}, errors.New("the name of a policy is not that of a file")
		}
	}
	err := w.Tables.applyTo(&b)
	return b, err
}

func (s Statement) check() error {
	switch {
	case s.Fleet == "":
		return errors.New("the statement names no fleet")
	case s.Number == 0:
		return errors.New("the statement has no number")
	case s.Floor > s.Number:
		return errors.New("the floor is above the number")
	case len(s.Selector.Labels) > 100 || !plain(s.Fleet) || !plain(s.Note) || !plain(s.Selector.Tenant):
		return errors.New("the statement is not plain text")
	}
	for k, v := range s.Selector.Labels {
		// "=" and "," would make String ambiguous.
		if k == "" || k == "tenant" || !plain(k) || !plain(v) || strings.ContainsAny(k+v, "=,") {
			return fmt.Errorf("the label %q is not a plain name with a plain value", k)
		}
	}
	if strings.ContainsAny(s.Selector.Tenant, "=,") {
		return errors.New("the tenant is not a plain name")
	}
	return nil
}

func plain(s string) bool {
	return len(s) <= 255 && strings.IndexFunc(s, unicode.IsControl) < 0
}
