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
	// PodNames accepts pods with their own name resolution (hostAliases, name servers).
	// Authors of such pods control where the names of backends lead, which is safe only
	// if every upstream uses HTTPS.
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
	sidecar         part
	ports           []int
	volumes         []part
	env             []part
	mounts          []part
	labels          map[string]string
	annotations     map[string]string
	privateVolumes  []string // volumes of the sidecar that are not shared with other containers
	reservedSecrets []string // Secrets reserved for the sidecar
	claimSuffixes   []string // suffixes of the names of claims that are made for a pod's sidecar
}

// part is one value of a template.
type part struct {
	name   string
	value  raw
	object map[string]any // the same value, decoded
}

// partOf converts a value through JSON, so that its numbers and lists compare equal to
// those of a pod. The keys are sorted, so that patches are deterministic.
func partOf(m map[string]any) (p part, err error) {
	if p.value, err = encode(m); err == nil {
		err = json.Unmarshal(p.value, &p.object)
	}
	p.name = text(p.object, "name")
	return p, err
}

// mount returns a part of the template's mounts in the form of a container's.
func (p part) mount() mount { return mount{p.name, text(p.object, "mountPath")} }

func (t Template) compile() (*template, error) {
	out := &template{labels: map[string]string{LabelInjected: "true"}, annotations: t.Annotations}
	maps.Copy(out.labels, t.Labels)
	var err error
	if out.sidecar, err = partOf(t.Sidecar); err != nil {
		return nil, err
	}
	var c container
	if err := json.Unmarshal(out.sidecar.value, &c); err != nil {
		return nil, fmt.Errorf("sidecar: %w", err)
	}
	switch {
	case c.Name == "":
		return nil, errors.New("sidecar: no name")
	case text(out.sidecar.object, "image") == "":
		return nil, errors.New("sidecar: no image")
	case out.sidecar.object["restartPolicy"] != "Always":
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
	for _, m := range out.mounts {
		if m.mount().Path == "" {
			return nil, fmt.Errorf("mounts: %s has no mountPath", m.name)
		}
	}
	out.reservedSecrets = c.secrets()
	for _, v := range out.volumes {
		if !strings.HasPrefix(v.name, VolumePrefix) {
			return nil, fmt.Errorf("volume %s: its name does not begin with %s", v.name, VolumePrefix)
		}
		if slices.ContainsFunc(out.mounts, func(m part) bool { return m.name == v.name }) {
			continue
		}
		out.privateVolumes = append(out.privateVolumes, v.name)
		secrets, _ := volume(v.object).references()
		out.reservedSecrets = append(out.reservedSecrets, secrets...)
		if v.object["ephemeral"] != nil {
			out.claimSuffixes = append(out.claimSuffixes, "-"+v.name) // such a claim is called POD-VOLUME
		}
	}
	out.reservedSecrets = slices.DeleteFunc(out.reservedSecrets, func(name string) bool { return name == "" })
	return out, nil
}

func parts(what string, list []map[string]any) (out []part, err error) {
	for i, m := range list {
		p, err := partOf(m)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s[%d]: %w", what, i, err)
		case p.name == "":
			return nil, fmt.Errorf("%s[%d]: no name", what, i)
		case what != "mounts" && slices.ContainsFunc(out, func(o part) bool { return o.name == p.name }):
			return nil, fmt.Errorf("%s: %s is repeated", what, p.name)
		}
		out = append(out, p)
	}
	return out, nil
}

// encode writes JSON with sorted keys.
func encode(v any) (raw, error) { return json.Marshal(v, json.Deterministic(true)) }
