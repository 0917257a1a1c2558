package config

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net"
	"os"
	"strings"
)

// Control is policy.control: the control plane that distributes the rules.
type Control struct {
	Address string            `yaml:"address,omitempty" doc:"host:port of the control plane" required:"true" loose:"-"`
	Fleet   string            `yaml:"fleet,omitempty" doc:"name of the fleet; releases of other fleets are refused" required:"true" loose:"-"`
	Keys    []string          `yaml:"keys,omitempty" doc:"public keys of the fleet, Ed25519 in base64; one of them must have signed a release" required:"true" loose:"-"`
	TLS     ControlTLS        `yaml:"tls,omitempty" doc:"client certificate of this sidecar" required:"true" loose:"-"`
	Node    string            `yaml:"node,omitempty" doc:"name of this sidecar, unique in the fleet" default:"the host's name" loose:"-"`
	Tenant  string            `yaml:"tenant,omitempty" doc:"tenant whose releases it receives; the certificate must allow it" loose:"-"`
	Labels  map[string]string `yaml:"labels,omitempty" doc:"labels that select releases; the certificate must allow them" loose:"-"`
}

// ControlTLS names the PEM files of a sidecar's client certificate.
type ControlTLS struct {
	Cert string `yaml:"cert,omitempty" doc:"client certificate chain" required:"true" loose:"-"`
	Key  string `yaml:"key,omitempty" doc:"its private key" required:"true" loose:"-"`
	CA   string `yaml:"ca,omitempty" doc:"roots of the control plane's certificate" required:"true" loose:"-"`
	Name string `yaml:"name,omitempty" doc:"name that the control plane's certificate must have" default:"the host of address" loose:"-"`
}

func (c *Control) defaults() {
	if c.Node == "" {
		c.Node, _ = os.Hostname() // check requires node if the host has no name
	}
}

func (v *reader) control(c *Control, at func(...any) int) {
	host, port, err := net.SplitHostPort(c.Address)
	faultIf(v, err != nil || host == "" || port == "", at("address"), "address %q is not host:port", c.Address)
	faultIf(v, c.Node == "" || c.Node == "*", at("node"), "the host has no name; give the sidecar one with node")
	releaseKeys(v, c.Keys, "taken", at)
	for k, value := range c.Labels {
		faultIf(v, k == "" || k == "tenant" || strings.ContainsAny(k+value, "=,"), at("labels", k), "the label %q is not a plain name with a plain value", k)
	}
}

// releaseKeys checks a fleet's public keys. done says in the fault what is impossible
// without keys.
func releaseKeys(v *reader, list []string, done string, at func(...any) int) {
	faultIf(v, len(list) == 0, at("keys"), "keys is empty: no release could be %s", done)
	for i, k := range list {
		_, err := PublicKey(k)
		faultIf(v, err != nil, at("keys", i), "keys[%d] %v", i, err)
	}
}

// PublicKey parses an Ed25519 public key in base64.
func PublicKey(s string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, errors.New("is not an Ed25519 public key in base64")
	}
	return b, nil
}

// PublicKeys parses the keys of a checked configuration.
func PublicKeys(list []string) ([]ed25519.PublicKey, error) {
	out := make([]ed25519.PublicKey, 0, len(list))
	for _, s := range list {
		k, err := PublicKey(s)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}
