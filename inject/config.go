package inject

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/memproxy/memproxy/internal/durable"
	"go.yaml.in/yaml/v3"
)

// Config is the file of `memproxy inject --config FILE`. The chart writes it.
type Config struct {
	// Listen is the webhook's address, host:port.
	Listen string `yaml:"listen"`
	// Admin is the address of /healthz, /readyz and /metrics.
	Admin string `yaml:"admin"`
	TLS   struct {
		Cert string `yaml:"cert"`
		Key  string `yaml:"key"`
	} `yaml:"tls"`
	// Pods selects the pods to inject: "all" that do not opt out, or only "annotated"
	// ones.
	Pods string `yaml:"pods"`
	// PodNames is Options.PodNames.
	PodNames bool `yaml:"pod_names"`
	// Template is what is injected.
	Template Template `yaml:"template"`
}

// LoadConfig reads a file as ParseConfig does.
func LoadConfig(path string) (*Config, error) {
	text, err := durable.Read(path)
	if err != nil {
		return nil, err
	}
	c, err := ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig parses the file strictly: unknown keys are errors.
func ParseConfig(text []byte) (*Config, error) {
	var c Config
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && err != io.EOF {
		return nil, fmt.Errorf("inject: %w", err)
	}
	var errs []error
	for _, a := range [][2]string{{"listen", c.Listen}, {"admin", c.Admin}} {
		if _, _, err := net.SplitHostPort(a[1]); err != nil {
			errs = append(errs, fmt.Errorf("inject: %s %q is not host:port", a[0], a[1]))
		}
	}
	if c.TLS.Cert == "" || c.TLS.Key == "" {
		errs = append(errs, errors.New("inject: tls.cert and tls.key are required: API servers speak HTTPS only"))
	}
	if c.Pods != "all" && c.Pods != "annotated" {
		errs = append(errs, fmt.Errorf("inject: pods is %q, want all or annotated", c.Pods))
	}
	if _, err := c.Template.compile(); err != nil {
		errs = append(errs, fmt.Errorf("inject: template: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &c, nil
}

// Options are the injector's part of the configuration.
func (c *Config) Options() Options {
	return Options{Template: c.Template, All: c.Pods == "all", PodNames: c.PodNames}
}
