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
	Volumes               []volume    `json:"volumes"`
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

// customDNS reports whether the pod overrides the cluster's name resolution.
func (s *podSpec) customDNS() bool {
	return len(s.HostAliases) > 0 || s.HostnameOverride != "" || s.DNSPolicy == "None" ||
		len(s.DNSConfig.Nameservers) > 0 || len(s.DNSConfig.Searches) > 0
}

// container is the part of a container, of any kind, that the webhooks use.
type container struct {
	Name          string     `json:"name"`
	Env           []variable `json:"env"`
	EnvFrom       []envFrom  `json:"envFrom"`
	VolumeMounts  []mount    `json:"volumeMounts"`
	VolumeDevices []mount    `json:"volumeDevices"`
	Target        string     `json:"targetContainerName"`
	Ports         []struct {
		Port int `json:"containerPort"`
	} `json:"ports"`
}

type variable struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	ValueFrom *struct {
		Secret secretRef `json:"secretKeyRef"`
		File   struct {
			Volume string `json:"volumeName"`
		} `json:"fileKeyRef"`
	} `json:"valueFrom"`
}

// equals reports whether a container's variable already has the template's value.
func (v variable) equals(w part) bool {
	value := w.object["value"] // absent for ""
	return v.ValueFrom == nil && w.object["valueFrom"] == nil && (value == v.Value || value == nil && v.Value == "")
}

type envFrom struct {
	Secret secretRef `json:"secretRef"`
}

// secretRef is the name of a Secret; "" is none.
type secretRef struct {
	Name string `json:"name"`
}

type mount struct {
	Name string `json:"name"`
	Path string `json:"mountPath"`
}

// volume is a pod's volume, of any kind.
type volume map[string]any

func (v volume) name() string { return text(v, "name") }

// text returns a member that is a string, else "".
func text(object map[string]any, member string) string {
	s, _ := object[member].(string)
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

// unsuitable returns why a pod cannot have a sidecar, or "".
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
func (v volume) references() (secrets, claims []string) {
	var walk func(map[string]any)
	walk = func(source map[string]any) {
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
	walk(v)
	return secrets, claims
}

// objects returns the objects in a value that is one object or a list of them.
func objects(v any) (out []map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		return []map[string]any{v}
	case []any:
		for _, x := range v {
			out = append(out, objects(x)...)
		}
	}
	return out
}

// secrets returns the names of the Secrets in a container's environment, including "" for
// references without a name.
func (c *container) secrets() (out []string) {
	for _, v := range c.Env {
		if v.ValueFrom != nil {
			out = append(out, v.ValueFrom.Secret.Name)
		}
	}
	for _, e := range c.EnvFrom {
		out = append(out, e.Secret.Name)
	}
	return out
}

// volumes returns the names of the volumes that a container mounts, or from which it
// takes variables.
func (c *container) volumes() (out []string) {
	for _, m := range slices.Concat(c.VolumeMounts, c.VolumeDevices) {
		out = append(out, m.Name)
	}
	for _, v := range c.Env {
		if v.ValueFrom != nil {
			out = append(out, v.ValueFrom.File.Volume)
		}
	}
	return out
}

// raw is a JSON value that is copied verbatim.
type raw = jsontext.Value
