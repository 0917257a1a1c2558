package inject

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Patch is one operation of a JSON Patch (RFC 6902).
type Patch struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value raw    `json:"value,omitzero"`
}

type answer struct {
	refuse   string // why the pod is refused; "" allows it
	result   string // the metric label: injected, skipped, refused, ok
	patch    []Patch
	warnings []string
}

func refused(format string, args ...any) answer {
	return answer{refuse: fmt.Sprintf(format, args...), result: "refused"}
}

func (i *Injector) mutate(p *pod) answer {
	switch opt, has := p.Metadata.Annotations[AnnotationInject]; {
	case has && opt != "true" && opt != "false":
		return refused("annotation %s is %q, want \"true\" or \"false\"", AnnotationInject, opt)
	case opt == "false", !has && !i.all:
		return skip(p)
	}
	t := i.template
	if why := cmp.Or(i.unsuitable(p), t.collision(p)); why != "" {
		return refused("%s", why)
	}
	b := &builder{}
	b.object("/metadata/labels", p.Metadata.Labels, t.labels)
	b.object("/metadata/annotations", p.Metadata.Annotations, t.annotations)
	b.list("/spec/volumes", p.Spec.Volumes, t.volumes, false, "name")
	if missing := b.containers(p, t); len(missing) > 0 {
		return refused("%s names %s, which the pod does not have", AnnotationContainers, strings.Join(missing, ", "))
	}
	b.sidecar(p, t)
	return answer{patch: b.ops, warnings: b.warnings, result: "injected"}
}

// skip removes the label from a pod that gets no sidecar. Network policies of backends
// would otherwise admit the pod.
func skip(p *pod) answer {
	a := answer{result: "skipped"}
	if _, has := p.Metadata.Labels[LabelInjected]; has {
		a.patch = []Patch{{Op: "remove", Path: "/metadata/labels/" + pointer(LabelInjected)}}
		a.warnings = []string{"label " + LabelInjected + " was removed: the pod has no sidecar"}
	}
	return a
}

// collision returns a name, port or path of the sidecar that the pod already uses, as a
// sentence; "" if there is none.
func (t *template) collision(p *pod) string {
	for _, c := range p.containers() {
		if c.Name == t.name {
			continue
		}
		for _, port := range c.Ports {
			if slices.Contains(t.ports, port.Port) {
				return fmt.Sprintf("container %s uses port %d, which is the sidecar's", c.Name, port.Port)
			}
		}
		for _, m := range c.VolumeMounts {
			for _, w := range t.mounts {
				if at := text(m, "mountPath"); at == text(w, "mountPath") && text(m, "name") != text(w, "name") {
					return fmt.Sprintf("container %s mounts something else at %s", c.Name, at)
				}
			}
		}
	}
	if slices.ContainsFunc(p.Spec.Containers, func(c container) bool { return c.Name == t.name }) {
		return fmt.Sprintf("a container is called %s, which is the sidecar's name", t.name)
	}
	return t.leak(p, true)
}

type builder struct {
	ops      []Patch
	warnings []string
}

func (b *builder) op(op, path string, v any) {
	value, _ := encode(v) // cannot fail for values that were decoded from JSON
	b.ops = append(b.ops, Patch{Op: op, Path: path, Value: value})
}

// object sets members of a string map, which may be absent. The operation add also replaces
// an existing member.
func (b *builder) object(path string, have, want map[string]string) {
	all := map[string]string{}
	maps.Copy(all, have)
	maps.Copy(all, want)
	if !maps.Equal(all, have) {
		b.op("add", path, all)
	}
}

// list adds objects to the front or the end of a list, or puts them in place of those that
// equal them in the members of key.
func (b *builder) list(path string, have, want []object, front bool, key ...string) {
	all, fresh := slices.Clone(have), []object(nil)
	for _, w := range want {
		found := false
		for i, h := range have {
			if !slices.ContainsFunc(key, func(member string) bool { return text(h, member) != text(w, member) }) {
				all[i], found = w, true
			}
		}
		if !found {
			fresh = append(fresh, w)
		}
	}
	all = append(all, fresh...)
	if front {
		all = append(fresh, all[:len(have)]...)
	}
	if !reflect.DeepEqual(all, have) {
		b.op("add", path, all)
	}
}

// containers adds the environment and the mounts to every other container. It returns the
// names in the annotation that match no container. The template's variables are prepended,
// so that the container's own can refer to them, and replace those of the same name, with
// a warning.
func (b *builder) containers(p *pod, t *template) (missing []string) {
	only, limited := p.Metadata.Annotations[AnnotationContainers]
	if limited {
		for name := range strings.SplitSeq(only, ",") {
			missing = append(missing, strings.TrimSpace(name))
		}
	}
	names := slices.Clone(missing)
	for path, c := range p.containers() {
		// New pods have no ephemeral containers.
		ephemeral := strings.HasPrefix(path, ephemeralContainers)
		if c.Name == t.name || limited && !slices.Contains(names, c.Name) || ephemeral {
			continue
		}
		missing = slices.DeleteFunc(missing, func(s string) bool { return s == c.Name })
		for _, w := range t.env {
			for _, v := range c.Env {
				if name := text(w, "name"); text(v, "name") == name && !sameVariable(v, w) {
					b.warnings = append(b.warnings, fmt.Sprintf("container %s: %s now leads to the sidecar", c.Name, name))
				}
			}
		}
		b.list(path+"/env", c.Env, t.env, true, "name")
		b.list(path+"/volumeMounts", c.VolumeMounts, t.mounts, false, "name", "mountPath")
	}
	return missing
}

func sameVariable(v, w object) bool {
	return v["valueFrom"] == nil && w["valueFrom"] == nil && text(v, "value") == text(w, "value")
}

// sidecar inserts the container before all other init containers, so that it already runs
// when they start.
func (b *builder) sidecar(p *pod, t *template) {
	const path = initContainers
	if len(p.Spec.InitContainers) == 0 {
		b.op("add", path, []object{t.sidecar})
		return
	}
	op := "add"
	switch k := slices.IndexFunc(p.Spec.InitContainers, func(c container) bool { return c.Name == t.name }); {
	case k == 0:
		op = "replace"
	case k > 0:
		b.ops = append(b.ops, Patch{Op: "remove", Path: path + "/" + strconv.Itoa(k)})
	}
	b.op(op, path+"/0", t.sidecar)
}

func pointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
