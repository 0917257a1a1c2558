package inject

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// pod is the part of a Pod that the webhooks use. Other members are neither read nor
// changed.
type pod struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec podSpec `json:"spec"`
}

type podSpec struct {
	Containers            []container `json:"containers"`
	InitContainers        []container `json:"initContainers"`
	EphemeralContainers   []container `json:"ephemeralContainers"`
	Volumes               []object    `json:"volumes"`
	HostNetwork           bool        `json:"hostNetwork"`
	HostPID               bool        `json:"hostPID"`
	ShareProcessNamespace bool        `json:"shareProcessNamespace"`
	HostnameOverride      string      `json:"hostnameOverride"`
	HostAliases           []raw       `json:"hostAliases"`
	DNSPolicy             string      `json:"dnsPolicy"`
	DNSConfig             struct {
		Nameservers []string `json:"nameservers"`
		Searches    []string `json:"searches"`
	} `json:"dnsConfig"`
	OS struct {
		Name string `json:"name"`
	} `json:"os"`
}

func (s *podSpec) customDNS() bool {
	return len(s.HostAliases) > 0 || s.HostnameOverride != "" || s.DNSPolicy == "None" ||
		len(s.DNSConfig.Nameservers) > 0 || len(s.DNSConfig.Searches) > 0
}

// container is the part of a container, of any kind, that the webhooks use.
type container struct {
	Name          string   `json:"name"`
	Env           []object `json:"env"`
	EnvFrom       []object `json:"envFrom"`
	VolumeMounts  []object `json:"volumeMounts"`
	VolumeDevices []object `json:"volumeDevices"`
	Target        string   `json:"targetContainerName"`
	Ports         []struct {
		Port int `json:"containerPort"`
	} `json:"ports"`
}

// object is a JSON object that is compared or copied as a whole: a volume of any kind, a
// mount, a variable, the sidecar.
type object = map[string]any

// text returns the string at a path of member names, or "".
func text(v any, path ...string) string {
	for _, member := range path {
		o, _ := v.(object)
		v = o[member]
	}
	s, _ := v.(string)
	return s
}

// JSON pointers of the lists of containers.
const (
	initContainers      = "/spec/initContainers"
	ephemeralContainers = "/spec/ephemeralContainers"
)

// containers iterates over the containers of all kinds with their JSON pointers.
func (p *pod) containers() iter.Seq2[string, *container] {
	return func(yield func(string, *container) bool) {
		for _, kind := range [...]struct {
			path string
			list []container
		}{{initContainers, p.Spec.InitContainers}, {"/spec/containers", p.Spec.Containers}, {ephemeralContainers, p.Spec.EphemeralContainers}} {
			for k := range kind.list {
				if !yield(kind.path+"/"+strconv.Itoa(k), &kind.list[k]) {
					return
				}
			}
		}
	}
}

func (i *Injector) unsuitable(p *pod) string {
	s := &p.Spec
	switch {
	case s.HostNetwork:
		return "the pod uses the host's network: the sidecar's loopback address would be the node's. Annotate it " +
			AnnotationInject + ": \"false\", or give up hostNetwork"
	case s.ShareProcessNamespace, s.HostPID:
		return "the pod's containers share a process namespace: they could look into the sidecar"
	case s.OS.Name != "" && s.OS.Name != "linux":
		return "the sidecar runs on Linux only"
	case !i.podNames && s.customDNS():
		return "the pod resolves names in its own way: it could send the sidecar, and the backend's credential, somewhere else"
	}
	return ""
}

// references returns the names of the Secrets and persistent volume claims to which a
// volume refers, at any depth, because each kind of volume has its own members for them.
func references(volume object) (secrets, claims []string) {
	var walk func(object)
	walk = func(source object) {
		for k, x := range source {
			switch name, _ := x.(string); k {
			case "secretName":
				secrets = append(secrets, name)
			case "claimName":
				claims = append(claims, name)
			}
			for _, m := range objects(x) {
				name := text(m, "name")
				switch {
				case strings.HasPrefix(k, "dataSource"):
					claims = append(claims, name)
				case k == "secret", strings.HasSuffix(k, "ecretRef"):
					secrets = append(secrets, name)
				}
				walk(m)
			}
		}
	}
	walk(volume)
	return secrets, claims
}

func objects(v any) (out []object) {
	switch v := v.(type) {
	case object:
		return []object{v}
	case []any:
		for _, x := range v {
			out = append(out, objects(x)...)
		}
	}
	return out
}

// secrets returns the names of the Secrets in a container's environment, and "" for
// variables without one.
func (c *container) secrets() (out []string) {
	for _, v := range c.Env {
		out = append(out, text(v, "valueFrom", "secretKeyRef", "name"))
	}
	for _, e := range c.EnvFrom {
		out = append(out, text(e, "secretRef", "name"))
	}
	return out
}

// volumes returns the names of the volumes that a container mounts, or from which it
// takes variables, and "" for other variables.
func (c *container) volumes() (out []string) {
	for _, m := range slices.Concat(c.VolumeMounts, c.VolumeDevices) {
		out = append(out, text(m, "name"))
	}
	for _, v := range c.Env {
		out = append(out, text(v, "valueFrom", "fileKeyRef", "volumeName"))
	}
	return out
}

// raw is a JSON value that is copied verbatim.
type raw = jsontext.Value
