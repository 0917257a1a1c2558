package inject

import (
	"github.com/go-json-experiment/json/jsontext"
)

// pod is what is read of a Pod. Members that are not here are neither read nor
// touched.
type pod struct {
	Metadata struct {
		Name         string            `json:"name"`
		GenerateName string            `json:"generateName"`
		Labels       map[string]string `json:"labels"`
		Annotations  map[string]string `json:"annotations"`
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

// container is what is read of a container of any of the three sorts.
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
		Secret *secretRef `json:"secretKeyRef"`
	} `json:"valueFrom"`
}

type envFrom struct {
	Secret *secretRef `json:"secretRef"`
}

type secretRef struct {
	Name string `json:"name"`
}

type mount struct {
	Name string `json:"name"`
	Path string `json:"mountPath"`
}

type volume struct {
	Name   string `json:"name"`
	Secret *struct {
		Name string `json:"secretName"`
	} `json:"secret"`
	Projected *struct {
		Sources []struct {
			Secret *secretRef `json:"secret"`
		} `json:"sources"`
	} `json:"projected"`
}

// groups are the lists of containers with their place in the document.
func (p *pod) groups() []group {
	return []group{
		{"/spec/initContainers", p.Spec.InitContainers},
		{"/spec/containers", p.Spec.Containers},
		{"/spec/ephemeralContainers", p.Spec.EphemeralContainers},
	}
}

type group struct {
	path string
	list []container
}

// unfit says why a pod cannot hold a sidecar, or "".
func (i *Injector) unfit(p *pod) string {
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

// secrets are the names of the Secrets that a volume shows.
func (v *volume) secrets() (out []string) {
	if v.Secret != nil {
		out = append(out, v.Secret.Name)
	}
	if v.Projected != nil {
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				out = append(out, s.Secret.Name)
			}
		}
	}
	return out
}

// secrets are the names of the Secrets that a container takes into its
// environment.
func (c *container) secrets() (out []string) {
	for _, v := range c.Env {
		if v.ValueFrom != nil && v.ValueFrom.Secret != nil {
			out = append(out, v.ValueFrom.Secret.Name)
		}
	}
	for _, e := range c.EnvFrom {
		if e.Secret != nil {
			out = append(out, e.Secret.Name)
		}
	}
	return out
}

// raw is a JSON value that is passed on as it is.
type raw = jsontext.Value
