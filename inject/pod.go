package inject

import (
	"iter"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// pod is the part of a Pod that is read. Other members are neither read nor changed.
type pod struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Containers            []container `json:"containers"`
		InitContainers        []container `json:"initContainers"`
		EphemeralContainers   []container `json:"ephemeralContainers"`
		Volumes               []volume    `json:"volumes"`
		HostNetwork           bool        `json:"hostNetwork"`
		HostPID               bool        `json:"hostPID"`
		ShareProcessNamespace bool        `json:"shareProcessNamespace"`
		HostAliases           []raw       `json:"hostAliases"`
		DNSPolicy             string      `json:"dnsPolicy"`
		DNSConfig             struct {
			Nameservers []string `json:"nameservers"`
			Searches    []string `json:"searches"`
		} `json:"dnsConfig"`
		OS struct {
			Name string `json:"name"`
		} `json:"os"`
	} `json:"spec"`
}

// container is the part of a container, of any kind, that is read.
type container struct {
	Name         string     `json:"name"`
	Env          []variable `json:"env"`
	EnvFrom      []envFrom  `json:"envFrom"`
	VolumeMounts []mount    `json:"volumeMounts"`
	Target       string     `json:"targetContainerName"`
	Ports        []struct {
		Port int `json:"containerPort"`
	} `json:"ports"`
}

type variable struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	ValueFrom *struct {
		Secret secretRef `json:"secretKeyRef"`
	} `json:"valueFrom"`
}

type envFrom struct {
	Secret secretRef `json:"secretRef"`
}

// secretRef names a Secret; "": none.
type secretRef struct {
	Name string `json:"name"`
}

type mount struct {
	Name string `json:"name"`
	Path string `json:"mountPath"`
}

type volume struct {
	Name   string `json:"name"`
	Secret struct {
		Name string `json:"secretName"`
	} `json:"secret"`
	Projected struct {
		Sources []struct {
			Secret secretRef `json:"secret"`
		} `json:"sources"`
	} `json:"projected"`
	Claim struct {
		Name string `json:"claimName"`
	} `json:"persistentVolumeClaim"`
	Ephemeral raw `json:"ephemeral"`
}

// JSON pointers of the lists of containers.
const (
	initContainers      = "/spec/initContainers"
	ephemeralContainers = "/spec/ephemeralContainers"
)

// containers iterates over the containers of all kinds with their JSON pointers.
func (p *pod) containers() iter.Seq2[string, *container] {
	return func(yield func(string, *container) bool) {
		for _, sort := range [...]struct {
			path string
			list []container
		}{{initContainers, p.Spec.InitContainers}, {"/spec/containers", p.Spec.Containers}, {ephemeralContainers, p.Spec.EphemeralContainers}} {
			for k := range sort.list {
				if !yield(sort.path+"/"+strconv.Itoa(k), &sort.list[k]) {
					return
				}
			}
		}
	}
}

// unsuitable says why a pod cannot have a sidecar, or "".
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
	case !i.opt.PodNames && (len(s.HostAliases) > 0 || s.DNSPolicy == "None" || len(s.DNSConfig.Nameservers)+len(s.DNSConfig.Searches) > 0):
		return "the pod resolves names in its own way: it could send the sidecar, and the backend's credential, somewhere else"
	}
	return ""
}

// secrets are the names of the Secrets that a volume exposes; "": none.
func (v *volume) secrets() []string {
	out := []string{v.Secret.Name}
	for _, s := range v.Projected.Sources {
		out = append(out, s.Secret.Name)
	}
	return out
}

// secrets are the names of the Secrets in a container's environment; "": none.
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

// raw is a JSON value that is copied verbatim.
type raw = jsontext.Value
