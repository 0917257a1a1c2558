package inject

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// validate checks a pod in the form in which it will be stored, after all mutating
// webhooks: a pod with the label has the sidecar, and no other container has the
// sidecar's secrets.
func (i *Injector) validate(p *pod, stored raw) answer {
	t := i.template
	injected := p.Metadata.Labels[LabelInjected] == "true"
	if why := t.leak(p, injected); why != "" {
		return refused("%s", why)
	}
	if !injected {
		return answer{result: "ok"}
	}
	if why := i.unsuitable(p); why != "" {
		return refused("%s", why)
	}
	var whole struct {
		Spec struct {
			InitContainers []object `json:"initContainers"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(stored, &whole); err != nil {
		return refused("the pod cannot be read")
	}
	k := slices.IndexFunc(whole.Spec.InitContainers, func(c object) bool { return c["name"] == t.name })
	if k < 0 {
		return refused("label %s is there, and the sidecar is not", LabelInjected)
	}
	if member, ok := t.isSidecar(whole.Spec.InitContainers[k]); !ok {
		return refused("container %s is not the sidecar of this installation: its %s differs", t.name, member)
	}
	for _, v := range t.volumes {
		if !slices.ContainsFunc(p.Spec.Volumes, func(have object) bool { return covers(have, v) }) {
			return refused("volume %s is not the sidecar's", text(v, "name"))
		}
	}
	return answer{result: "ok"}
}

// exec answers a request to run a command in a container of a running pod. In the sidecar's container
// the command would have access to the sidecar's Secrets.
func (i *Injector) exec(options raw) answer {
	var o struct {
		Container string `json:"container"`
	}
	if err := json.Unmarshal(options, &o); err != nil {
		return refused("the options of the command cannot be read")
	}
	if o.Container == i.template.name {
		return refused("the command would run in container %s, with the sidecar's Secrets", o.Container)
	}
	return answer{result: "ok"}
}

// placement lists the members of a pod's spec that determine where and for how long it
// runs.
var placement = []string{
	"activeDeadlineSeconds", "affinity", "nodeName", "nodeSelector", "schedulingGates", "terminationGracePeriodSeconds", "tolerations",
}

// unchanged reports whether an update changes neither the label nor anything that runs.
// The pod was reviewed when it was created, perhaps against an earlier template: after an
// upgrade, controllers must still be able to remove finalizers from the pods of Jobs.
func unchanged(before, after raw) bool {
	var pods [2]struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec map[string]any `json:"spec"`
	}
	for k, object := range []raw{before, after} {
		if json.Unmarshal(object, &pods[k]) != nil || pods[k].Spec == nil {
			return false
		}
		for _, member := range placement {
			delete(pods[k].Spec, member)
		}
	}
	return pods[0].Metadata.Labels[LabelInjected] == pods[1].Metadata.Labels[LabelInjected] && reflect.DeepEqual(pods[0].Spec, pods[1].Spec)
}

// tolerated lists the members that may differ from the template at any depth: the API server
// normalizes quantities, and autoscalers change them.
var tolerated = []string{"resources", "sizeLimit"}

// isSidecar reports whether a stored container is the template's. If not, member is the
// first member that differs. Admission may add mounts.
func (t *template) isSidecar(have object) (member string, ok bool) {
	members := slices.AppendSeq(slices.Collect(maps.Keys(t.sidecar)), maps.Keys(have))
	slices.Sort(members)
	for _, k := range slices.Compact(members) {
		want, ours := t.sidecar[k]
		switch {
		case k == "volumeMounts":
			ok = containsAll(have[k], want) && t.mayMount(have[k])
		case ours:
			ok = slices.Contains(tolerated, k) || covers(have[k], want)
		default:
			ok = mayAdd(k, have[k])
		}
		if !ok {
			return k, false
		}
	}
	return "", true
}

// additions lists the members that an object may have in addition to the template's: what
// the API server fills in, and what admission restricts (OpenShift's security context
// constraints), each with its only allowed value; nil allows any. Every other member
// could change what runs, such as subPath, another terminationMessagePath, or privileged.
var additions = map[string]any{
	"imagePullPolicy": nil, "resizePolicy": nil, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
	"protocol": "TCP", "scheme": "HTTP", "service": "",
	"failureThreshold": nil, "periodSeconds": nil, "successThreshold": nil, "timeoutSeconds": nil,
	"apiVersion": "v1", "creationTimestamp": nil, "defaultMode": nil, "divisor": nil, "expirationSeconds": nil, "volumeMode": "Filesystem",
	"allowPrivilegeEscalation": false, "drop": nil, "privileged": false, "procMount": "Default", "readOnlyRootFilesystem": true,
	"level": nil, "runAsNonRoot": true, "runAsUser": nil, "type": "RuntimeDefault",
}

// nested lists members of additions that may only contain such members themselves. Of the
// SELinux options only the level is allowed: a type such as spc_t confines nothing.
var nested = []string{"capabilities", "metadata", "seLinuxOptions", "seccompProfile", "securityContext"}

// mayAdd reports whether an object may have a member that the template's object lacks.
func mayAdd(k string, have any) bool {
	value, known := additions[k]
	switch {
	case slices.Contains(nested, k):
		return covers(have, object{})
	case slices.Contains(tolerated, k) || have == nil:
		return true
	}
	return known && (value == nil || have == value)
}

// tokens is the directory where admission mounts tokens of service accounts and clouds. A
// mount elsewhere could replace the sidecar's trust roots, configuration or program.
const tokens = "/var/run/secrets/"

// mayMount reports whether every mount is one of the template's, or a token outside of
// the template's paths.
func (t *template) mayMount(have any) bool {
	want := objects(t.sidecar["volumeMounts"])
	place := func(mount any) string { return path.Clean(text(mount, "mountPath")) + "/" }
	list, _ := have.([]any)
	return !slices.ContainsFunc(list, func(m any) bool {
		if slices.ContainsFunc(want, func(w object) bool { return covers(m, w) }) {
			return false
		}
		at := place(m)
		return !strings.HasPrefix(at, tokens) || at == tokens || slices.ContainsFunc(want, func(w object) bool {
			return strings.HasPrefix(at, place(w)) || strings.HasPrefix(place(w), at)
		})
	})
}

// covers reports whether have equals want, except that objects may also have what mayAdd
// allows. Lists must have the same length.
func covers(have, want any) bool {
	switch w := want.(type) {
	case object:
		h, ok := have.(object)
		if !ok {
			return have == nil && len(w) == 0
		}
		for k, v := range w {
			if !slices.Contains(tolerated, k) && !covers(h[k], v) {
				return false
			}
		}
		for k, v := range h {
			if _, ours := w[k]; !ours && !mayAdd(k, v) {
				return false
			}
		}
		return true
	case []any:
		h, _ := have.([]any)
		return slices.EqualFunc(h, w, covers)
	default:
		return have == want
	}
}

func containsAll(have, want any) bool {
	h, _ := have.([]any)
	w, _ := want.([]any)
	return !slices.ContainsFunc(w, func(x any) bool {
		return !slices.ContainsFunc(h, func(y any) bool { return covers(y, x) })
	})
}

// leak finds a container, other than the sidecar, that would get the sidecar's secrets or
// could read them from the sidecar. If injected is set, the pod has or gets the sidecar,
// whose container is compared as a whole; otherwise a container of that name is checked
// like any other.
func (t *template) leak(p *pod, injected bool) string {
	for _, v := range p.Spec.Volumes {
		name := text(v, "name")
		if slices.Contains(t.privateVolumes, name) {
			continue // its mounts are checked below
		}
		secrets, claims := references(v)
		for _, c := range claims {
			if slices.ContainsFunc(t.claimSuffixes, func(suffix string) bool { return strings.HasSuffix(c, suffix) }) {
				return fmt.Sprintf("volume %s uses claim %s, which is reserved for sidecars", name, c)
			}
		}
		for _, s := range secrets {
			if slices.Contains(t.reservedSecrets, s) {
				return fmt.Sprintf("volume %s uses Secret %s, which is reserved for the sidecar", name, s)
			}
		}
	}
	for at, c := range p.containers() {
		if c.Target == t.name {
			return fmt.Sprintf("container %s would join the sidecar's processes", c.Name)
		}
		if injected && c.Name == t.name && strings.HasPrefix(at, initContainers) {
			continue
		}
		for _, s := range c.secrets() {
			if slices.Contains(t.reservedSecrets, s) {
				return fmt.Sprintf("container %s uses Secret %s, which is reserved for the sidecar", c.Name, s)
			}
		}
		for _, v := range c.volumes() {
			if slices.Contains(t.privateVolumes, v) {
				return fmt.Sprintf("container %s mounts volume %s, which is reserved for the sidecar", c.Name, v)
			}
		}
	}
	return ""
}
