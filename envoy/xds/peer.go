package xds

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
)

// Rule limits which sidecars a client certificate may act as. Either SPIFFE or CommonName
// is set; in both, * matches within one path segment or name.
type Rule struct {
	// SPIFFE is a pattern for the URI SAN, "spiffe://example.org/ns/acme/sa/*".
	SPIFFE string
	// CommonName is a pattern for the subject's common name.
	CommonName string
	// Tenant is the tenant that the sidecar must claim; "*" is any, "" none.
	Tenant string
	// Labels are the labels that the sidecar may claim, with the allowed values of each;
	// "*" is any.
	Labels map[string][]string
}

// identity is the identity in a verified certificate: its SPIFFE id, or else its common
// name.
type identity struct{ spiffe, name string }

func (i identity) String() string {
	if i.spiffe != "" {
		return i.spiffe
	}
	return "CN=" + i.name
}

// matches reports whether the rule applies to the certificate. The common name of a
// certificate with a SPIFFE id is ignored.
func (r Rule) matches(i identity) bool {
	if i.spiffe != "" {
		return r.SPIFFE != "" && glob(r.SPIFFE, i.spiffe, "/")
	}
	return r.CommonName != "" && i.name != "" && glob(r.CommonName, i.name, "")
}

// glob matches segment by segment; * matches one or more characters within a segment.
func glob(pattern, s, sep string) bool {
	one := func(p, s string) bool {
		head, tail, star := strings.Cut(p, "*")
		if !star {
			return p == s
		}
		return len(s) > len(head)+len(tail) && strings.HasPrefix(s, head) && strings.HasSuffix(s, tail)
	}
	if sep == "" {
		return one(pattern, s)
	}
	return slices.EqualFunc(strings.Split(pattern, sep), strings.Split(s, sep), one)
}

func (r Rule) permits(n fleetpb.Node) error {
	if r.Tenant != "*" && n.Tenant != r.Tenant {
		return fmt.Errorf("the certificate does not permit tenant %q", n.Tenant)
	}
	for k, v := range n.Labels {
		if values := r.Labels[k]; !slices.Contains(values, v) && !slices.Contains(values, "*") {
			return fmt.Errorf("the certificate does not permit label %s=%q", k, v)
		}
	}
	return nil
}

// authorise checks a sidecar's claims against the first rule that matches the
// certificate.
func authorise(rules []Rule, who identity, n fleetpb.Node) error {
	for _, r := range rules {
		if r.matches(who) {
			return r.permits(n)
		}
	}
	return errors.New("no rule matches this certificate")
}

// peerOf returns the identity of a stream's peer, from a certificate that TLS verified.
func peerOf(ctx context.Context) (identity, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return identity{}, errors.New("no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return identity{}, errors.New("no verified client certificate")
	}
	return identityOf(info.State.VerifiedChains[0][0])
}

func identityOf(cert *x509.Certificate) (identity, error) {
	var id identity
	for _, u := range cert.URIs {
		if u.Scheme != "spiffe" {
			continue
		}
		if id.spiffe != "" { // a SPIFFE certificate has exactly one URI
			return identity{}, errors.New("the certificate has two SPIFFE ids")
		}
		id.spiffe = u.String()
	}
	if id.name = cert.Subject.CommonName; id.spiffe == "" && id.name == "" {
		return identity{}, errors.New("the certificate has neither a SPIFFE id nor a common name")
	}
	return id, nil
}
