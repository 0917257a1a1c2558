package inject

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy/internal/durable"
)

// Config is the configuration file of `memproxy inject --config FILE`, which the chart
// writes.
type Config struct {
	// Listen is the address of the webhooks, host:port.
	Listen string `yaml:"listen"`
	// Admin is the address of /healthz, /readyz and /metrics.
	Admin string `yaml:"admin"`
	TLS   struct {
		Cert string `yaml:"cert"`
		Key  string `yaml:"key"`
	} `yaml:"tls"`
	// Pods selects the pods to inject: "all" except those that opt out, or only the
	// "annotated" ones.
	Pods string `yaml:"pods"`
	// PodNames is the same as Options.PodNames.
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

// Options returns the injector's part of the configuration.
func (c *Config) Options() Options {
	return Options{Template: c.Template, All: c.Pods == "all", PodNames: c.PodNames}
}

// Template is what is injected into a pod. The chart writes it. Pods that the webhook
// does not inject can include the same text themselves.
type Template struct {
	// Sidecar is the container. It is a native sidecar: the first init container, with
	// restartPolicy Always.
	Sidecar map[string]any `yaml:"sidecar"`
	// Ports are the ports on which the sidecar listens on the pod's loopback address.
	// Other containers may use neither these nor those that Sidecar declares.
	Ports []int `yaml:"ports"`
	// Volumes are added to the pod. Their names begin with VolumePrefix.
	Volumes []map[string]any `yaml:"volumes"`
	// Env is set in every other container, and overrides existing variables.
	Env []map[string]any `yaml:"env"`
	// Mounts are added to every other container.
	Mounts []map[string]any `yaml:"mounts"`
	// Labels and Annotations are set on the pod.
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// VolumePrefix begins the names of the sidecar's volumes.
const VolumePrefix = "memproxy-"

// Labels and annotations of pods.
const (
	// LabelInjected marks pods that have the sidecar. Network policies of backends select
	// it, and the webhooks ensure that no other pod has it.
	LabelInjected = "memproxy.io/injected"
	// AnnotationInject is "true" or "false": the pod opts in or out.
	AnnotationInject = "memproxy.io/inject"
	// AnnotationContainers limits the environment to the named containers, separated by
	// commas. Without it every container gets the environment.
	AnnotationContainers = "memproxy.io/containers"
)

// template is a compiled Template: values as JSON, with their names.
type template struct {
	name    string // name of the sidecar's container
	sidecar raw
	object  map[string]any
	ports   []int
	volumes []part
	env     []part
	mounts  []part
	labels  map[string]string
	notes   map[string]string
	secrets []string // Secrets reserved for the sidecar
	claims  []string // suffixes of the names of claims that are made for a pod's sidecar
}

type part struct {
	name   string
	value  raw
	object any   // the same value, decoded
	at     mount // of a mount
}

func (t Template) compile() (*template, error) {
	out := &template{labels: map[string]string{LabelInjected: "true"}, notes: t.Annotations}
	maps.Copy(out.labels, t.Labels)
	// The values are converted through JSON, so that numbers and lists compare equal to
	// those of a pod.
	var err error
	if out.sidecar, err = encode(t.Sidecar); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out.sidecar, &out.object); err != nil {
		return nil, err
	}
	var c container
	if err := json.Unmarshal(out.sidecar, &c); err != nil {
		return nil, fmt.Errorf("sidecar: %w", err)
	}
	out.name = c.Name
	switch image, _ := t.Sidecar["image"].(string); {
	case c.Name == "":
		return nil, errors.New("sidecar: no name")
	case image == "":
		return nil, errors.New("sidecar: no image")
	case t.Sidecar["restartPolicy"] != "Always":
		return nil, errors.New("sidecar: restartPolicy is not Always: it would end before the other containers start")
	}
	out.ports = slices.Clone(t.Ports)
	for _, p := range c.Ports {
		out.ports = append(out.ports, p.Port)
	}
	for _, l := range []struct {
		what string
		list []map[string]any
		to   *[]part
	}{{"volumes", t.Volumes, &out.volumes}, {"env", t.Env, &out.env}, {"mounts", t.Mounts, &out.mounts}} {
		if *l.to, err = parts(l.what, l.list); err != nil {
			return nil, err
		}
	}
	shared := map[string]bool{}
	for k := range out.mounts {
		m := &out.mounts[k]
		if err := json.Unmarshal(m.value, &m.at); err != nil || m.at.Path == "" {
			return nil, fmt.Errorf("mounts: %s has no mountPath", m.name)
		}
		shared[m.name] = true
	}
	out.secrets = c.secrets()
	for _, v := range out.volumes {
		var vol volume
		if err := json.Unmarshal(v.value, &vol); err != nil {
			return nil, fmt.Errorf("volume %s: %w", v.name, err)
		}
		if !strings.HasPrefix(v.name, VolumePrefix) {
			return nil, fmt.Errorf("volume %s: its name does not begin with %s", v.name, VolumePrefix)
		}
		if !shared[v.name] {
			secrets, _ := vol.references()
			out.secrets = append(out.secrets, secrets...)
			if vol["ephemeral"] != nil {
				out.claims = append(out.claims, "-"+v.name) // such a claim is called POD-VOLUME
			}
		}
	}
	slices.Sort(out.secrets)
	out.secrets = slices.DeleteFunc(slices.Compact(out.secrets), func(name string) bool { return name == "" })
	return out, nil
}

func parts(what string, list []map[string]any) (out []part, err error) {
	for i, m := range list {
		v, err := encode(m)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", what, i, err)
		}
		name, _ := m["name"].(string)
		if name == "" {
			return nil, fmt.Errorf("%s[%d]: no name", what, i)
		}
		if what != "mounts" && slices.ContainsFunc(out, func(p part) bool { return p.name == name }) {
			return nil, fmt.Errorf("%s: %s is repeated", what, name)
		}
		p := part{name: name, value: v}
		if err := json.Unmarshal(v, &p.object); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// encode writes JSON with sorted keys, so that patches are deterministic.
func encode(v any) (raw, error) { return json.Marshal(v, json.Deterministic(true)) }
