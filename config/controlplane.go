package config

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net"
	"reflect"
	"strings"
	"time"
)

// ControlPlane is the configuration of memproxy control. Tags are as in Config;
// docs/fleet.md has the table.
type ControlPlane struct {
	Fleet    string        `yaml:"fleet,omitempty" doc:"name of the fleet; releases of other fleets are not offered" required:"true"`
	Listen   string        `yaml:"listen,omitempty" doc:"address that sidecars connect to" default:"0.0.0.0:9902"`
	Admin    ControlAdmin  `yaml:"admin,omitempty" doc:"the listener of probes, metrics and the fleet's state"`
	TLS      ControlServer `yaml:"tls,omitempty" doc:"certificate of the listener, and who may connect" required:"true"`
	Releases string        `yaml:"releases,omitempty" doc:"directory of releases, shared by replicas" required:"true"`
	Progress string        `yaml:"progress,omitempty" doc:"directory of rollout progress, shared by replicas" default:"that of releases"`
	Keys     []string      `yaml:"keys,omitempty" doc:"public keys of the fleet, Ed25519 in base64; releases without a valid signature are not offered" required:"true"`
	Poll     Duration      `yaml:"poll,omitempty" doc:"how often the directory is read" default:"1s" min:"1ms"`
	Report   Duration      `yaml:"report,omitempty" doc:"how often sidecars report their decisions" default:"10s" min:"10ms"`
	Sidecars []SidecarRule `yaml:"sidecars,omitempty" doc:"which certificates may act as which sidecars; the first match counts" required:"true"`
	Rollout  Rollout       `yaml:"rollout,omitempty" doc:"how a release is rolled out"`
	Replay   Replay        `yaml:"replay,omitempty" doc:"recorded decisions, to find out what a release newly allows"`
	Log      ControlLog    `yaml:"log,omitempty" doc:"the process's own log, on stderr"`
}

// ControlLog configures the log of memproxy control, which has no profiles.
type ControlLog struct {
	Level  string `yaml:"level,omitempty" doc:"lowest level that is logged" default:"info" enum:"debug,info,warn,error"`
	Format string `yaml:"format,omitempty" doc:"format of the log" default:"json" enum:"text,json"`
}

// ControlAdmin is the control plane's admin listener.
type ControlAdmin struct {
	Hosts  []string `yaml:"hosts,omitempty" doc:"host names under which metrics and the fleet's state are served, besides localhost and the address of the connection"`
	Listen string   `yaml:"listen,omitempty" doc:"address of /healthz, /readyz, /metrics, /fleet and /fleet/sidecars" default:"127.0.0.1:9903"`
}

// ControlServer names the PEM files of the control plane's listener.
type ControlServer struct {
	Cert     string `yaml:"cert,omitempty" doc:"certificate chain of the listener" required:"true"`
	Key      string `yaml:"key,omitempty" doc:"its private key" required:"true"`
	ClientCA string `yaml:"client_ca,omitempty" doc:"roots of the sidecars' certificates" required:"true"`
}

// SidecarRule determines which tenant and labels the holder of a certificate may claim.
type SidecarRule struct {
	SPIFFE     string           `yaml:"spiffe,omitempty" doc:"SPIFFE id; * matches text within one segment of the path"`
	CommonName string           `yaml:"common_name,omitempty" doc:"common name of a certificate without a SPIFFE id; * matches any text"`
	Tenant     string           `yaml:"tenant,omitempty" doc:"tenant that it must claim; \"*\": any; absent: none"`
	Labels     map[string]Names `yaml:"labels,omitempty" doc:"labels that it may claim, with their values; \"*\": any value"`
}

// Rollout configures how a release is rolled out.
type Rollout struct {
	Stages     []RolloutStage `yaml:"stages,omitempty" doc:"shares of the sidecars, one after the other; []: all at once" default:"10, 50 and 100 per cent, ten minutes each"`
	Refused    *float64       `yaml:"refused,omitempty" doc:"rise of the share of refused decisions that stops the rollout, from 0 to 1" default:"0.05" min:"0" max:"1"`
	Errors     *float64       `yaml:"errors,omitempty" doc:"rise of the share of failed decisions that stops the rollout, from 0 to 1" default:"0.01" min:"0" max:"1"`
	Decisions  *int64         `yaml:"decisions,omitempty" doc:"decisions required before shares are compared" default:"200" min:"1"`
	Rejections *int64         `yaml:"rejections,omitempty" doc:"sidecars that may reject the release before the rollout stops" default:"0" min:"0"`
}

