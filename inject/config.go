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

type template struct {
	name                 string // of the sidecar
	sidecar              object
	ports                []int
	volumes, env, mounts []object
	labels               map[string]string
	annotations          map[string]string
	privateVolumes       []string // volumes of the sidecar that are not shared with other containers
	reservedSecrets      []string // Secrets reserved for the sidecar
	claimSuffixes        []string // suffixes of the names of claims that are made for a pod's sidecar
}

// throughJSON copies a value through JSON, so that its numbers and lists compare equal to
// those of a pod.
func throughJSON(value, to any) error {
	b, err := encode(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}

func (t Template) compile() (*template, error) {
	out := &template{labels: map[string]string{LabelInjected: "true"}, annotations: t.Annotations}
	maps.Copy(out.labels, t.Labels)
	var c container
	if err := errors.Join(throughJSON(t.Sidecar, &out.sidecar), throughJSON(t.Sidecar, &c)); err != nil {
		return nil, fmt.Errorf("sidecar: %w", err)
	}
	out.name = c.Name
	switch {
	case c.Name == "":
		return nil, errors.New("sidecar: no name")
	case text(out.sidecar, "image") == "":
		return nil, errors.New("sidecar: no image")
	case out.sidecar["restartPolicy"] != "Always":
		return nil, errors.New("sidecar: restartPolicy is not Always: it would end before the other containers start")
	}
	out.ports = slices.Clone(t.Ports)
	for _, p := range c.Ports {
		out.ports = append(out.ports, p.Port)
	}
	for _, l := range []struct {
		what string
		list []map[string]any
		to   *[]object
	}{{"volumes", t.Volumes, &out.volumes}, {"env", t.Env, &out.env}, {"mounts", t.Mounts, &out.mounts}} {
		if err := throughJSON(l.list, l.to); err != nil {
			return nil, fmt.Errorf("%s: %w", l.what, err)
		}
		if err := checkNames(l.what, *l.to); err != nil {
			return nil, err
		}
	}
	for _, m := range out.mounts {
		if text(m, "mountPath") == "" {
			return nil, fmt.Errorf("mounts: %s has no mountPath", text(m, "name"))
		}
	}
	out.reservedSecrets = c.secrets()
	for _, v := range out.volumes {
		name := text(v, "name")
		if !strings.HasPrefix(name, VolumePrefix) {
			return nil, fmt.Errorf("volume %s: its name does not begin with %s", name, VolumePrefix)
		}
		if slices.ContainsFunc(out.mounts, func(m object) bool { return text(m, "name") == name }) {
			continue
		}
		out.privateVolumes = append(out.privateVolumes, name)
		secrets, _ := references(v)
		out.reservedSecrets = append(out.reservedSecrets, secrets...)
		if v["ephemeral"] != nil {
			out.claimSuffixes = append(out.claimSuffixes, "-"+name) // such a claim is called POD-VOLUME
		}
	}
	out.reservedSecrets = slices.DeleteFunc(out.reservedSecrets, func(name string) bool { return name == "" })
	return out, nil
}

// checkNames checks that the objects of a list have names and, unless they are mounts, that
// none is repeated.
func checkNames(what string, list []object) error {
	for i, o := range list {
		name := text(o, "name")
		switch {
		case name == "":
			return fmt.Errorf("%s[%d]: no name", what, i)
		case what != "mounts" && slices.ContainsFunc(list[:i], func(before object) bool { return text(before, "name") == name }):
			return fmt.Errorf("%s: %s is repeated", what, name)
		}
	}
	return nil
}

// encode writes JSON with sorted keys.
func encode(v any) (raw, error) { return json.Marshal(v, json.Deterministic(true)) }
