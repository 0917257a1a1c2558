package inject

import (
	"cmp"
	"fmt"
	"maps"
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

// answer is a webhook's response about a pod.
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
	b.list("/spec/volumes", len(p.Spec.Volumes), t.volumes, false, func(w part, at int) bool {
		return p.Spec.Volumes[at].name() == w.name
	})
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
		if c.Name == t.sidecar.name {
			continue
		}
		for _, port := range c.Ports {
			if slices.Contains(t.ports, port.Port) {
				return fmt.Sprintf("container %s uses port %d, which is the sidecar's", c.Name, port.Port)
			}
		}
		for _, m := range c.VolumeMounts {
			for _, w := range t.mounts {
				if m.Path == w.mount().Path && m.Name != w.name {
					return fmt.Sprintf("container %s mounts something else at %s", c.Name, m.Path)
				}
			}
		}
	}
	if slices.ContainsFunc(p.Spec.Containers, func(c container) bool { return c.Name == t.sidecar.name }) {
		return fmt.Sprintf("a container is called %s, which is the sidecar's name", t.sidecar.name)
	}
	return t.leak(p, true)
}

type builder struct {
	ops      []Patch
	warnings []string
}

func (b *builder) op(op, path string, v any) {
	value, ok := v.(raw)
	if !ok {
		value, _ = encode(v) // cannot fail: strings, and lists of raw values
	}
	b.ops = append(b.ops, Patch{Op: op, Path: path, Value: value})
}

// object sets members of a string map, which may be absent.
func (b *builder) object(path string, have, want map[string]string) {
	if len(want) == 0 {
		return
	}
	if have == nil {
		b.op("add", path, want)
		return
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if have[k] != want[k] {
			b.op("add", path+"/"+pointer(k), want[k]) // the operation add also replaces an existing member
		}
	}
}

// list adds parts to a list, or replaces the elements that are the same part. It calls same
// once for each part and element, in order: the one of containers appends warnings.
func (b *builder) list(path string, length int, want []part, front bool, same func(want part, at int) bool) {
	var fresh []raw
	for _, w := range want {
		found := false
		for at := range length {
			if same(w, at) {
				b.op("replace", path+"/"+strconv.Itoa(at), w.value)
				found = true
			}
		}
		if !found {
			fresh = append(fresh, w.value)
		}
	}
	switch {
	case len(fresh) == 0:
	case length == 0:
		b.op("add", path, fresh)
	case front: // in reverse order, so that they end up in order
		for _, v := range slices.Backward(fresh) {
			b.op("add", path+"/0", v)
		}
	default:
		for _, v := range fresh {
			b.op("add", path+"/-", v)
		}
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
		if c.Name == t.sidecar.name || limited && !slices.Contains(names, c.Name) || ephemeral {
			continue
		}
		missing = slices.DeleteFunc(missing, func(s string) bool { return s == c.Name })
		b.list(path+"/env", len(c.Env), t.env, true, func(w part, at int) bool {
			v := c.Env[at]
			if v.Name == w.name && !v.equals(w) {
				warning := fmt.Sprintf("container %s: %s now leads to the sidecar", c.Name, w.name)
				b.warnings = append(b.warnings, warning)
			}
			return v.Name == w.name
		})
		b.list(path+"/volumeMounts", len(c.VolumeMounts), t.mounts, false, func(w part, at int) bool {
			return c.VolumeMounts[at] == w.mount()
		})
	}
	return missing
}

// sidecar inserts the container before all other init containers, so that it already runs
// when they start.
func (b *builder) sidecar(p *pod, t *template) {
	const path = initContainers
	if len(p.Spec.InitContainers) == 0 {
		b.op("add", path, []raw{t.sidecar.value})
		return
	}
	op := "add"
	switch k := slices.IndexFunc(p.Spec.InitContainers, func(c container) bool { return c.Name == t.sidecar.name }); {
	case k == 0:
		op = "replace"
	case k > 0:
		b.ops = append(b.ops, Patch{Op: "remove", Path: path + "/" + strconv.Itoa(k)})
	}
	b.op(op, path+"/0", t.sidecar.value)
}

// pointer escapes a key for a JSON pointer.
func pointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