// RolloutStage is a share of the sidecars.
type RolloutStage struct {
	Percent float64  `yaml:"percent,omitempty" doc:"share of the sidecars, per cent" required:"true" min:"0.001" max:"100"`
	Hold    Duration `yaml:"hold,omitempty" doc:"how long the stage is observed" default:"0s"`
}

// Replay configures recorded decisions.
type Replay struct {
	Decisions string `yaml:"decisions,omitempty" doc:"file of audit records or cases, JSON lines"`
	Config    string `yaml:"config,omitempty" doc:"memproxy.yaml whose profile and ceilings apply"`
}

// LoadControlPlane reads the file of memproxy control, as Load does.
func LoadControlPlane(path string, getenv func(string) string) (*ControlPlane, error) {
	b, err := Read(path)
	if err != nil {
		return nil, err
	}
	return ParseControlPlane(path, b, getenv)
}

// ParseControlPlane parses a configuration of memproxy control. name is used in errors.
func ParseControlPlane(name string, text []byte, getenv func(string) string) (*ControlPlane, error) {
	c := &ControlPlane{}
	_, err := parse(name, text, getenv, c, func(v *reader, at func(...any) int) {
		c.defaults()
		v.controlPlane(c, at)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *ControlPlane) defaults() {
	fill(reflect.ValueOf(c).Elem(), true)
	or(&c.Progress, c.Releases)
	if c.Rollout.Stages == nil {
		hold := Duration(10 * time.Minute)
		c.Rollout.Stages = []RolloutStage{{10, hold}, {50, hold}, {100, hold}}
	}
}

func (v *reader) controlPlane(c *ControlPlane, at func(...any) int) {
	v.listen(c.Listen, at("listen"))
	v.listen(c.Admin.Listen, at("admin", "listen"))
	faultIf(v, c.Listen == c.Admin.Listen && !strings.HasSuffix(c.Listen, ":0"), at("admin", "listen"), "%s is the address of the sidecars already", c.Listen)
	releaseKeys(v, c.Keys, "offered", at)
	faultIf(v, len(c.Sidecars) == 0, at("sidecars"), "sidecars is empty: no certificate would be admitted")
	for i, s := range c.Sidecars {
		one := (s.SPIFFE == "") != (s.CommonName == "")
		faultIf(v, !one, at("sidecars", i), "a sidecar has either spiffe or common_name")
		faultIf(v, one && s.SPIFFE != "" && !strings.HasPrefix(s.SPIFFE, "spiffe://"), at("sidecars", i, "spiffe"), "spiffe must begin with spiffe://")
	}
	last := 0.0
	for i, s := range c.Rollout.Stages {
		faultIf(v, s.Percent <= last, at("rollout", "stages", i), "the stages must be in ascending order: %v is not", s.Percent)
		last = s.Percent
	}
}

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

func (v *reader) control(c *Control, at func(...any) int) {
	host, port, err := net.SplitHostPort(c.Address)
	faultIf(v, err != nil || host == "" || port == "", at("address"), "address %q is not host:port", c.Address)
	faultIf(v, c.Node == "" || c.Node == "*", at("node"), "the host has no name; set node")
	releaseKeys(v, c.Keys, "taken", at)
	for k, value := range c.Labels {
		faultIf(v, k == "" || k == "tenant" || strings.ContainsAny(k+value, "=,"), at("labels", k), "the label %q is not a plain name with a plain value", k)
	}
}

// releaseKeys checks a fleet's public keys. done completes the fault: what is impossible
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
func PublicKeys(list []string) []ed25519.PublicKey {
	out := make([]ed25519.PublicKey, len(list))
	for i, s := range list {
		out[i], _ = PublicKey(s) // Load has checked it; without a value it verifies nothing
	}
	return out
}
